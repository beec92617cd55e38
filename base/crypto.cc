#include "base/crypto.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/hex.h"

namespace hearth {
namespace {

void ensure_sodium() {
  static const bool ready = sodium_init() >= 0;
  INVARIANT(ready, "libsodium did not initialise");
}

const unsigned char* raw(ByteSpan bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* raw(Hash256& hash) { return reinterpret_cast<unsigned char*>(hash.bytes.data()); }

crypto_generichash_state* blake_state(void* at) {
  return static_cast<crypto_generichash_state*>(at);
}
crypto_hash_sha256_state* sha_state(void* at) { return static_cast<crypto_hash_sha256_state*>(at); }

std::string base64_text(ByteSpan bytes, int variant) {
  std::string text(sodium_base64_encoded_len(bytes.size(), variant), '\0');
  sodium_bin2base64(text.data(), text.size(), raw(bytes), bytes.size(), variant);
  text.pop_back();  // the closing NUL
  return text;
}

// The check of a key takes longer than all other work on an entry of the ledger, and nearly all
// keys belong to the few members of a swarm. So each thread keeps some keys that it found valid.
bool is_valid_point(ByteSpan bytes) {
  using KeyBytes = std::array<std::byte, PublicKey::kBytes>;
  thread_local std::array<std::optional<KeyBytes>, 1'024> valid;
  std::uint16_t first = 0;
  std::memcpy(&first, bytes.data(), sizeof(first));
  auto& known = valid[first % valid.size()];
  if (known && std::ranges::equal(*known, bytes)) return true;
  if (crypto_core_ed25519_is_valid_point(raw(bytes)) != 1) return false;
  std::ranges::copy(bytes, known.emplace().begin());
  return true;
}

// The purpose ends with a zero byte, so that no purpose is the beginning of another.
Bytes with_purpose(std::string_view purpose, ByteSpan message) {
  Bytes all(purpose.size() + 1 + message.size());
  std::copy_n(as_bytes(purpose).begin(), purpose.size(), all.begin());
  std::copy(message.begin(), message.end(), all.begin() + purpose.size() + 1);
  return all;
}

}  // namespace

static_assert(sizeof(crypto_generichash_state) <= sizeof(Blake2b),
              "the state of libsodium fits the class that holds it");
static_assert(sizeof(crypto_hash_sha256_state) <= sizeof(Sha256),
              "the state of libsodium fits the class that holds it");
static_assert(sizeof(Hash256) == crypto_generichash_BYTES && crypto_hash_sha256_BYTES == 32,
              "both hashes have 32 bytes");
static_assert(PublicKey::kBytes == crypto_sign_PUBLICKEYBYTES &&
                  kSignatureBytes == crypto_sign_BYTES &&
                  SecretKey::kSeedBytes == crypto_sign_SEEDBYTES,
              "keys and signatures have the sizes of Ed25519");

std::string base64url(ByteSpan bytes) {
  return base64_text(bytes, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

std::string base64(ByteSpan bytes) { return base64_text(bytes, sodium_base64_VARIANT_ORIGINAL); }

std::optional<Bytes> from_base64(std::string_view text) {
  if (text.empty()) return Bytes();
  Bytes bytes(text.size() / 4 * 3 + 1);  // libsodium needs a buffer even for no bytes
  std::size_t length = 0;
  const int refused =
      sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                        text.size(), nullptr, &length, nullptr, sodium_base64_VARIANT_ORIGINAL);
  if (refused != 0) return std::nullopt;
  bytes.resize(length);
  // libsodium 1.0.18 also accepts some bytes above 0x7F as characters of the alphabet.
  return base64(bytes) == text ? std::optional(std::move(bytes)) : std::nullopt;
}

std::string Hash256::hex() const { return to_hex(bytes); }

Hash256 blake2b(ByteSpan bytes) {
  ensure_sodium();
  Hash256 hash;
  crypto_generichash(raw(hash), hash.bytes.size(), raw(bytes), bytes.size(), nullptr, 0);
  return hash;
}

Hash256 keyed_blake2b(const Hash256& key, ByteSpan bytes) {
  ensure_sodium();
  Hash256 hash;
  crypto_generichash(raw(hash), hash.bytes.size(), raw(bytes), bytes.size(), raw(key.bytes),
                     key.bytes.size());
  return hash;
}

Blake2b::Blake2b() {
  ensure_sodium();
  crypto_generichash_init(blake_state(state_.data()), nullptr, 0, 32);
}
void Blake2b::update(ByteSpan bytes) {
  crypto_generichash_update(blake_state(state_.data()), raw(bytes), bytes.size());
}
Hash256 Blake2b::finish() {
  Hash256 hash;
  crypto_generichash_final(blake_state(state_.data()), raw(hash), hash.bytes.size());
  return hash;
}

Sha256::Sha256() {
  ensure_sodium();
  crypto_hash_sha256_init(sha_state(state_.data()));
}
void Sha256::update(ByteSpan bytes) {
  crypto_hash_sha256_update(sha_state(state_.data()), raw(bytes), bytes.size());
}
Hash256 Sha256::finish() {
  Hash256 hash;
  crypto_hash_sha256_final(sha_state(state_.data()), raw(hash));
  return hash;
}

void random_bytes(MutableByteSpan out) {
  ensure_sodium();
  randombytes_buf(out.data(), out.size());
}

void wipe(MutableByteSpan secret) { sodium_memzero(secret.data(), secret.size()); }

bool equal_secrets(ByteSpan a, ByteSpan b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<PublicKey> PublicKey::parse(ByteSpan bytes) {
  ensure_sodium();
  REQUIRE(bytes.size() == kBytes, "a public key has ", bytes.size(),
          " bytes; an Ed25519 key must have ", kBytes);
  REQUIRE(
      is_valid_point(bytes),
      "the bytes of a public key are not a valid Ed25519 key: not canonical, or of small order");
  PublicKey key;
  std::copy(bytes.begin(), bytes.end(), key.bytes_.begin());
  return key;
}

std::string PublicKey::hex() const { return to_hex(bytes_); }

SecretKey SecretKey::generate() {
  std::array<std::byte, kSeedBytes> seed;
  random_bytes(seed);
  auto key = from_seed(seed);
  wipe(seed);
  return std::move(key).value();
}

Result<SecretKey> SecretKey::from_seed(ByteSpan seed) {
  ensure_sodium();
  REQUIRE(seed.size() == kSeedBytes, "a secret key has ", seed.size(), " bytes; it must have ",
          kSeedBytes);
  SecretKey key;
  std::array<std::byte, PublicKey::kBytes> point{};
  crypto_sign_seed_keypair(reinterpret_cast<unsigned char*>(point.data()),
                           reinterpret_cast<unsigned char*>(key.secret_.data()), raw(seed));
  TRY(key.public_key_, PublicKey::parse(point));
  return key;
}

SecretKey::~SecretKey() { sodium_memzero(secret_.data(), secret_.size()); }

ByteSpan SecretKey::seed() const { return ByteSpan(secret_).first(kSeedBytes); }

Signature SecretKey::sign(std::string_view purpose, ByteSpan message) const {
  return sign_plain(with_purpose(purpose, message));
}

Signature SecretKey::sign_plain(ByteSpan message) const {
  Signature signature{};
  crypto_sign_detached(reinterpret_cast<unsigned char*>(signature.data()), nullptr, raw(message),
                       message.size(), reinterpret_cast<const unsigned char*>(secret_.data()));
  return signature;
}

bool verify(const PublicKey& key, std::string_view purpose, ByteSpan message, ByteSpan signature) {
  return verify_plain(key, with_purpose(purpose, message), signature);
}

bool verify_plain(const PublicKey& key, ByteSpan message, ByteSpan signature) {
  ensure_sodium();
  if (signature.size() != kSignatureBytes) return false;
  return crypto_sign_verify_detached(raw(signature), raw(message), message.size(),
                                     raw(key.bytes())) == 0;
}

}  // namespace hearth
