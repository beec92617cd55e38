#include "model/gguf/gguf.h"

#include <sys/mman.h>

#include "base/check.h"
#include "model/gguf/mapped_file.h"
#include "model/gguf/parts.h"
#include "model/gguf/untrusted_text.h"

namespace hearth::model {
namespace {

Error wrong_kind(const std::string& path, std::string_view key, std::string_view wanted) {
  return Error::invalid(quote(path), ": key ", quote(key), " must be ", wanted);
}

Error missing(const std::string& path, std::string_view key) {
  return Error::of(ErrorCode::kNotFound, quote(path), ": key ", quote(key), " is missing");
}

template <typename T>
Result<T> get_as(const GgufFile& file, std::string_view key, std::string_view wanted) {
  const GgufValue* value = file.find(key);
  if (value == nullptr) return missing(file.path(), key);
  if (const T* found = std::get_if<T>(value)) return *found;
  return wrong_kind(file.path(), key, wanted);
}

}  // namespace

std::size_t GgufArray::size() const {
  return std::visit([](const auto& list) { return list.size(); }, items);
}

Result<std::shared_ptr<const GgufFile>> GgufFile::open(const std::string& path) {
  TRY(auto first, open_part(path));
  TRY(const std::vector<std::string> paths, part_paths(*first));
  std::vector<std::shared_ptr<const GgufFile>> parts{std::move(first)};
  if (paths.empty()) return std::move(parts.front());
  PartBudget budget;
  TRY_VOID(budget.add(*parts.front()));
  for (std::size_t i = 1; i < paths.size(); ++i) {
    auto part = open_part(paths[i]);
    if (!part.ok() && part.error().code == ErrorCode::kNotFound) {
      return Error::of(ErrorCode::kNotFound, quote(path), ": part ", i + 1, " of ", paths.size(),
                       " is missing: there is no ", quote(paths[i]),
                       "; put all parts into one folder");
    }
    TRY(parts.emplace_back(), std::move(part));
    TRY_VOID(budget.add(*parts.back()));
  }
  return join_parts(std::move(parts));
}

Result<std::shared_ptr<const GgufFile>> GgufFile::open_part(const std::string& path) {
  TRY(MappedFile mapping, MappedFile::open(path));
  std::shared_ptr<GgufFile> file(new GgufFile);
  file->path_ = path;
  file->bytes_ = mapping.bytes();
  file->file_bytes_ = file->bytes_.size();
  TRY_VOID(file->read_header());
  TRY_VOID(mapping.check_unchanged());
  mapping.release();
  file->mapped_ = !file->bytes_.empty();
  return std::shared_ptr<const GgufFile>(std::move(file));
}

Result<std::shared_ptr<const GgufFile>> GgufFile::parse(ByteSpan bytes, std::string name) {
  TRY(auto file, parse_part(bytes, bytes.size(), std::move(name)));
  TRY(const auto place, part_of(*file));
  REQUIRE(!place, quote(file->path_), " is part ", place->number, " of ", place->count,
          " of a model, and the others are not here");
  return file;
}

Result<std::shared_ptr<const GgufFile>> GgufFile::parse_part(ByteSpan beginning,
                                                             std::uint64_t file_bytes,
                                                             std::string name) {
  INVARIANT(beginning.size() <= file_bytes, "a file is not shorter than its beginning");
  std::shared_ptr<GgufFile> file(new GgufFile);
  file->path_ = std::move(name);
  file->bytes_ = beginning;
  file->file_bytes_ = file_bytes;
  TRY_VOID(file->read_header());
  return std::shared_ptr<const GgufFile>(std::move(file));
}

GgufFile::~GgufFile() {
  if (mapped_) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::vector<ByteSpan> GgufFile::mapped() const {
  std::vector<ByteSpan> pages;
  if (mapped_) pages.push_back(bytes_);
  for (const auto& part : parts_) {
    if (part->mapped_) pages.push_back(part->bytes_);
  }
  return pages;
}

const TensorInfo* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

ByteSpan GgufFile::tensor_bytes(const TensorInfo& tensor) const {
  const ByteSpan file = parts_.empty() ? bytes_ : parts_[tensor.part]->bytes_;
  INVARIANT(tensor.part_offset <= file.size() && tensor.bytes <= file.size() - tensor.part_offset,
            "the files are here, not their headers alone");
  return file.subspan(tensor.part_offset, tensor.bytes);
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::vector<std::string_view> GgufFile::keys() const {
  std::vector<std::string_view> names;
  names.reserve(values_.size());
  for (const auto& entry : values_) names.push_back(entry.first);
  return names;
}

Result<std::uint64_t> GgufFile::get_uint(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return missing(path_, key);
  if (const auto* number = std::get_if<std::uint64_t>(value)) return *number;
  const auto* number = std::get_if<std::int64_t>(value);
  if (number == nullptr) return wrong_kind(path_, key, "an integer");
  if (*number < 0) return wrong_kind(path_, key, "0 or more, it is " + std::to_string(*number));
  return static_cast<std::uint64_t>(*number);
}

Result<double> GgufFile::get_float(std::string_view key) const {
  return get_as<double>(*this, key, "a floating-point number");
}

Result<std::string> GgufFile::get_string(std::string_view key) const {
  return get_as<std::string>(*this, key, "a string");
}

Result<bool> GgufFile::get_bool(std::string_view key) const {
  return get_as<bool>(*this, key, "a bool");
}

}  // namespace hearth::model
