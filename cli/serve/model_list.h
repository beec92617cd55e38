// The model files that a server is told to serve.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace hearth::cli {

// One model that is given by hand, or found in a folder.
struct ListedModel {
  std::filesystem::path path;
  bool found = false;  // in a folder: it is left out where it cannot be served
};

// Each of `given` is a file, a pulled name, or a folder, which stands for its *.gguf files by name.
// No file comes twice. kNotFound: there is no such file or name, or a folder without a model.
// kInvalidInput: there are more than limits::kServedModels.
Result<std::vector<ListedModel>> list_served_models(const std::vector<std::string>& given);

}  // namespace hearth::cli
