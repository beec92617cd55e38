// The one pass over a GGUF header that fills a GgufFile. Internal to gguf.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "model/gguf/gguf.h"

namespace hearth::model {

class GgufParser {
 public:
  explicit GgufParser(GgufFile& file);
  // Fills the file's values, tensors and fingerprint. Call once.
  Status run();

 private:
  struct Counts {
    std::uint64_t tensors = 0;
    std::uint64_t values = 0;
  };

  Result<Counts> read_header();
  Status check_version(std::uint32_t version) const;
  Status check_count(std::uint64_t count, std::uint64_t minimum_bytes, std::uint64_t limit,
                     std::string_view what) const;

  Status read_key_value(std::uint64_t index);
  Result<std::string_view> read_name(std::string_view what, std::size_t limit);
  Result<std::string_view> read_string(std::string_view what, std::size_t limit);
  Status read_alignment(std::uint32_t type, const GgufValue& value);
  Result<GgufValue> read_value(std::uint32_t type);
  Result<GgufValue> read_scalar(std::uint32_t type);
  Result<GgufValue> read_array();
  Result<GgufValue> read_strings(std::uint64_t count);
  Result<GgufValue> read_bools(std::uint64_t count);
  template <typename Stored, typename Wide>
  GgufValue read_numbers(std::uint64_t count);

  Status read_tensor(std::uint64_t index);
  Status read_dims(TensorInfo& tensor);
  Status size_tensor(TensorInfo& tensor, const TensorTypeInfo& type) const;
  Status place_tensors();
  Status check_tail(std::uint64_t end);

  // The next number, or an error that says what was cut off.
  template <typename T>
  Result<T> read_number(std::string_view what);

  Error cut_off(std::string_view what, std::uint64_t needed) const;
  Error bad(std::string message) const;
  Error error(ErrorCode code, std::string message) const;

  GgufFile& file_;
  ByteReader reader_;
  std::string subject_ = "header";       // what is being read, for errors: "key 'general.name'"
  std::size_t subject_at_ = 0;           // byte that it starts at
  std::vector<std::size_t> records_at_;  // bytes that the tensors' records start at
  std::uint64_t alignment_ = 32;
  std::uint64_t array_items_ = 0;
};

}  // namespace hearth::model
