#include "proto/link/control_links.h"

#include <utility>

namespace hearth {
namespace {

// The coordinator notices a lost worker by missing heartbeats, long before this. A worker stays
// with a coordinator that is slow for a moment.
constexpr Duration kBeat = std::chrono::seconds(1);
constexpr Duration kSilence = std::chrono::seconds(10);
constexpr std::uint32_t kLinksOfWorker = 2;

static_assert(kBeat * 2 < kSilence, "a link stays alive when one beat is late");

}  // namespace

TcpOptions worker_control_options(const TlsIdentity& identity,
                                  std::shared_ptr<const RosterBook> roster) {
  TcpOptions options;
  options.kind = LinkKind::kControl;
  options.identity = identity;
  options.roster = std::move(roster);
  options.peers = {Role::kCoordinator};
  options.frame_bytes = limits::kControlMessageBytes;
  options.send_queue_bytes = limits::kControlQueueBytes;
  options.beat = kBeat;
  options.silence = kSilence;
  return options;
}

TcpOptions coordinator_control_options(const TlsIdentity& identity,
                                       std::shared_ptr<const RosterBook> roster) {
  TcpOptions options = worker_control_options(identity, std::move(roster));
  options.peers = {Role::kWorker};
  options.frame_bytes = limits::kControlWorkerBytes;
  options.connections = limits::kWorkers + limits::kConnections;
  options.links_of_key = kLinksOfWorker;
  options.handshakes.under_way = limits::kConnections;
  options.makes_room = true;
  return options;
}

}  // namespace hearth
