// The way into a cluster with a join token, from the joiner's side.
#pragma once

#include <chrono>
#include <functional>
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
  std::string cluster_name;  // empty: not told
  std::string api_key;       // of a client or an admin
  std::string api_address;   // for these two; empty: the API serves its own machine alone
};

// Asks at the token's addresses, one after another, `patience` each; blocks. The secret is sent
// only to a machine that has proved, over the same connection, to be the coordinator of the token's
// cluster. kUnavailable without an answer; kInvalidInput when another machine answers or the
// coordinator refuses, kRefused when it has removed this node (proto/link/admission.h).
Result<Enrolled> enrol(const JoinToken& token, const TlsIdentity& identity,
                       const EnrolmentRequest& request, Duration patience);

// A cluster that may let us in without a token, once a person there says so.
class Door {
 public:
  // kUnavailable without an answer at the address, kRefused while an operator there has not run
  // hearth approve, kInvalidInput when the other side holds no cluster key; blocks, as knock()
  // does.
  static Result<std::unique_ptr<Door>> find(const std::string& address, const TlsIdentity& identity,
                                            Duration patience);
  virtual ~Door() = default;
  // Whose door it is: proved over this connection, and to be compared by a person.
  virtual const PublicKey& cluster() const = 0;
  // Nothing while we are not admitted. Only the machine that has proved its key receives the
  // question.
  virtual Result<std::optional<Enrolled>> knock(const std::string& name, Duration patience) = 0;
};

// Enrolment without a token: asks the coordinator at an address until a person there lets this
// machine in. `confirm` sees the keys of both before anything is asked, and may refuse; `go_on` is
// asked twice a second.
struct Waiting {
  std::string address;               // "host:port"
  std::optional<PublicKey> cluster;  // that it must be; none: any
  std::chrono::seconds patience;
  std::function<void(const Error& why)> closed;  // once, while machines may not ask there yet
  std::function<bool(const PublicKey& cluster, const PublicKey& own)> confirm;
  std::function<bool()> go_on;
};
// kTimeout when waiting.patience ends first, kCancelled when confirm or go_on says no; else the
// errors of Door. `patience` bounds each question.
Result<Enrolled> wait_to_enrol(const Waiting& waiting, const TlsIdentity& identity,
                               const std::string& name, Duration patience);

}  // namespace hearth::node
