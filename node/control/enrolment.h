// Joining a cluster, from the joiner's side.
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
  std::optional<Role> role = Role::kWorker;  // nothing: the join token's role
  std::vector<std::string> addresses;        // of our data links
};

struct Enrolled {
  PublicKey cluster;  // the key that has the join token's fingerprint
  Bytes roster;       // signed by that key, with our entry
  Role role = Role::kWorker;
  std::string cluster_name;  // empty: unknown
  std::string api_key;       // of a client or an admin
  std::string api_address;   // for clients and admins; empty: the API serves only its own machine
};

// Asks at the join token's addresses, one after another, `patience` each; blocks. The secret is
// sent only to a machine that has proved, over the same connection, to be the coordinator of the
// token's cluster. kUnavailable without an answer; kInvalidInput when another machine answers or
// the coordinator refuses, kRefused when it has removed this node (proto/link/admission.h).
Result<Enrolled> enrol(const JoinToken& token, const TlsIdentity& identity,
                       const EnrolmentRequest& request, Duration patience);

// A cluster that may admit us without a join token, after a person's approval there.
class Door {
 public:
  // kUnavailable without an answer at the address, kRefused while an operator there has not run
  // hearth approve, kInvalidInput when the other side holds no cluster key; blocks, as knock()
  // does.
  static Result<std::unique_ptr<Door>> find(const std::string& address, const TlsIdentity& identity,
                                            Duration patience);
  virtual ~Door() = default;
  // The cluster key, proved over this connection. A person compares its words.
  virtual const PublicKey& cluster() const = 0;
  // Nothing until we are admitted. Only the machine that has proved its key receives the request.
  virtual Result<std::optional<Enrolled>> knock(const std::string& name, Duration patience) = 0;
};

// Enrolment without a join token: asks the coordinator at an address until a person there approves
// this machine. `confirm` gets both keys before the first request and may refuse. `go_on` is called
// twice a second.
struct Waiting {
  std::string address;               // "host:port"
  std::optional<PublicKey> cluster;  // the expected cluster key; nothing: any
  std::chrono::seconds patience;
  std::function<void(const Error& why)> closed;  // called once, while approval is not open there
  std::function<bool(const PublicKey& cluster, const PublicKey& own)> confirm;
  std::function<bool()> go_on;
};
// kTimeout when waiting.patience ends first, kCancelled when confirm or go_on says no; else the
// errors of Door. `patience` bounds each question.
Result<Enrolled> wait_to_enrol(const Waiting& waiting, const TlsIdentity& identity,
                               const std::string& name, Duration patience);

}  // namespace hearth::node
