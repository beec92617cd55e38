// GGUF files (the format of llama.cpp: ggml/docs/gguf.md), read over mmap. Version 3, and 2, whose
// little-endian layout is the same.
//
// A model may lie in several files, as llama.cpp's gguf-split writes them (parts.h). It is then
// read as the one file that the parts were made from: the same keys, offsets, length and
// fingerprint.
//
// Independent of any model family. Every count, length, product and offset is checked before use,
// with the limits of base/limits.h; errors name key, tensor and byte offset. Memory is bounded by
// those limits for any file. Immutable after open, safe to share between threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/result.h"

namespace hearth::model {

// Values are the file's own (ggml_type). Only the listed ones are known; others are refused.
enum class TensorType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
};
inline constexpr std::uint32_t kTensorTypeNumbers = 40;  // all of them are below
struct TensorTypeInfo {
  std::string_view name;
  std::uint32_t block_elements;  // elements of one block; the row length is a multiple
  std::uint32_t block_bytes;
};
// Null when the type is not known.
const TensorTypeInfo* tensor_type_info(std::uint32_t type);
// "Q4_1"; or "Q8_1 (type 9)" for a type of ggml that Hearth does not read; or "type 77".
std::string tensor_type_name(std::uint32_t type);

// A tensor's place in the model. Dims as the file has them: dims[0] is the contiguous one.
struct TensorInfo {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<std::uint64_t> dims;
  std::uint64_t offset = 0;  // from the start of the model as one file
  std::uint64_t bytes = 0;
  std::uint32_t part = 0;         // whose file has the bytes; 0 is the first
  std::uint64_t part_offset = 0;  // from the start of that file
  std::uint64_t elements() const;
};

struct GgufArray;
using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string, GgufArray>;
// One flat array. Integers of every width are widened; nested arrays are refused.
struct GgufArray {
  std::variant<std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<double>,
               std::vector<bool>, std::vector<std::string_view>>
      items;  // views into the header
  std::size_t size() const;
};

class GgufFile {
 public:
  // A model in one file, or in parts: then `path` is that of the first part, and the others lie
  // beside it. kInvalidInput for another part, with the name of the first; kNotFound names a part
  // that is missing.
  //
  // A file must keep its length while it is mapped: one that is cut short later raises SIGBUS at
  // the next touch of a lost page, so models are replaced by rename and never rewritten.
  static Result<std::shared_ptr<const GgufFile>> open(const std::string& path);
  // A whole model in bytes that outlive the result (tests, fuzzing).
  static Result<std::shared_ptr<const GgufFile>> parse(ByteSpan bytes, std::string name);
  // One file as it is, which may be a part. `beginning`: all of it or, to read the header alone,
  // its first bytes; they outlive the result. `file_bytes`: of the whole file.
  static Result<std::shared_ptr<const GgufFile>> parse_part(ByteSpan beginning,
                                                            std::uint64_t file_bytes,
                                                            std::string name);
  ~GgufFile();
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  const std::string& path() const { return path_; }  // for a model in parts: the path of the first
  // The bytes before the first tensor.
  ByteSpan header() const { return bytes_.first(header_bytes_); }
  // The pages of the files behind it; none after parse().
  std::vector<ByteSpan> mapped() const;
  std::uint64_t file_bytes() const { return file_bytes_; }  // of a model in parts: as one file
  // The parts that it was joined from; empty for one file.
  const std::vector<std::shared_ptr<const GgufFile>>& parts() const { return parts_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const TensorInfo* find_tensor(std::string_view name) const;
  // Must not be called when only the header was read.
  ByteSpan tensor_bytes(const TensorInfo& tensor) const;

  // Null when the key is absent.
  const GgufValue* find(std::string_view key) const;
  std::vector<std::string_view> keys() const;
  // kNotFound when absent, kInvalidInput when of another kind or out of range; named in the error.
  Result<std::uint64_t> get_uint(std::string_view key) const;
  Result<double> get_float(std::string_view key) const;
  Result<std::string> get_string(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;

  // BLAKE2b of everything before the tensor data, and the file's length: two files that differ in
  // shape, types, vocabulary or template differ here. Not a digest of the weights.
  Hash256 fingerprint() const { return fingerprint_; }

 private:
  // Where a record lies in the header.
  struct Record {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  GgufFile() = default;
  static Result<std::shared_ptr<const GgufFile>> open_part(const std::string& path);
  // Fills all of the below from the bytes and the file's length, once (parser.cc).
  Status read_header();

  std::string path_;
  ByteSpan bytes_;  // of the file, or of its header alone
  std::uint64_t file_bytes_ = 0;
  std::size_t header_bytes_ = 0;
  bool mapped_ = false;  // bytes_ are pages of a file
  Bytes joined_;         // the header of a model in parts, which no file has
  std::vector<std::shared_ptr<const GgufFile>> parts_;
  std::vector<TensorInfo> tensors_;
  // Ordered maps: names come from the file, and the file must not be able to make look-ups slow.
  // Their keys are views into the file.
  std::map<std::string_view, std::size_t> tensor_index_;
  std::map<std::string_view, GgufValue> values_;
  std::uint64_t alignment_ = 32;
  Record key_values_;                    // all of them
  std::vector<Record> part_key_values_;  // those that say which part a file is, in their order
  Hash256 fingerprint_;
  friend class GgufParser;
  friend class PartJoiner;
};

}  // namespace hearth::model
