#include "node/control/inquiry.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <thread>

#include "node/control/channel.h"
#include "proto/address.h"
#include "proto/control.grpc.pb.h"
#include "proto/frame.h"

namespace hearth::node {
namespace {

using control::v1::Control;

constexpr auto kAskAgain = std::chrono::milliseconds(200);
constexpr int kAsks = 50;  // ten seconds; the coordinator gives up long before

Error failure_of(const grpc::Status& status, const std::string& address) {
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    return {ErrorCode::kRefused, "the coordinator at " + address +
                                     " does not answer this machine; hearth nodes shows who is in"};
  }
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return {ErrorCode::kVersion,
            "the coordinator at " + address + " is older than this program and cannot say"};
  }
  return {ErrorCode::kUnavailable, "no coordinator of the cluster answers at " + address};
}

// Asks each address until one answers.
Status ask(const Inquirer& inquirer,
           const std::function<grpc::Status(Control::Stub&, grpc::ClientContext&)>& question) {
  Error last = Error::invalid("no address of a coordinator");
  for (const std::string& address : inquirer.addresses) {
    const auto stub = Control::NewStub(
        control_channel(address, inquirer.identity, admit_coordinator(inquirer.roster)));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + inquirer.patience);
    const grpc::Status status = question(*stub, context);
    if (status.ok()) return ok_status();
    last = failure_of(status, address);
    if (last.code != ErrorCode::kUnavailable) return last;
  }
  return last;
}

}  // namespace

Result<std::string> locate(const Inquirer& inquirer, const std::string& node) {
  control::v1::LocateRequest request;
  request.set_node(node);
  control::v1::Located answer;
  TRY_VOID(ask(inquirer, [&](Control::Stub& stub, grpc::ClientContext& context) {
    return stub.Locate(&context, request, &answer);
  }));
  if (answer.address().empty()) {
    return Error{ErrorCode::kNotFound,
                 "no node named " + node + " is connected; hearth status shows those that are"};
  }
  TRY(const Address address, parse_address(answer.address()));
  return address.text();
}

Result<Reached> reach(const Inquirer& inquirer) {
  for (int i = 0; i < kAsks; ++i) {
    control::v1::Reached answer;
    TRY_VOID(ask(inquirer, [&](Control::Stub& stub, grpc::ClientContext& context) {
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
  return Error{ErrorCode::kTimeout, "the coordinator does not say whether it reaches this machine"};
}

}  // namespace hearth::node
