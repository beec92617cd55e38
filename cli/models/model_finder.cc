#include "cli/models/model_finder.h"

#include <set>
#include <system_error>

#include "cli/process/paths.h"
#include "model/gguf/gguf.h"
#include "model/gguf/parts.h"

namespace hearth::cli {
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kEntriesMax = 200'000;
constexpr int kDepthMax = 12;

fs::path hub_cache() {
  if (fs::path path = environment_text("HF_HUB_CACHE"); !path.empty()) return path;
  if (fs::path path = environment_text("HF_HOME"); !path.empty()) return path / "hub";
  if (fs::path path = environment_text("XDG_CACHE_HOME"); path.is_absolute()) {
    return path / "huggingface" / "hub";
  }
  const fs::path home = environment_text("HOME");
  return home.empty() ? fs::path() : home / ".cache" / "huggingface" / "hub";
}

// The parts together have about the length of the one file, whose header differs a little from
// theirs. So most models are skipped without being read.
bool is_in_parts(const fs::path& first, std::uint64_t bytes) {
  const std::vector<std::string> parts = model::all_parts(first.string());
  if (parts.size() < 2) return false;
  std::uint64_t sum = 0;
  for (const std::string& part : parts) {
    std::error_code missing;
    sum += fs::file_size(part, missing);
    if (missing) return false;
  }
  if (sum < bytes / 2 || sum / 2 > bytes) return false;
  const auto file = model::GgufFile::open(first.string());
  return file.ok() && !(*file)->parts().empty() && (*file)->file_bytes() == bytes;
}

// Whether the file belongs to a pull in progress (pull.cc). Such a file will be renamed, and a
// worker would hold a path that no longer exists.
bool is_incomplete(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') &&
         (name.ends_with(".incomplete") || name.ends_with(".incomplete-parts"));
}

}  // namespace

std::vector<fs::path> model_folders(const std::vector<std::string>& more) {
  std::vector<fs::path> folders = {models_dir(), hub_cache()};
  if (fs::path path = environment_text("OLLAMA_MODELS"); !path.empty()) {
    folders.push_back(path);
  } else if (const fs::path home = environment_text("HOME"); !home.empty()) {
    folders.push_back(home / ".ollama" / "models");
  }
  folders.emplace_back("/usr/share/ollama/.ollama/models");
  folders.insert(folders.end(), more.begin(), more.end());
  return folders;
}

std::vector<std::string> models_of_size(const std::vector<fs::path>& folders, std::uint64_t bytes) {
  std::vector<std::string> found;
  std::set<fs::path> seen;  // a file of the hub's cache has several names
  std::size_t entries = 0;
  for (const fs::path& folder : folders) {
    std::error_code failed;
    const auto options = fs::directory_options::skip_permission_denied;
    auto at = fs::recursive_directory_iterator(folder, options, failed);
    while (!failed && at != fs::recursive_directory_iterator() && ++entries <= kEntriesMax) {
      std::error_code unreadable;
      if (at.depth() >= kDepthMax) at.disable_recursion_pending();
      if (is_incomplete(at->path())) {
        at.disable_recursion_pending();
      } else if (at->is_regular_file(unreadable) && at->file_size(unreadable) == bytes &&
                 !unreadable) {
        const fs::path real = fs::canonical(at->path(), unreadable);
        if (!unreadable && seen.insert(real).second) found.push_back(real.string());
      } else if (at->is_regular_file(unreadable) && is_in_parts(at->path(), bytes)) {
        // Uses this name and not the target of the link: the other parts are not beside the target.
        const fs::path real = fs::canonical(at->path(), unreadable);
        if (!unreadable && seen.insert(real).second) found.push_back(at->path().string());
      }
      at.increment(failed);
    }
  }
  return found;
}

}  // namespace hearth::cli
