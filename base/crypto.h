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

// BLAKE2b-256 with a key: of a secret that is kept as its hash, so that who reads the hashes can
// neither guess nor compare without the key.
Hash256 keyed_blake2b(const Hash256& key, ByteSpan bytes);

// In a time that does not tell where they differ.
bool equal_in_constant_time(const Hash256& a, const Hash256& b);

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

std::string hex(ByteSpan bytes);        // two lower-case digits a byte
std::string base64url(ByteSpan bytes);  // RFC 4648, section 5, without padding

}  // namespace hearth
