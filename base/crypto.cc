#include "base/crypto.h"

#include <sodium.h>

#include "base/check.h"

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

}  // namespace

static_assert(sizeof(crypto_generichash_state) <= 384);
static_assert(sizeof(crypto_hash_sha256_state) <= 104);

std::string hex(ByteSpan bytes) {
  std::string text(bytes.size() * 2 + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), raw(bytes), bytes.size());
  text.pop_back();  // the closing NUL
  return text;
}

std::string base64url(ByteSpan bytes) {
  constexpr int kVariant = sodium_base64_VARIANT_URLSAFE_NO_PADDING;
  std::string text(sodium_base64_encoded_len(bytes.size(), kVariant), '\0');
  sodium_bin2base64(text.data(), text.size(), raw(bytes), bytes.size(), kVariant);
  text.pop_back();  // the closing NUL
  return text;
}

std::string Hash256::hex() const { return hearth::hex(bytes); }

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

bool equal_in_constant_time(const Hash256& a, const Hash256& b) {
  return sodium_memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
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

}  // namespace hearth
