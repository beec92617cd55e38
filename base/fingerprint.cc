#include "base/fingerprint.h"

#include <iterator>
#include <string_view>

namespace hearth {
namespace {

constexpr std::string_view kWords[] = {
#include "base/fingerprint_words.inc"
};
static_assert(std::size(kWords) == 256, "one word a byte");

Hash256 digest_of(const PublicKey& key) {
  Blake2b hash;
  hash.update(as_bytes("hearth key fingerprint v1"));
  hash.update(key.bytes());
  return hash.finish();
}

}  // namespace

std::string fingerprint(const PublicKey& key) {
  return digest_of(key).hex().substr(0, kFingerprintDigits);
}

std::string three_words(const PublicKey& key) {
  const Hash256 digest = digest_of(key);
  std::string words;
  // Uses other bytes than the fingerprint, so that a forged key with the same words has another
  // fingerprint.
  for (std::size_t i = 29; i < 32; ++i) {
    words += (words.empty() ? "" : "-");
    words += kWords[std::to_integer<std::size_t>(digest.bytes[i])];
  }
  return words;
}

}  // namespace hearth
