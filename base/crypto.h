// Hashes, signatures and random bytes. Only this folder includes libsodium.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace hearth {

// A 32-byte digest.
struct Hash256 {
  std::array<std::byte, 32> bytes{};
  friend auto operator<=>(const Hash256&, const Hash256&) = default;
  std::string hex() const;  // 64 lower-case digits
};

// BLAKE2b-256 (RFC 7693), unkeyed. Use for every format that Hearth defines.
Hash256 blake2b(ByteSpan bytes);

// BLAKE2b-256 with a key: for secrets that are stored as hashes, so that a reader of the hashes can
// neither guess nor compare without the key.
Hash256 keyed_blake2b(const Hash256& key, ByteSpan bytes);

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

std::string base64url(ByteSpan bytes);  // RFC 4648, section 5, without padding
std::string base64(ByteSpan bytes);     // RFC 4648, section 4, with padding
// Empty for any text that base64() does not write.
std::optional<Bytes> from_base64(std::string_view text);

// Zeroes that the compiler may not leave out.
void wipe(MutableByteSpan secret);

// Equal length and bytes, in a time that depends on the lengths alone.
bool equal_secrets(ByteSpan a, ByteSpan b);

// An Ed25519 public key (RFC 8032), which is also a node's id. A value other than the default one
// is a canonically encoded point of the prime-order group: parse() refuses everything else.
class PublicKey {
 public:
  static constexpr std::size_t kBytes = 32;

  PublicKey() = default;  // all zero: no signature verifies with it
  static Result<PublicKey> parse(ByteSpan bytes);

  ByteSpan bytes() const { return bytes_; }
  std::string hex() const;
  friend auto operator<=>(const PublicKey&, const PublicKey&) = default;

 private:
  std::array<std::byte, kBytes> bytes_{};
};

inline constexpr std::size_t kSignatureBytes = 64;
using Signature = std::array<std::byte, kSignatureBytes>;

// An Ed25519 key pair; the secret is wiped with it. Every signed message begins with the name of
// its purpose, so that no signature can be read as one for something else.
class SecretKey {
 public:
  static constexpr std::size_t kSeedBytes = 32;

  static SecretKey generate();
  static Result<SecretKey> from_seed(ByteSpan seed);  // RFC 8032's private key
  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;
  ~SecretKey();

  const PublicKey& public_key() const { return public_key_; }
  ByteSpan seed() const;
  Signature sign(std::string_view purpose, ByteSpan message) const;
  // RFC 8032's signature of the bytes alone: for formats defined by others.
  Signature sign_plain(ByteSpan message) const;

 private:
  SecretKey() = default;
  std::array<std::byte, 64> secret_{};
  PublicKey public_key_;
};

// False for any signature but the signer's own: also for a second encoding of it (S >= L), and for
// points of small order.
bool verify(const PublicKey& key, std::string_view purpose, ByteSpan message, ByteSpan signature);
bool verify_plain(const PublicKey& key, ByteSpan message, ByteSpan signature);

}  // namespace hearth
