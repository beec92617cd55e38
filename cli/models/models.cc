#include "cli/models/models.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "base/crypto.h"
#include "base/limits.h"
#include "cli/process/paths.h"
#include "cli/terminal/interrupt.h"
#include "model/gguf/parts.h"

namespace hearth::cli {
namespace fs = std::filesystem;

namespace {

std::int64_t modified_seconds(const fs::path& path) {
  std::error_code ignored;
  const auto time = fs::last_write_time(path, ignored);
  if (ignored) return 0;
  const auto system = std::chrono::file_clock::to_sys(time);
  return std::chrono::duration_cast<std::chrono::seconds>(system.time_since_epoch()).count();
}

// Without .gguf, and of a part without its number.
std::string stem_of(const fs::path& model) {
  const std::string file = model.filename().string();
  const auto part = model::part_name(file);
  return part ? part->stem : file.substr(0, file.size() - std::min<std::size_t>(file.size(), 5));
}

fs::path record_path(const fs::path& model) {
  return model.parent_path() / (stem_of(model) + ".json");
}

// Whether the file alone names a model: it is a whole model or a first part.
bool names_a_model(const fs::path& path) {
  std::error_code ignored;
  if (path.extension() != ".gguf" || !fs::is_regular_file(path, ignored)) return false;
  const auto part = model::part_name(path.filename().string());
  return !part || part->place.number == 1;
}

// If there are both, the whole file is preferred to the parts of the same name.
std::optional<fs::path> pulled_model(const std::string& name) {
  std::error_code ignored;
  const fs::path whole = models_dir() / (name + ".gguf");
  if (fs::is_regular_file(whole, ignored)) return whole;
  for (const auto& entry : fs::directory_iterator(models_dir(), ignored)) {
    if (names_a_model(entry.path()) && stem_of(entry.path()) == name) return entry.path();
  }
  return std::nullopt;
}

void read_record(LocalModel& model) {
  std::ifstream file(record_path(model.path));
  if (!file) return;
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object()) return;
  if (json.contains("sha256") && json["sha256"].is_string()) model.sha256 = json["sha256"];
  if (json.contains("source") && json["source"].is_string()) model.source = json["source"];
  if (!json.contains("part_sha256") || !json["part_sha256"].is_array()) return;
  for (const auto& each : json["part_sha256"]) {
    if (each.is_string()) model.part_sha256.push_back(each);
  }
}

}  // namespace

std::string model_name(const fs::path& file) {
  std::string name = file.filename().string();
  if (name.size() > 5 && name.ends_with(".gguf")) name = stem_of(file);
  for (char& c : name) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const bool safe = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_';
    if (!safe) c = '-';
  }
  while (!name.empty() && name.front() == '.') name.erase(0, 1);
  return name.substr(0, 128);
}

Status check_model_name(std::string_view name) {
  const bool characters = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  });
  REQUIRE(characters && !name.empty() && name.size() <= 128 && name.front() != '.', "model name \"",
          name.substr(0, 128),
          "\": 1 to 128 characters of a-z, 0-9, '.', '_' and '-', not beginning with '.'");
  REQUIRE(!model::part_name(std::string(name) + ".gguf"), "model name \"", name,
          "\": it ends like the file of a part; leave the end out");
  return ok_status();
}

std::vector<LocalModel> list_models() {
  std::vector<LocalModel> models;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(models_dir(), ignored)) {
    if (!names_a_model(entry.path())) continue;
    LocalModel model;
    model.path = entry.path();
    model.name = stem_of(entry.path());
    for (const std::string& part : model::all_parts(entry.path().string())) {
      const std::uint64_t bytes = fs::file_size(part, ignored);
      if (!ignored) model.bytes += bytes;
    }
    model.modified = modified_seconds(entry.path());
    read_record(model);
    models.push_back(std::move(model));
  }
  std::sort(models.begin(), models.end(),
            [](const LocalModel& a, const LocalModel& b) { return a.name < b.name; });
  return models;
}

Result<fs::path> resolve_model(const std::string& name_or_path) {
  std::error_code ignored;
  if (fs::is_regular_file(name_or_path, ignored)) return fs::path(name_or_path);
  if (check_model_name(name_or_path).ok()) {
    if (auto path = pulled_model(name_or_path)) return *std::move(path);
  }
  std::string known;
  for (const LocalModel& model : list_models()) known += " " + model.name;
  return Error{
      ErrorCode::kNotFound,
      "no file and no pulled model is called \"" + name_or_path + "\"; " +
          (known.empty() ? "get one with hearth pull (a path, https://... or hf:org/repo:Q4_K_M)"
                         : "pulled models:" + known + "; hearth pull gets another")};
}

Result<std::shared_ptr<const model::ChatTemplate>> read_chat_template(
    const model::GgufFile& model, const model::Tokenizer& tokenizer, const std::string& path) {
  if (path.empty()) {
    auto own = model::ChatTemplate::load(model, tokenizer);
    if (own.ok()) return own;
    Error error = std::move(own).error();
    error.message += " (in the model's file; --chat-template FILE takes another template)";
    return error;
  }
  TRY(const std::string source, read_text(path, limits::kTemplateBytes));
  REQUIRE(!source.empty(), path, " is empty; a chat template is text in Jinja");
  auto given = model::ChatTemplate::parse(source);
  if (given.ok()) return given;
  Error error = std::move(given).error();
  error.message = path + ": " + error.message;
  return error;
}

Status remove_model(const std::string& name) {
  TRY_VOID(check_model_name(name));
  const auto path = pulled_model(name);
  if (!path) {
    return Error::of(ErrorCode::kNotFound, "cannot delete ", name,
                     ": there is no such pulled model; hearth ls shows the "
                     "pulled models");
  }
  // The first part is deleted last: until then the model is listed and can be deleted again.
  std::vector<std::string> files = model::all_parts(path->string());
  std::ranges::reverse(files);
  std::error_code failed;
  for (const std::string& file : files) {
    fs::remove(file, failed);
    if (failed) {
      return Error::of(ErrorCode::kIo, "cannot delete ", file, ": ", failed.message(),
                       "; hearth ls shows the pulled models");
    }
  }
  fs::remove(record_path(*path), failed);
  return ok_status();
}

Status write_model_record(const LocalModel& model) {
  const fs::path path = record_path(model.path);
  std::ofstream file(path);
  nlohmann::json json{{"sha256", model.sha256}, {"source", model.source}, {"bytes", model.bytes}};
  if (!model.part_sha256.empty()) json["part_sha256"] = model.part_sha256;
  file << json.dump() << "\n";
  file.close();
  if (!file) return Error::of(ErrorCode::kIo, "cannot write ", path.string());
  return ok_status();
}

Result<std::string> sha256_of_file(const fs::path& path,
                                   const std::function<void(std::uint64_t)>& progress) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error::of(ErrorCode::kIo, "cannot read ", path.string());
  Sha256 hash;
  std::vector<char> buffer(1 << 20);
  std::uint64_t done = 0;
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         file.gcount() > 0) {
    if (interrupted()) return Error{ErrorCode::kCancelled, "interrupted"};
    const auto count = static_cast<std::size_t>(file.gcount());
    hash.update({reinterpret_cast<const std::byte*>(buffer.data()), count});
    done += count;
    if (progress) progress(done);
  }
  if (file.bad()) return Error::of(ErrorCode::kIo, "cannot read ", path.string());
  return hash.finish().hex();
}

}  // namespace hearth::cli
