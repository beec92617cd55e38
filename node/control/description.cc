#include "node/control/description.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <mutex>
#include <optional>

#include "node/control/channel.h"
#include "proto/address.h"
#include "proto/control.grpc.pb.h"
#include "proto/frame.h"

namespace hearth::node {
namespace {

Result<Description> describe_at(const std::string& address, const TlsIdentity& identity,
                                const std::shared_ptr<const RosterBook>& roster,
                                Duration patience) {
  const auto stub =
      control::v1::Control::NewStub(control_channel(address, identity, admit_coordinator(roster)));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  control::v1::Description answer;
  const grpc::Status status = stub->Describe(&context, control::v1::DescribeRequest(), &answer);
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    return Error{ErrorCode::kRefused, "the coordinator at " + address + " does not know this node"};
  }
  if (!status.ok()) {
    return Error{ErrorCode::kUnavailable, "no coordinator answers at " + address + ": " +
                                              decode_refused(as_bytes(status.error_message()))};
  }
  TRY(const PublicKey key, peer_key(*context.auth_context()));
  const auto entry = roster->find(key);
  REQUIRE(entry.has_value(), "the coordinator at " + address + " has left the roster");
  TRY_VOID(parse_address(answer.data_address()));
  const ByteSpan manifest = as_bytes(answer.manifest());
  return Description{Bytes(manifest.begin(), manifest.end()), answer.hashed(), answer.file_bytes(),
                     Holder{entry->name, answer.data_address()}};
}

}  // namespace

Result<Description> describe(const std::vector<std::string>& addresses, const TlsIdentity& identity,
                             const std::shared_ptr<const RosterBook>& roster, Duration patience) {
  Result<Description> last = Error::invalid("no address of a coordinator");
  for (const std::string& address : addresses) {
    last = describe_at(address, identity, roster, patience);
    if (last.ok() || last.error().code != ErrorCode::kUnavailable) return last;
  }
  return last;
}

}  // namespace hearth::node
