// Writes GGUF version 3 files. Tensor data is requested row by row, so that a file may be larger
// than memory.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "model/gguf/gguf.h"

namespace hearth::model {

// Fills one row (dims[0] elements in the tensor's type). Rows are asked for in order.
using RowSource = std::function<Status(std::uint64_t row, MutableByteSpan out)>;

class GgufWriter {
 public:
  // A power of two from limits::kGgufAlignmentMin to limits::kGgufAlignmentMax.
  explicit GgufWriter(std::uint32_t alignment = 32);

  // T is an integer of 8 to 64 bits, float, double, bool or std::string. Neither this nor
  // add_tensor looks for duplicates: tests write those too.
  template <typename T>
  void add(std::string_view key, const T& value) {
    begin_value(key, type_of<T>());
    put(value);
  }
  void add(std::string_view key, const char* text) { add(key, std::string(text)); }
  template <typename T>
  void add_array(std::string_view key, const std::vector<T>& items) {
    begin_value(key, kArrayType);
    put(type_of<T>());
    put(std::uint64_t{items.size()});
    for (const auto& item : items) put(item);
  }

  // dims[0] must be a multiple of the type's block.
  void add_tensor(std::string_view name, TensorType type, const std::vector<std::uint64_t>& dims,
                  RowSource source);

  // Writes beside the path and renames, so that a file at `path` is always whole.
  Status write(const std::string& path) const;
  // The same with a hole in place of all tensors, which takes no room on the disk and reads as
  // zeros.
  Status write_hollow(const std::string& path) const;
  Result<Bytes> bytes() const;

 protected:
  static constexpr std::uint32_t kArrayType = 9;
  struct Tensor {
    std::string name;
    TensorType type = TensorType::kF32;
    std::vector<std::uint64_t> dims;
    std::uint64_t rows = 0;
    std::uint64_t row_bytes = 0;
    RowSource source;
  };
  using Sink = std::function<Status(ByteSpan)>;

  template <typename T>
  static constexpr std::uint32_t type_of() {
    if constexpr (std::same_as<T, bool>)
      return 7;
    else if constexpr (std::same_as<T, std::string>)
      return 8;
    else if constexpr (std::same_as<T, float>)
      return 6;
    else if constexpr (std::same_as<T, double>)
      return 12;
    else {
      static_assert(std::integral<T>);
      constexpr std::uint32_t kFirst = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 2 : 4;
      return (sizeof(T) == 8 ? 10 : kFirst) + (std::is_signed_v<T> ? 1 : 0);
    }
  }
  void begin_value(std::string_view key, std::uint32_t type);
  void put(std::string_view text);
  template <typename T>
  requires std::is_arithmetic_v<T>
  void put(T value) { ByteWriter(values_).write(value); }
  Bytes header() const;
  Status emit(const Sink& sink) const;
  Status write_file(const std::string& path,
                    const std::function<Status(std::FILE* file, const Sink& sink)>& fill) const;

  std::uint32_t alignment_;
  std::uint64_t value_count_ = 0;
  std::uint64_t data_bytes_ = 0;
  Bytes values_;   // key-value records
  Bytes records_;  // tensor records
  std::vector<Tensor> tensors_;
};

}  // namespace hearth::model
