// DataLinks: the data links of a stage, with their handshakes. Every link begins with a Hello each
// way: the side that dialled sends first, the other answers with its own Hello or with kRefused.
//
//   dialled   the next stage (of the last stage: the first), and from the last the coordinator
//   accepted  the previous stage (of the first stage: the last), and on the first the coordinator
//
// Of a group, rank 0 alone has these links (node/ranks/rank_links.h has those between ranks).
// Control and data race, so a Hello of an epoch that is not assigned yet is held for a short time.
// Threads: everything on the main thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/random.h"
#include "node/assignment.h"
#include "node/backoff.h"
#include "proto/link/transport.h"

namespace hearth::node {

enum class Peer : std::uint8_t { kRing, kCoordinator };

class DataLinkEvents {
 public:
  virtual ~DataLinkEvents() = default;
  // Every link that this stage dials has completed its handshake.
  virtual void on_linked() = 0;
  // From the previous stage round the ring, or from the coordinator.
  virtual void on_peer_frame(Peer from, Frame frame) = 0;
  // The assignment can no longer be served; the receiver ends it. `peer`: the node at the far end;
  // empty: the coordinator. `unreached`: no link to it opened.
  virtual void on_links_failed(const std::string& why, const std::string& peer, bool unreached) = 0;
};

class DataLinks final : public TransportEvents {
 public:
  // `identity`: our versions and name; epoch and stage come from each assignment.
  DataLinks(Hello identity, const Clock& clock, Random& random, Transport& transport,
            DataLinkEvents& events);

  // Dials what the assignment names and takes over held links. Links of other epochs are closed.
  void begin(const Assignment& assignment);
  void end();
  bool linked() const;
  // To the next stage round the ring, or to the coordinator (last stage). A frame for which the
  // transport has no room is kept and sent later. While the coordinator's frames wait, the ring's
  // wait as well, so the steps in flight bound both queues.
  void send(Peer to, Frame frame);
  std::size_t queued(Peer to) const;
  void on_timer();
  std::uint64_t late_frames() const { return late_frames_; }

  void on_link_open(LinkId link, bool incoming) override;
  void on_frame(LinkId link, Frame frame) override;
  void on_link_closed(LinkId link, const Error& why) override;

 private:
  // One link that we dial.
  struct Outgoing {
    enum class State { kUnused, kWaiting, kDialling, kGreeted, kOpen };
    State state = State::kUnused;
    std::string address;      // or another route (proto/link/route.h)
    std::string node;         // the node that must answer; empty: the coordinator, under any name
    std::uint32_t stage = 0;  // that the far side must have
    bool reached = false;     // a link to the node opened
    LinkId link;
    TimePoint deadline{};  // the next attempt, or the timeout of this one
    std::deque<Frame> queue;
  };
  // One link that a peer dialled.
  struct Incoming {
    enum class State { kSilent, kHeld, kAccepted, kRefused };
    State state = State::kSilent;
    TimePoint deadline{};
    Hello hello;
    Peer peer = Peer::kRing;
    bool used = false;  // a frame came after the Hello
  };

  const Outgoing& outgoing(Peer peer) const { return outgoing_[static_cast<std::size_t>(peer)]; }
  Outgoing& outgoing(Peer peer) { return outgoing_[static_cast<std::size_t>(peer)]; }
  void plan(Peer peer, std::string address, std::string node, std::uint32_t stage);
  void dial(Outgoing& out);
  void on_outgoing_frame(Outgoing& out, const Frame& frame);
  Status check_answer(const Outgoing& out, const Frame& frame) const;
  void on_outgoing_closed(Outgoing& out, const std::string& why);
  void outgoing_timer(Outgoing& out);
  void flush();
  void flush(Outgoing& out);
  void on_incoming_frame(LinkId link, Incoming& in, Frame frame);
  void judge(LinkId link, Incoming& in);
  // Checks that the link's peer has the name in its Hello, and is `node` if that is given.
  Status check_speaker(LinkId link, const Hello& hello, const std::string& node) const;
  void accept(LinkId link, Incoming& in, Peer peer);
  // `told`: the text for the peer, instead of the log's.
  void refuse(LinkId link, Incoming& in, const std::string& why, std::string_view told = {});
  Hello our_hello() const;

  Hello identity_;
  const Clock& clock_;
  Transport& transport_;
  DataLinkEvents& events_;
  Backoff backoff_;
  std::optional<Assignment> assignment_;
  Epoch newest_epoch_;
  TimePoint forming_deadline_{};
  bool announced_ = false;  // on_linked was called for this assignment
  std::array<Outgoing, 2> outgoing_;
  std::map<LinkId, Incoming> incoming_;
  std::uint64_t late_frames_ = 0;
};

}  // namespace hearth::node
