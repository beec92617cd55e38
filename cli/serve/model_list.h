// Finds the model files that the user names for a server.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace hearth::cli {

// One model that the user named, or that was found in a folder.
struct ListedModel {
  std::filesystem::path path;
  bool found = false;  // found in a folder: it is left out if it cannot be served
};

// Each of `given` is a file, a pulled name, or a folder. A folder stands for its *.gguf files, in
// the order of their names. No file is listed twice. kNotFound: there is no such file or name, or a
// folder without a model. kInvalidInput: there are more than limits::kServedModels.
Result<std::vector<ListedModel>> list_served_models(const std::vector<std::string>& given);

}  // namespace hearth::cli
