// Finds model files that other programs have put on this disk, to be used in place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace hearth::cli {

// Where to look: models_dir(); the hub's cache (HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME); ollama's
// (OLLAMA_MODELS, of the user and of the system); then `more`.
std::vector<std::filesystem::path> model_folders(const std::vector<std::string>& more);

// Regular files of exactly this many bytes in these folders and their sub-folders, without
// following links to folders. Also the first parts of models in parts (model/gguf/parts.h) whose
// one file has this many bytes. Skips unreadable files, files of a pull in progress, and everything
// beyond 200,000 entries.
std::vector<std::string> models_of_size(const std::vector<std::filesystem::path>& folders,
                                        std::uint64_t bytes);

}  // namespace hearth::cli
