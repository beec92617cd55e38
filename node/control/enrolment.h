// The way into a cluster with a join token, from the joiner's side.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "proto/join_token.h"
#include "proto/link/tls.h"
#include "proto/roster.h"

namespace hearth::node {

struct EnrolmentRequest {
  std::string name;
  std::optional<Role> role = Role::kWorker;  // none: as the token grants
  std::vector<std::string> addresses;        // of our data links
};

struct Enrolled {
  PublicKey cluster;  // that of the token's fingerprint
  Bytes roster;       // signed by it, with us inside
  Role role = Role::kWorker;
  std::string api_key;      // of a client or an admin
  std::string api_address;  // for these two; empty: the API serves its own machine alone
};

// Asks at the token's addresses, one after another, `patience` each; blocks. The secret is said to
// nobody but a machine that has proved, over the same connection, to be the coordinator of the
// token's cluster. kUnavailable when nobody answers; kInvalidInput when somebody does who is not
// that coordinator, or when it refuses, whose log alone says why.
Result<Enrolled> enrol(const JoinToken& token, const TlsIdentity& identity,
                       const EnrolmentRequest& request, Duration patience);

// A cluster that may let us in without a token, once a person there says so.
class Door {
 public:
  // kUnavailable when nobody answers at the address, kRefused when the door is closed and a person
  // there has to open it first, kInvalidInput when somebody answers who holds no cluster key;
  // blocks, as knock() does.
  static Result<std::unique_ptr<Door>> find(const std::string& address, const TlsIdentity& identity,
                                            Duration patience);
  virtual ~Door() = default;
  // Whose door it is: proved over this connection, and to be compared by a person.
  virtual const PublicKey& cluster() const = 0;
  // Nothing for as long as nobody has let us in. Only the machine that has proved itself hears it.
  virtual Result<std::optional<Enrolled>> knock(const std::string& name, Duration patience) = 0;
};

// Asks a coordinator of the roster, at one of the addresses, to take us out of it; blocks likewise.
// kUnavailable when none answers, kRefused when one answers that it does not know us.
Status leave(const std::vector<std::string>& addresses, const TlsIdentity& identity,
             std::shared_ptr<const RosterBook> roster, Duration patience);

}  // namespace hearth::node
