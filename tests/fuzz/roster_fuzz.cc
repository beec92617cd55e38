// Any bytes as a roster: as they are, and once more with the signature of a known key, so that what
// lies behind the signature is reached. What is accepted has one encoding.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/crypto.h"
#include "proto/roster.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;
  static const SecretKey key = SecretKey::from_seed(Bytes(SecretKey::kSeedBytes)).value();
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto plain = parse_roster(bytes);
  INVARIANT(plain.ok() || !plain.error().message.empty(), "a refusal says why");

  Bytes body = {std::byte{'H'}, std::byte{'E'}, std::byte{'A'}, std::byte{'R'},
                std::byte{'T'}, std::byte{'H'}, std::byte{'R'}, std::byte{'1'}};
  const ByteSpan cluster = key.public_key().bytes();
  body.insert(body.end(), cluster.begin(), cluster.end());
  body.insert(body.end(), bytes.begin(), bytes.end());
  const Signature signature = key.sign("hearth roster v1", body);
  body.insert(body.end(), signature.begin(), signature.end());
  const auto roster = parse_roster(body);
  if (!roster.ok()) {
    INVARIANT(!roster.error().message.empty(), "a refusal says why");
    return 0;
  }
  const auto again = sign_roster(*roster, key);
  INVARIANT(again.ok() && *again == body, "what is accepted has one encoding");
  return 0;
}
