// Transport: one of the four seams. Ordered, reliable frames over links, delivered on one thread.
// Real: proto/link/tcp_transport, for data links and for control links. Simulated: tests/sim.
//
// A data link closes within seconds when the peer's process, machine or network fails. An open link
// that carries nothing else carries heartbeats (FrameType::kBeat). The main thread sends them, so a
// frozen process sends none.
//
// Threads: every method and every callback runs on the thread that polls the transport. This is the
// main thread, except for the transports of PeerSource and `hearth ping`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "proto/frame.h"
#include "proto/roster.h"

namespace hearth {

using LinkId = Id<struct LinkTag, std::uint64_t>;  // never reused within a process

class TransportEvents {
 public:
  virtual ~TransportEvents() = default;
  virtual void on_link_open(LinkId link, bool incoming) = 0;
  virtual void on_frame(LinkId link, Frame frame) = 0;
  // The last event of a link. Frames not yet delivered are lost.
  virtual void on_link_closed(LinkId link, const Error& why) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  // Set once, before the first link.
  virtual void set_events(TransportEvents* events) = 0;
  // Begins to connect; on_link_open or on_link_closed follows, never inside this call.
  virtual LinkId connect(std::string_view address) = 0;
  // Queues a frame. kNoCapacity when the link's send queue would pass its limit: `frame` is then
  // unchanged, and the caller waits (data) or closes the link (control). A closed link drops
  // frames.
  virtual Status send(LinkId link, Frame&& frame) = 0;
  // on_link_closed follows with kCancelled, never inside this call.
  virtual void close(LinkId link) = 0;
  // The roster entry of the key at the far end of an open link, for comparison with the peer's own
  // statements. Nothing when the link is not open, or the roster no longer names the peer.
  virtual std::optional<RosterEntry> peer(LinkId link) const = 0;
  // The address of the machine at the far end of an open link; empty when that is not known.
  virtual std::string host(LinkId /*link*/) const { return ""; }
  // Our address for peers, "host:port"; empty when not listening.
  virtual std::string address() const = 0;
};

// Checks that the far end of `link` is in the roster with the name and role that it claims. The
// error is for the log; the refused peer gets only kNotAdmitted.
Status check_peer(const Transport& transport, LinkId link, std::string_view name, Role role);
inline constexpr std::string_view kNotAdmitted = "this node is not admitted here";

}  // namespace hearth
