#include "base/crypto_vrf.h"

#include <sodium.h>

#include <algorithm>
#include <initializer_list>

#include "base/check.h"

namespace hearth {
namespace {

constexpr std::byte kSuite{3};
constexpr std::size_t kPointBytes = 32;
constexpr std::size_t kChallengeBytes = 16;

using Block = std::array<std::byte, 32>;  // a point, a scalar, or half a hash
using Wide = std::array<std::byte, 64>;

unsigned char* raw_bytes(Block& block) { return reinterpret_cast<unsigned char*>(block.data()); }
const unsigned char* raw_bytes(ByteSpan bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Wide sha512(std::initializer_list<ByteSpan> parts) {
  crypto_hash_sha512_state state;
  crypto_hash_sha512_init(&state);
  for (const ByteSpan part : parts) crypto_hash_sha512_update(&state, raw_bytes(part), part.size());
  Wide digest;
  crypto_hash_sha512_final(&state, reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

Block half(ByteSpan bytes) {
  Block block{};
  std::copy_n(bytes.begin(), block.size(), block.begin());
  return block;
}

Block reduced(const Wide& wide) {
  Block scalar;
  crypto_core_ed25519_scalar_reduce(raw_bytes(scalar),
                                    reinterpret_cast<const unsigned char*>(wide.data()));
  return scalar;
}

Block reduced(const Block& block) {
  Wide wide{};
  std::copy(block.begin(), block.end(), wide.begin());
  return reduced(wide);
}

// Whether y, the lower 255 bits, is below 2^255 - 19, as RFC 8032 asks of an encoded point.
bool is_canonical(const Block& point) {
  if ((point[31] & std::byte{0x7F}) != std::byte{0x7F}) return true;
  const bool middle = std::all_of(point.begin() + 1, point.begin() + 31,
                                  [](std::byte byte) { return byte == std::byte{0xFF}; });
  return !middle || point[0] < std::byte{0xED};
}

// Eight times the point, so that it is of the prime-order group. False for bytes that are not a
// point.
bool times_cofactor(Block& point) {
  for (int i = 0; i < 3; ++i) {
    Block doubled;
    if (crypto_core_ed25519_add(raw_bytes(doubled), raw_bytes(point), raw_bytes(point)) != 0)
      return false;
    point = doubled;
  }
  return true;
}

// RFC 9381, section 5.4.1.1. Each attempt finds a point half of the time.
Block point_of(const PublicKey& key, ByteSpan message) {
  constexpr std::byte kFront{1};
  constexpr std::byte kBack{0};
  for (int counter = 0; counter < 256; ++counter) {
    const std::byte byte = static_cast<std::byte>(counter);
    const Wide digest =
        sha512({{&kSuite, 1}, {&kFront, 1}, key.bytes(), message, {&byte, 1}, {&kBack, 1}});
    Block point = half(digest);
    if (!is_canonical(point) || !times_cofactor(point)) continue;
    if (crypto_core_ed25519_is_valid_point(raw_bytes(point)) == 1)
      return point;  // not the identity
  }
  INVARIANT(false, "256 hashes of which none is a point");
}

using Challenge = std::array<std::byte, kChallengeBytes>;

Challenge challenge_of(std::initializer_list<ByteSpan> points) {
  constexpr std::byte kFront{2};
  constexpr std::byte kBack{0};
  Bytes all;
  for (const ByteSpan point : points) all.insert(all.end(), point.begin(), point.end());
  const Wide digest = sha512({{&kSuite, 1}, {&kFront, 1}, all, {&kBack, 1}});
  Challenge challenge;
  std::copy_n(digest.begin(), challenge.size(), challenge.begin());
  return challenge;
}

Block as_scalar(const Challenge& challenge) {
  Block scalar{};
  std::copy(challenge.begin(), challenge.end(), scalar.begin());
  return scalar;
}

// left - right, where `scaled` is right's factor; false where libsodium refuses, as it does for a
// factor of zero or a point outside the prime-order group.
bool minus_times(Block& left, const Block& scaled, ByteSpan point) {
  Block right;
  Block out;
  if (crypto_scalarmult_ed25519_noclamp(raw_bytes(right), raw_bytes(scaled), raw_bytes(point)) != 0)
    return false;
  if (crypto_core_ed25519_sub(raw_bytes(out), raw_bytes(left), raw_bytes(right)) != 0) return false;
  left = out;
  return true;
}

}  // namespace

VrfProof vrf_prove(const SecretKey& key, ByteSpan message) {
  Wide expanded = sha512({key.seed()});
  Block secret = half(expanded);
  secret[0] &= std::byte{0xF8};
  secret[31] &= std::byte{0x7F};
  secret[31] |= std::byte{0x40};
  secret = reduced(secret);

  const Block point = point_of(key.public_key(), message);
  Wide nonce = sha512({ByteSpan(expanded).subspan(32), point});
  Block k = reduced(nonce);
  Block gamma;
  Block u;
  Block v;
  const bool done =
      crypto_scalarmult_ed25519_noclamp(raw_bytes(gamma), raw_bytes(secret), raw_bytes(point)) ==
          0 &&
      crypto_scalarmult_ed25519_base_noclamp(raw_bytes(u), raw_bytes(k)) == 0 &&
      crypto_scalarmult_ed25519_noclamp(raw_bytes(v), raw_bytes(k), raw_bytes(point)) == 0;
  INVARIANT(done, "a point of the prime-order group times a scalar");
  const Challenge challenge = challenge_of({key.public_key().bytes(), point, gamma, u, v});
  Block product;
  Block s;
  crypto_core_ed25519_scalar_mul(raw_bytes(product), raw_bytes(as_scalar(challenge)),
                                 raw_bytes(secret));
  crypto_core_ed25519_scalar_add(raw_bytes(s), raw_bytes(k), raw_bytes(product));
  for (Block* hidden : {&secret, &k, &product}) wipe(*hidden);
  wipe(expanded);
  wipe(nonce);

  VrfProof proof;
  auto at = std::copy(gamma.begin(), gamma.end(), proof.begin());
  at = std::copy(challenge.begin(), challenge.end(), at);
  std::copy(s.begin(), s.end(), at);
  return proof;
}

std::optional<VrfOutput> vrf_verify(const PublicKey& key, ByteSpan message, ByteSpan proof) {
  if (proof.size() != VrfProof().size() || key == PublicKey()) return std::nullopt;
  const Block gamma = half(proof.first(kPointBytes));
  Challenge challenge;
  std::copy_n(proof.begin() + kPointBytes, challenge.size(), challenge.begin());
  const Block s = half(proof.last(32));
  if (reduced(s) != s || crypto_core_ed25519_is_valid_point(raw_bytes(gamma)) != 1)
    return std::nullopt;

  const Block point = point_of(key, message);
  const Block c = as_scalar(challenge);
  Block u;
  Block v;
  if (crypto_scalarmult_ed25519_base_noclamp(raw_bytes(u), raw_bytes(s)) != 0 ||
      crypto_scalarmult_ed25519_noclamp(raw_bytes(v), raw_bytes(s), raw_bytes(point)) != 0 ||
      !minus_times(u, c, key.bytes()) || !minus_times(v, c, gamma) ||
      challenge_of({key.bytes(), point, gamma, u, v}) != challenge) {
    return std::nullopt;
  }
  return vrf_output(proof);
}

std::optional<VrfOutput> vrf_output(ByteSpan proof) {
  constexpr std::byte kFront{3};
  constexpr std::byte kBack{0};
  if (proof.size() != VrfProof().size()) return std::nullopt;
  Block gamma = half(proof.first(kPointBytes));
  if (!times_cofactor(gamma)) return std::nullopt;
  return sha512({{&kSuite, 1}, {&kFront, 1}, gamma, {&kBack, 1}});
}

}  // namespace hearth
