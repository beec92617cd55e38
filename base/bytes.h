// Byte views, and a bounded little-endian reader and writer for every format of ours.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace hearth {

static_assert(std::endian::native == std::endian::little,
              "formats are little-endian and read in place");

using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;
using Bytes = std::vector<std::byte>;

inline ByteSpan as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads past the end return zero and set failed(); callers check once, before they use anything.
class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : bytes_(bytes) {}

  template <typename T>
  T read() {
    static_assert(std::is_arithmetic_v<T>);
    T value{};
    const ByteSpan raw = take(sizeof(T));
    if (!raw.empty()) std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }

  // One value after the other.
  template <typename... T>
  void read_into(T&... values) {
    (static_cast<void>(values = read<T>()), ...);
  }

  // An empty span, and failed(), when fewer than `count` bytes are left.
  ByteSpan take(std::size_t count) {
    if (failed_ || count > bytes_.size() - offset_) {
      failed_ = true;
      return {};
    }
    const ByteSpan taken = bytes_.subspan(offset_, count);
    offset_ += count;
    return taken;
  }

  std::size_t offset() const { return offset_; }
  std::size_t remaining() const { return bytes_.size() - offset_; }
  bool failed() const { return failed_; }

 private:
  ByteSpan bytes_;
  std::size_t offset_ = 0;
  bool failed_ = false;
};

class ByteWriter {
 public:
  explicit ByteWriter(Bytes& out) : out_(out) {}

  template <typename... T>
  void write(T... values) {
    static_assert((std::is_arithmetic_v<T> && ...));
    (append({reinterpret_cast<const std::byte*>(&values), sizeof(T)}), ...);
  }
  void append(ByteSpan bytes) {
    if (bytes.empty()) return;
    const std::size_t at = out_.size();
    out_.resize(at + bytes.size());
    std::memcpy(out_.data() + at, bytes.data(), bytes.size());
  }

 private:
  Bytes& out_;
};

}  // namespace hearth
