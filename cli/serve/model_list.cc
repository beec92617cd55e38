#include "cli/serve/model_list.h"

#include <algorithm>

#include "base/limits.h"
#include "cli/models/models.h"
#include "model/gguf/parts.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

Result<std::vector<fs::path>> models_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code ignored;
    if (entry->path().extension() != ".gguf" || !entry->is_regular_file(ignored)) continue;
    // The first part stands for all parts. If it is missing, the errors of the other parts say so.
    const auto part = model::part_name(entry->path().string());
    if (part && part->place.number > 1 && fs::exists(part->of(1), ignored)) continue;
    files.push_back(entry->path());
  }
  if (failed) {
    return Error::of(ErrorCode::kIo, "cannot read the folder ", folder.string(), ": ",
                     failed.message());
  }
  if (files.empty()) {
    return Error::of(ErrorCode::kNotFound, "the folder ", folder.string(),
                     " has no model: no file whose name ends with .gguf");
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

Result<std::vector<ListedModel>> list_served_models(const std::vector<std::string>& given) {
  std::vector<ListedModel> models;
  const auto add = [&models](fs::path path, bool found) {
    const bool is_new = std::ranges::none_of(models, [&path](const ListedModel& each) {
      std::error_code ignored;
      return fs::equivalent(each.path, path, ignored) && !ignored;
    });
    if (is_new) models.push_back({std::move(path), found});
  };
  for (const std::string& each : given) {
    std::error_code ignored;
    if (!fs::is_directory(each, ignored)) {
      TRY(fs::path path, resolve_model(each));
      add(std::move(path), false);
      continue;
    }
    TRY(const std::vector<fs::path> files, models_in(each));
    for (const fs::path& file : files) add(file, true);
  }
  REQUIRE(models.size() <= limits::kServedModels, models.size(),
          " models are given; a server has at most ", limits::kServedModels);
  return models;
}

}  // namespace hearth::cli
