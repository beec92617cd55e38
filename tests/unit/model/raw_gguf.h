// GGUF bytes written by hand, so that a test can say something false in any field.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "model/gguf/gguf.h"

namespace hearth::model {

class RawGguf {
 public:
  static constexpr std::uint32_t kMagic = 0x46554747;

  RawGguf& header(std::uint64_t tensors, std::uint64_t values, std::uint32_t version = 3) {
    return put(kMagic).put(version).put(tensors).put(values);
  }
  template <typename T>
  RawGguf& put(T value) {
    ByteWriter(bytes_).write(value);
    return *this;
  }
  RawGguf& text(std::string_view text) {
    put(std::uint64_t{text.size()});
    ByteWriter(bytes_).append(as_bytes(text));
    return *this;
  }
  RawGguf& key(std::string_view name, std::uint32_t type) { return text(name).put(type); }
  RawGguf& tensor(std::string_view name, std::initializer_list<std::uint64_t> dims,
                  std::uint32_t type, std::uint64_t offset) {
    text(name).put(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims) put(dim);
    return put(type).put(offset);
  }
  // Zeros up to a multiple of `alignment`, then `count` more.
  RawGguf& data(std::size_t count, std::size_t alignment = 32) {
    const std::size_t start = (bytes_.size() + alignment - 1) / alignment * alignment;
    bytes_.resize(start + count);
    return *this;
  }

  const Bytes& bytes() const { return bytes_; }
  Result<std::shared_ptr<const GgufFile>> parse() const { return GgufFile::parse(bytes_, "raw"); }
  // The error's message, or "" when the bytes are accepted.
  std::string refusal() const {
    const auto file = parse();
    return file.ok() ? std::string() : file.error().message;
  }

 private:
  Bytes bytes_;
};

}  // namespace hearth::model
