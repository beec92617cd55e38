#include "proto/join_token.h"

#include "base/fingerprint.h"
#include "base/limits.h"
#include "proto/address.h"

namespace hearth {
namespace {

constexpr std::string_view kVersion = "hh1.";
constexpr std::string_view kTokenPurpose = "hearth coordinator v1";
constexpr std::size_t kTokenBytes = 128 + limits::kRosterAddresses * (limits::kAddressBytes + 1);

constexpr std::string_view kHexadecimal = "0123456789abcdef";
constexpr std::string_view kBase64url =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static_assert(kHexadecimal.size() == 16 && kBase64url.size() == 64,
              "each alphabet has as many characters as its base");

// Removes the part up to `end`, and `end` itself, from `rest` and returns the part.
Result<std::string> take(std::string_view& rest, char end, const char* part, std::size_t size,
                         std::string_view alphabet) {
  const std::size_t at = rest.find(end);
  REQUIRE(at == size && rest.find_first_not_of(alphabet) >= at, "the join token's ", part,
          " is not ", size, " characters as they should be; was the whole join token copied?");
  std::string taken(rest.substr(0, at));
  rest.remove_prefix(at + 1);
  return taken;
}

}  // namespace

std::string JoinToken::text() const {
  std::string out = std::string(kVersion) + fingerprint + "." + id + "." + secret + "@";
  for (std::size_t i = 0; i < addresses.size(); ++i) out += (i == 0 ? "" : ",") + addresses[i];
  return out;
}

Result<JoinToken> parse_join_token(std::string_view text) {
  REQUIRE(text.size() <= kTokenBytes, "a join token of ", text.size(), " bytes; the limit is ",
          kTokenBytes);
  REQUIRE(text.starts_with(kVersion), "this is not a join token: it must begin with ", kVersion);
  std::string_view rest = text.substr(kVersion.size());
  JoinToken token;
  TRY(token.fingerprint, take(rest, '.', "fingerprint", kFingerprintDigits, kHexadecimal));
  TRY(token.id, take(rest, '.', "id", JoinToken::kIdDigits, kHexadecimal));
  TRY(token.secret, take(rest, '@', "secret", JoinToken::kSecretCharacters, kBase64url));
  while (true) {
    REQUIRE(token.addresses.size() < limits::kRosterAddresses, "a join token has more than ",
            limits::kRosterAddresses, " addresses");
    const std::size_t comma = rest.find(',');
    TRY(const Address address, parse_address(rest.substr(0, comma)));
    token.addresses.push_back(address.text());
    if (comma == std::string_view::npos) return token;
    rest.remove_prefix(comma + 1);
  }
}

Signature prove_coordinator(const SecretKey& cluster, const PublicKey& node) {
  return cluster.sign(kTokenPurpose, node.bytes());
}

Result<PublicKey> check_coordinator(std::string_view expected, ByteSpan cluster, ByteSpan proof,
                                    const PublicKey& node) {
  TRY(const PublicKey key, PublicKey::parse(cluster));
  REQUIRE(fingerprint(key) == expected, "the machine there belongs to another cluster (",
          three_words(key), ") than the join token; no secret was sent to it");
  REQUIRE(verify(key, kTokenPurpose, node.bytes(), proof),
          "the machine there could not prove that it belongs to the cluster of the join token; "
          "no secret was sent to it");
  return key;
}

}  // namespace hearth
