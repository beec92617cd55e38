#include "node/enrolment.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>

#include "base/limits.h"
#include "proto/control.grpc.pb.h"
#include "proto/frame.h"
#include "proto/grpc_tls.h"

namespace hearth::node {
namespace {

// The one key that a channel speaks to: that of its first handshake. gRPC may connect again at any
// time, and what was proved must have been proved by whoever hears the secret.
class OneKey {
 public:
  Status admit(const PublicKey& key) {
    const std::lock_guard lock(mutex_);
    if (!key_) key_ = key;
    REQUIRE(*key_ == key, "the machine there has changed its key");
    return ok_status();
  }
  std::optional<PublicKey> key() const {
    const std::lock_guard lock(mutex_);
    return key_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<PublicKey> key_;
};

std::shared_ptr<grpc::Channel> make_channel(const std::string& address, const TlsIdentity& identity,
                                            AdmitKey admit) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_TCP_TX_ZEROCOPY_ENABLED, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(limits::kControlMessageBytes));
  return grpc::CreateCustomChannel(address, tls_channel_credentials(identity, std::move(admit)),
                                   arguments);
}

// What a failed call means. The server's own words are not shown: they are one text for everything.
Error failure_of(const grpc::Status& status, const std::string& address) {
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    return Error::invalid("the coordinator at " + address +
                          " refuses this join token, or a node of this name is there already; its "
                          "log says which. A new token: hearth token create");
  }
  return {ErrorCode::kUnavailable, "no coordinator answers at " + address + ": " +
                                       decode_refused(as_bytes(status.error_message()))};
}

class Dialogue {
 public:
  Dialogue(std::string address, const TlsIdentity& identity, Duration patience)
      : address_(std::move(address)),
        stub_(control::v1::Control::NewStub(
            make_channel(address_, identity,
                         [key = key_](const PublicKey& found) { return key->admit(found); }))),
        deadline_(std::chrono::system_clock::now() + patience) {}

  Result<PublicKey> check(const JoinToken& token) {
    grpc::ClientContext context;
    context.set_deadline(deadline_);
    control::v1::Proof proof;
    const grpc::Status status = stub_->Prove(&context, control::v1::ProveRequest(), &proof);
    if (!status.ok()) return failure_of(status, address_);
    const auto node = key_->key();
    REQUIRE(node.has_value(), "the machine at " + address_ + " has shown no key");
    return check_coordinator(token.fingerprint, as_bytes(proof.cluster_key()),
                             as_bytes(proof.signature()), *node);
  }

  Result<Bytes> enrol(const JoinToken& token, const EnrolmentRequest& request) {
    grpc::ClientContext context;
    context.set_deadline(deadline_);
    control::v1::Enrolment message;
    message.set_token_id(token.id);
    message.set_secret(token.secret);
    message.set_node(request.name);
    message.set_role(std::string(role_name(request.role)));
    for (const std::string& address : request.addresses) message.add_addresses(address);
    control::v1::Enrolled answer;
    const grpc::Status status = stub_->Enrol(&context, message, &answer);
    if (!status.ok()) return failure_of(status, address_);
    const ByteSpan roster = as_bytes(answer.roster());
    return Bytes(roster.begin(), roster.end());
  }

 private:
  const std::string address_;
  const std::shared_ptr<OneKey> key_ = std::make_shared<OneKey>();
  const std::unique_ptr<control::v1::Control::Stub> stub_;
  const std::chrono::system_clock::time_point deadline_;
};

Result<Enrolled> enrol_at(const std::string& address, const JoinToken& token,
                          const TlsIdentity& identity, const EnrolmentRequest& request,
                          Duration patience) {
  Dialogue dialogue(address, identity, patience);
  Enrolled enrolled;
  TRY(enrolled.cluster, dialogue.check(token));
  TRY(enrolled.roster, dialogue.enrol(token, request));
  TRY(const Roster roster, parse_roster(enrolled.roster));
  REQUIRE(roster.cluster == enrolled.cluster, "the roster is of another cluster");
  const RosterEntry* entry = roster.find(identity.key);
  REQUIRE(entry != nullptr && entry->name == request.name && entry->role == request.role,
          "the coordinator's roster does not hold what was asked for");
  return enrolled;
}

}  // namespace

Result<Enrolled> enrol(const JoinToken& token, const TlsIdentity& identity,
                       const EnrolmentRequest& request, Duration patience) {
  Result<Enrolled> last = Error::invalid("a join token without an address");
  for (const std::string& address : token.addresses) {
    last = enrol_at(address, token, identity, request, patience);
    // Whoever answered and refused says so for all; only silence is a reason to ask elsewhere.
    if (last.ok() || last.error().code != ErrorCode::kUnavailable) return last;
  }
  return last;
}

Status leave(const std::vector<std::string>& addresses, const TlsIdentity& identity,
             std::shared_ptr<const RosterBook> roster, Duration patience) {
  const AdmitKey admit = [roster = std::move(roster)](const PublicKey& key) -> Status {
    const auto entry = roster->find(key);
    REQUIRE(entry && entry->role == Role::kCoordinator, "no coordinator of the roster");
    return ok_status();
  };
  Error last = Error::invalid("no address of a coordinator");
  for (const std::string& address : addresses) {
    const auto stub = control::v1::Control::NewStub(make_channel(address, identity, admit));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + patience);
    control::v1::Left answer;
    const grpc::Status status = stub->Leave(&context, control::v1::LeaveRequest(), &answer);
    if (status.ok()) return ok_status();
    if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
      return Error{ErrorCode::kRefused,
                   "the coordinator at " + address +
                       " does not know this machine: it was removed. Forget the cluster here as "
                       "well: hearth leave --here-only"};
    }
    last = {ErrorCode::kUnavailable,
            "no coordinator of the cluster answers at " + address +
                "; try again when it does, or forget it here (hearth leave --here-only) and remove "
                "this machine there (hearth nodes rm NAME)"};
  }
  return last;
}

}  // namespace hearth::node
