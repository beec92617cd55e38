// hearth pull: puts a model into models_dir(). Sources are a local path, https://...,
// hf:org/repo/file[@revision], hf:org/repo[:quantisation][@revision], or the name of a model that
// is already there. Of a model in parts (model/gguf/parts.h) they name the first part.
#pragma once

#include <string>

#include "base/result.h"
#include "cli/models/models.h"

namespace hearth::cli {

struct PullOptions {
  std::string source;
  std::string name;      // empty: from the file name
  std::string sha256;    // hex; empty: the hub's own digest where there is one
  bool offline = false;  // fail instead of dialling out
  bool force = false;    // replace a model of the same name
  bool quiet = false;
};

// Resumes an interrupted pull. The files get their final names only when all are complete and
// verified.
Result<LocalModel> pull_model(const PullOptions& options);

int run_pull(const PullOptions& options, bool json);

}  // namespace hearth::cli
