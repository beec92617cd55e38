// A join token, with which a machine joins:
//   hh1.<fingerprint of the cluster key>.<id>.<secret>@host:port[,host:port...]
// and the coordinator's proof, which a joiner requires before it sends the secret.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"

namespace hearth {

struct JoinToken {
  static constexpr std::size_t kIdDigits = 16;
  static constexpr std::size_t kSecretCharacters = 43;

  std::string fingerprint;             // base/fingerprint.h
  std::string id;                      // hexadecimal; public: it is listed and logged
  std::string secret;                  // base64url of 256 random bits; never logged
  std::vector<std::string> addresses;  // of the control port, 1 to limits::kRosterAddresses
  friend bool operator==(const JoinToken&, const JoinToken&) = default;

  std::string text() const;
};

// kInvalidInput names the part that is wrong and never repeats the text.
Result<JoinToken> parse_join_token(std::string_view text);

// The cluster key's signature that `node` is its coordinator. `node` is the key of the TLS
// connection, so a copied signature is useless on any other connection.
Signature prove_coordinator(const SecretKey& cluster, const PublicKey& node);
// Checks that the far end of the connection, which holds `node`, is the coordinator of the cluster
// with this fingerprint. It sent `cluster` and `proof`.
Result<PublicKey> check_coordinator(std::string_view fingerprint, ByteSpan cluster, ByteSpan proof,
                                    const PublicKey& node);

}  // namespace hearth
