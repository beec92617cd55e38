#include "node/control/enrolment.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "base/fingerprint.h"
#include "base/limits.h"
#include "node/control/channel.h"
#include "proto/address.h"
#include "proto/control.grpc.pb.h"
#include "proto/frame.h"
#include "proto/link/admission.h"

namespace hearth::node {
namespace {

// The key of the channel's first handshake, which must not change. gRPC may reconnect at any time,
// and the receiver of the secret must be the machine that gave the proof.
class OneKey {
 public:
  Status admit(const PublicKey& key) {
    const std::lock_guard lock(mutex_);
    if (!key_) key_ = key;
    REQUIRE(*key_ == key,
            "the machine at this address has changed its key while this one joined; run the "
            "command again");
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

// The error for a refusal, with the next step for a person. It does not show the coordinator's own
// text. An unknown text means that the coordinator does not know this join token, or that it is an
// older program, which never gives a reason.
Error refusal_of(std::string_view told, const std::string& address) {
  const std::string at = "the coordinator at " + address;
  if (told == kNodeRemoved) {
    return Error::of(
        ErrorCode::kRefused, at,
        " has removed this machine from its cluster; to rejoin: hearth leave --here-only, "
        "then hearth join with a new token");
  }
  if (told == kNameTaken) {
    return Error::invalid(at, " has another node of this name; pass another one: --name NAME");
  }
  if (told == kTokenSpent) {
    return Error::invalid(at,
                          " refuses this join token, which is used up, has expired or was "
                          "revoked; create another one there: hearth token create");
  }
  if (told == kTokenOfOtherRole) {
    return Error::invalid(
        at,
        " refuses this join token: it is for another role than this machine's. Create a join token "
        "for that role there (hearth token create --role ROLE), or join with another --data-dir");
  }
  if (told == kCannotStore) {
    return Error::of(ErrorCode::kUnavailable, at, " cannot store a new node now: its database is ",
                     "away; try again in a minute");
  }
  return Error::invalid(
      at,
      " refuses this join token; its log shows why. Create a new one there: hearth token create");
}

// The error for a failed call.
Error failure_of(const grpc::Status& status, const std::string& address) {
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    return refusal_of(status.error_message(), address);
  }
  return Error::of(ErrorCode::kUnavailable, "no coordinator answers at ", address, ": ",
                   decode_refused(as_bytes(status.error_message())),
                   "; check that hearth serve runs there and that no firewall closes the port");
}

// It has shown its key, and has closed the connection when it saw ours, before it read a request.
Error closed_door(const std::string& address) {
  return {
      ErrorCode::kRefused,
      "the coordinator at " + address +
          " accepts no unknown machine now: no join token is valid there, and hearth approve is "
          "not open; on its machine: hearth token create, or hearth approve"};
}

class Dialogue {
 public:
  Dialogue(std::string address, const TlsIdentity& identity, Duration patience)
      : address_(std::move(address)),
        stub_(control::v1::Control::NewStub(
            control_channel(address_, identity,
                            [key = key_](const PublicKey& found) { return key->admit(found); }))),
        deadline_(std::chrono::system_clock::now() + patience) {}

  void extend(Duration patience) { deadline_ = std::chrono::system_clock::now() + patience; }

  // The cluster of that fingerprint; empty: whichever it is. kRefused when the door is closed.
  Result<PublicKey> check(const std::string& expected) {
    grpc::ClientContext context;
    context.set_deadline(deadline_);
    control::v1::Proof proof;
    const grpc::Status status = stub_->Prove(&context, control::v1::ProveRequest(), &proof);
    const auto node = key_->key();
    if (node && status.error_code() == grpc::StatusCode::UNAVAILABLE) return closed_door(address_);
    if (!status.ok()) return failure_of(status, address_);
    REQUIRE(node.has_value(), "the machine at ", address_,
            " did not show a key; check that it is a Hearth coordinator");
    const ByteSpan shown = as_bytes(proof.cluster_key());
    TRY(const PublicKey claimed, PublicKey::parse(shown));
    return check_coordinator(expected.empty() ? fingerprint(claimed) : expected, shown,
                             as_bytes(proof.signature()), *node);
  }

  Result<control::v1::Enrolled> knock(const std::string& name) {
    grpc::ClientContext context;
    context.set_deadline(deadline_);
    control::v1::Knocking message;
    message.set_node(name);
    control::v1::Enrolled answer;
    const grpc::Status status = stub_->Knock(&context, message, &answer);
    if (status.ok()) return answer;
    if (status.error_code() != grpc::StatusCode::UNAUTHENTICATED) {
      return failure_of(status, address_);
    }
    if (status.error_message() == kNodeRemoved) return refusal_of(kNodeRemoved, address_);
    return Error::of(ErrorCode::kRefused, "the coordinator at ", address_,
                     " does not admit this node without a join token or under this name; the log "
                     "of hearth serve has the reason");
  }

  Result<control::v1::Enrolled> enrol(const JoinToken& token, const EnrolmentRequest& request) {
    grpc::ClientContext context;
    context.set_deadline(deadline_);
    control::v1::Enrolment message;
    message.set_token_id(token.id);
    message.set_secret(token.secret);
    message.set_node(request.name);
    if (request.role) message.set_role(std::string(role_name(*request.role)));
    for (const std::string& address : request.addresses) message.add_addresses(address);
    control::v1::Enrolled answer;
    const grpc::Status status = stub_->Enrol(&context, message, &answer);
    if (!status.ok()) return failure_of(status, address_);
    return answer;
  }

 private:
  const std::string address_;
  const std::shared_ptr<OneKey> key_ = std::make_shared<OneKey>();
  const std::unique_ptr<control::v1::Control::Stub> stub_;
  std::chrono::system_clock::time_point deadline_;
};

// The answer of a coordinator that has proved its key. It is still checked, because it is stored.
Result<Enrolled> read_answer(const control::v1::Enrolled& answer, const PublicKey& cluster,
                             const PublicKey& own, const EnrolmentRequest& request) {
  Enrolled enrolled;
  enrolled.cluster = cluster;
  const ByteSpan bytes = as_bytes(answer.roster());
  enrolled.roster.assign(bytes.begin(), bytes.end());
  TRY(const Roster roster, parse_roster(enrolled.roster));
  REQUIRE(roster.cluster == cluster, "the roster belongs to another cluster");
  const RosterEntry* entry = roster.find(own);
  REQUIRE(entry != nullptr && entry->name == request.name &&
              request.role.value_or(entry->role) == entry->role,
          "the coordinator's roster does not have this node with the requested name and role");
  enrolled.role = entry->role;
  const std::string& key = answer.api_key();
  REQUIRE(key.size() <= limits::kApiKeyNameBytes &&
              std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c <= 0x7E; }),
          "the coordinator sent an invalid API key");
  enrolled.api_key = key;
  if (!answer.cluster().empty()) TRY_VOID(check_node_name(answer.cluster()));
  enrolled.cluster_name = answer.cluster();
  if (answer.api_address().empty()) return enrolled;
  TRY(const Address api, parse_address(answer.api_address()));
  enrolled.api_address = api.text();
  return enrolled;
}

Result<Enrolled> enrol_at(const std::string& address, const JoinToken& token,
                          const TlsIdentity& identity, const EnrolmentRequest& request,
                          Duration patience) {
  Dialogue dialogue(address, identity, patience);
  const auto cluster = dialogue.check(token.fingerprint);
  // A valid join token would have been admitted.
  if (!cluster.ok() && cluster.error().code == ErrorCode::kRefused) {
    return refusal_of(kTokenSpent, address);
  }
  TRY_VOID(cluster);
  TRY(const control::v1::Enrolled answer, dialogue.enrol(token, request));
  return read_answer(answer, *cluster, identity.key, request);
}

class RealDoor final : public Door {
 public:
  RealDoor(const std::string& address, const TlsIdentity& identity, Duration patience)
      : own_(identity.key), dialogue_(address, identity, patience) {}

  Status open() {
    TRY(cluster_, dialogue_.check(""));
    return ok_status();
  }
  const PublicKey& cluster() const override { return cluster_; }
  Result<std::optional<Enrolled>> knock(const std::string& name, Duration patience) override {
    dialogue_.extend(patience);
    TRY(const control::v1::Enrolled answer, dialogue_.knock(name));
    if (answer.roster().empty()) return std::optional<Enrolled>();
    TRY(Enrolled in, read_answer(answer, cluster_, own_, {name, std::nullopt, {}}));
    return std::optional(std::move(in));
  }

 private:
  const PublicKey own_;
  PublicKey cluster_;
  Dialogue dialogue_;
};

constexpr auto kKnockEvery = std::chrono::milliseconds(500);

// Approval opens once a person runs hearth approve there.
Result<std::unique_ptr<Door>> wait_for_door(const Waiting& waiting, const TlsIdentity& identity,
                                            std::chrono::steady_clock::time_point deadline,
                                            Duration patience) {
  for (bool told = false;; told = true) {
    auto door = Door::find(waiting.address, identity, patience);
    if (door.ok() || door.error().code != ErrorCode::kRefused) return door;
    if (!told) waiting.closed(door.error());
    if (!waiting.go_on())
      return Error{ErrorCode::kCancelled, "interrupted; this machine did not join"};
    if (std::chrono::steady_clock::now() >= deadline) {
      return Error{ErrorCode::kTimeout, door.error().message};
    }
    std::this_thread::sleep_for(kKnockEvery);
  }
}

}  // namespace

Result<std::unique_ptr<Door>> Door::find(const std::string& address, const TlsIdentity& identity,
                                         Duration patience) {
  auto door = std::make_unique<RealDoor>(address, identity, patience);
  TRY_VOID(door->open());
  return std::unique_ptr<Door>(std::move(door));
}

Result<Enrolled> enrol(const JoinToken& token, const TlsIdentity& identity,
                       const EnrolmentRequest& request, Duration patience) {
  Result<Enrolled> last = Error::invalid("the join token has no address");
  for (const std::string& address : token.addresses) {
    last = enrol_at(address, token, identity, request, patience);
    // A refusal holds for all addresses; only a missing answer is a reason to try the next one.
    if (last.ok() || last.error().code != ErrorCode::kUnavailable) return last;
  }
  return last;
}

Result<Enrolled> wait_to_enrol(const Waiting& waiting, const TlsIdentity& identity,
                               const std::string& name, Duration patience) {
  const auto deadline = std::chrono::steady_clock::now() + waiting.patience;
  TRY(const auto door, wait_for_door(waiting, identity, deadline, patience));
  REQUIRE(!waiting.cluster || *waiting.cluster == door->cluster(), "the machine at ",
          waiting.address, " belongs to another cluster (", three_words(door->cluster()),
          ") than it announces");
  if (!waiting.confirm(door->cluster(), identity.key)) {
    return Error{ErrorCode::kCancelled, "not confirmed; this machine did not join"};
  }
  while (std::chrono::steady_clock::now() < deadline && waiting.go_on()) {
    auto answer = door->knock(name, patience);
    if (answer.ok() && *answer) return std::move(**answer);
    // A coordinator may restart meanwhile; its key is checked again.
    if (!answer.ok() && answer.error().code != ErrorCode::kUnavailable) return answer.error();
    std::this_thread::sleep_for(kKnockEvery);
  }
  if (!waiting.go_on())
    return Error{ErrorCode::kCancelled, "interrupted; this machine did not join"};
  return Error::of(ErrorCode::kTimeout, "this machine was not admitted within ",
                   waiting.patience.count(),
                   " s; run hearth approve on the coordinator's machine, then join again");
}

}  // namespace hearth::node
