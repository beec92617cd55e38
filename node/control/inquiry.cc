#include "node/control/inquiry.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "node/control/channel.h"
#include "proto/address.h"
#include "proto/control.grpc.pb.h"
#include "proto/frame.h"

namespace hearth::node {
namespace {

using control::v1::Control;

constexpr auto kAskAgain = std::chrono::milliseconds(200);
constexpr int kAsks = 50;  // ten seconds; the coordinator gives up long before

Error failed_inquiry(const grpc::Status& status, const std::string& address) {
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    return Error::of(ErrorCode::kRefused, "the coordinator at ", address,
                     " does not know this machine; hearth nodes on the server lists the members");
  }
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return Error::of(ErrorCode::kVersion, "the coordinator at ", address,
                     " is older than this program and does not support this request; update it");
  }
  return Error::of(ErrorCode::kUnavailable, "no coordinator of the cluster answers at ", address,
                   "; check that hearth serve runs there and that no firewall closes the port");
}

Error failed_description(const grpc::Status& status, const std::string& address) {
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    return Error::of(ErrorCode::kRefused, "the coordinator at ", address,
                     " does not know this node; hearth nodes on the server lists the members");
  }
  return Error::of(ErrorCode::kUnavailable, "no coordinator answers at ", address, ": ",
                   decode_refused(as_bytes(status.error_message())));
}

Error failed_leave(const grpc::Status& status, const std::string& address) {
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    return Error::of(
        ErrorCode::kRefused, "the coordinator at ", address,
        " does not know this machine: it was removed. Forget the cluster here as well: "
        "hearth leave --here-only");
  }
  return Error::of(ErrorCode::kUnavailable, "no coordinator of the cluster answers at ", address,
                   "; retry later, or run hearth leave --here-only on this machine and hearth "
                   "nodes rm NAME on the server");
}

AdmitKey admit_coordinator(std::shared_ptr<const RosterBook> roster) {
  return [roster = std::move(roster)](const PublicKey& key) -> Status {
    const auto entry = roster->find(key);
    REQUIRE(entry && entry->role == Role::kCoordinator,
            "the machine at this address is not the coordinator of this cluster; if the "
            "coordinator has moved, run hearth join ADDRESS with its new address");
    return ok_status();
  };
}

using Failure = Error (*)(const grpc::Status& status, const std::string& address);
using Question = std::function<grpc::Status(Control::Stub&, grpc::ClientContext&)>;

// Asks each address until one answers; which one it was.
Result<std::string> ask(const Inquirer& inquirer, Failure failure, const Question& question) {
  Error last = Error::invalid("this machine knows no address of the coordinator");
  for (const std::string& address : inquirer.addresses) {
    const auto stub = Control::NewStub(
        control_channel(address, inquirer.identity, admit_coordinator(inquirer.roster)));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + inquirer.patience);
    const grpc::Status status = question(*stub, context);
    if (status.ok()) return address;
    last = failure(status, address);
    if (last.code != ErrorCode::kUnavailable) return last;
  }
  return last;
}

}  // namespace

Result<std::string> locate(const Inquirer& inquirer, const std::string& node) {
  control::v1::LocateRequest request;
  request.set_node(node);
  control::v1::Located answer;
  TRY_VOID(ask(inquirer, failed_inquiry, [&](Control::Stub& stub, grpc::ClientContext& context) {
    return stub.Locate(&context, request, &answer);
  }));
  if (answer.address().empty()) {
    return Error::of(ErrorCode::kNotFound, "no node named ", node,
                     " is connected; hearth status shows those that are");
  }
  TRY(const Address address, parse_address(answer.address()));
  return address.text();
}

Result<Reached> reach(const Inquirer& inquirer) {
  for (int i = 0; i < kAsks; ++i) {
    control::v1::Reached answer;
    TRY_VOID(ask(inquirer, failed_inquiry, [&](Control::Stub& stub, grpc::ClientContext& context) {
      return stub.Reach(&context, control::v1::ReachRequest(), &answer);
    }));
    if (answer.address().empty()) {
      return Error{ErrorCode::kNotFound, "no worker of this machine is connected"};
    }
    if (answer.known()) {
      return Reached{decode_refused(as_bytes(answer.address())),
                     decode_refused(as_bytes(answer.error())), answer.milliseconds()};
    }
    std::this_thread::sleep_for(kAskAgain);
  }
  return Error{ErrorCode::kTimeout,
               "the coordinator did not report within 10 s whether it reaches this machine"};
}

Result<Description> describe(const Inquirer& inquirer) {
  control::v1::Description answer;
  Result<PublicKey> key = Error::invalid("nothing was asked");
  TRY(const std::string address,
      ask(inquirer, failed_description, [&](Control::Stub& stub, grpc::ClientContext& context) {
        const auto status = stub.Describe(&context, control::v1::DescribeRequest(), &answer);
        if (status.ok()) key = peer_key(*context.auth_context());
        return status;
      }));
  TRY_VOID(key);
  const auto entry = inquirer.roster->find(*key);
  REQUIRE(entry.has_value(), "the coordinator at ", address, " has left the roster");
  TRY_VOID(parse_address(answer.data_address()));
  const ByteSpan manifest = as_bytes(answer.manifest());
  return Description{Bytes(manifest.begin(), manifest.end()), answer.hashed(), answer.file_bytes(),
                     Holder{entry->name, answer.data_address()}};
}

Status leave(const Inquirer& inquirer) {
  control::v1::Left answer;
  TRY_VOID(ask(inquirer, failed_leave, [&](Control::Stub& stub, grpc::ClientContext& context) {
    return stub.Leave(&context, control::v1::LeaveRequest(), &answer);
  }));
  return ok_status();
}

}  // namespace hearth::node
