// The API over a member's own link: TLS 1.3 to the coordinator's control port, with a certificate
// from both sides, behind the byte kMemberByte (proto/link/control_links.h). It needs no API key,
// and the coordinator may serve the API to its own machine alone.
//
// Threads: any; open one before the clients that use it.
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

// The base URL ("https://host:port" of the first address) whose requests every HttpClient of this
// process sends over the link from now on. kInvalidInput for what is no address.
Result<std::string> open_member_link(MemberLink link);
// The link of a URL that begins with such a base; null: it has none. It lives as long as the
// process.
const MemberLink* member_link_of(std::string_view url);
// libcurl's name of an Ed25519 key: "sha256//" and the hash of its SubjectPublicKeyInfo (RFC 8410).
std::string pinned_key(const PublicKey& key);
// Connects within ten seconds and sends kMemberByte: a socket, or -1. A machine that was at several
// addresses is dialled at all of them, the later ones a moment later; the first that answers
// counts.
int dial_member_link(const MemberLink& link);

}  // namespace hearth::client
