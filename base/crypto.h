// Hashes and random bytes. The only room that includes libsodium.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <string>

#include "base/bytes.h"

namespace hearth {

// A 32-byte digest.
struct Hash256 {
  std::array<std::byte, 32> bytes{};
  friend auto operator<=>(const Hash256&, const Hash256&) = default;
  std::string hex() const;  // 64 lower-case digits
};

// BLAKE2b-256 (RFC 7693), unkeyed. Use for everything that is ours to define.
Hash256 blake2b(ByteSpan bytes);

// BLAKE2b-256 over several pieces.
class Blake2b {
 public:
  Blake2b();
  void update(ByteSpan bytes);
  Hash256 finish();  // once

 private:
  alignas(64) std::array<std::byte, 384> state_;
};

// SHA-256, for digests that others publish (model files).
class Sha256 {
 public:
  Sha256();
  void update(ByteSpan bytes);
  Hash256 finish();  // once

 private:
  alignas(8) std::array<std::byte, 104> state_;
};

void random_bytes(MutableByteSpan out);

}  // namespace hearth
