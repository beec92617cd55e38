// The way into a cluster with a join token, from the joiner's side.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "proto/join_token.h"
#include "proto/roster.h"
#include "proto/tls.h"

namespace hearth::node {

struct EnrolmentRequest {
  std::string name;
  Role role = Role::kWorker;
  std::vector<std::string> addresses;  // of our data links
};

struct Enrolled {
  PublicKey cluster;  // that of the token's fingerprint
  Bytes roster;       // signed by it, with us inside
};

// Asks at the token's addresses, one after another, `patience` each; blocks. The secret is said to
// nobody but a machine that has proved, over the same connection, to be the coordinator of the
// token's cluster. kUnavailable when nobody answers; kInvalidInput when somebody does who is not
// that coordinator, or when it refuses, whose log alone says why.
Result<Enrolled> enrol(const JoinToken& token, const TlsIdentity& identity,
                       const EnrolmentRequest& request, Duration patience);

// Asks a coordinator of the roster, at one of the addresses, to take us out of it; blocks likewise.
// kUnavailable when none answers, kRefused when one answers that it does not know us.
Status leave(const std::vector<std::string>& addresses, const TlsIdentity& identity,
             std::shared_ptr<const RosterBook> roster, Duration patience);

}  // namespace hearth::node
