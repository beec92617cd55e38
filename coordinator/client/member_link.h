// The API over a member's own link: TLS 1.3 to the coordinator's control port, with a certificate
// from both sides, behind the byte kMemberByte (proto/link/control_links.h). It needs no API key,
// and works even when the coordinator serves the API only to its own machine.
//
// Threads: any; open a link before the clients that use it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "proto/link/tls.h"

namespace hearth::client {

struct MemberLink {
  std::vector<std::string> addresses;  // "host:port" of the control port, at least one
  TlsIdentity identity;                // ours
  PublicKey coordinator;               // that the other side must hold
};

// The base URL ("https://host:port" of the first address) for requests over the link: every
// HttpClient of this process uses it from now on. kInvalidInput for a malformed address.
Result<std::string> open_member_link(MemberLink link);
// The link of a URL that begins with such a base; null: no link. It lives as long as the process.
const MemberLink* member_link_of(std::string_view url);
// libcurl's name of an Ed25519 key: "sha256//" and the hash of its SubjectPublicKeyInfo (RFC 8410).
std::string pinned_key(const PublicKey& key);
// Connects within ten seconds and sends kMemberByte: a socket, or -1. When an address does not
// answer within a moment, the next one is dialled beside it; the first that answers is used.
int dial_member_link(const MemberLink& link);

}  // namespace hearth::client
