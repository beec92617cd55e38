// The models on this machine: GGUF files in models_dir(), each with a small JSON file beside it
// that names its source and its SHA-256. A model in parts (model/gguf/parts.h) is several files,
// named by the first: NAME-00001-of-00003.gguf and so on, with NAME.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/chat_template.h"
#include "model/gguf/gguf.h"

namespace hearth::cli {

struct LocalModel {
  std::string name;
  std::filesystem::path path;            // of the first part, if it has several
  std::uint64_t bytes = 0;               // of all its files
  std::int64_t modified = 0;             // unix seconds
  std::string sha256;                    // hex; empty when unknown, and of a model in parts
  std::vector<std::string> part_sha256;  // of each part
  std::string source;
};

// Sorted by name. A file without its JSON is listed with the other fields; parts without the first
// are not.
std::vector<LocalModel> list_models();

// A path to a GGUF file, or to the first part of several, or the name of a pulled model. kNotFound
// says how to get it.
Result<std::filesystem::path> resolve_model(const std::string& name_or_path);

// "SmolLM2-135M-Instruct.Q4_1.gguf" -> "smollm2-135m-instruct.q4_1", and of any part the same
std::string model_name(const std::filesystem::path& file);

// [a-z0-9._-], 1 to 128 characters, not beginning with a dot nor ending like a part's: also a safe
// file name.
Status check_model_name(std::string_view name);

// The chat template in the file at `path`, or the model's own if `path` is empty. Errors name the
// place, and how to use another template.
Result<std::shared_ptr<const model::ChatTemplate>> read_chat_template(
    const model::GgufFile& model, const model::Tokenizer& tokenizer, const std::string& path);
// Deletes a pulled model: all its parts and its record. kNotFound for a model outside of
// models_dir().
Status remove_model(const std::string& name);

Status write_model_record(const LocalModel& model);
// In hex. `progress` receives the number of bytes hashed so far.
Result<std::string> sha256_of_file(const std::filesystem::path& path,
                                   const std::function<void(std::uint64_t)>& progress);

}  // namespace hearth::cli
