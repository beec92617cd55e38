// RankLinks: the data links between the ranks of a group, each to each, and the Exchange over them.
//
//   rank r dials every rank below it; both say Hello, whose `stage` is the rank
//   rank 0 -> others    kBatch: each step batch, before rank 0 begins it
//   each -> each        kExchange: one frame in each exchange, which may be empty
//
// So no rank is more than one exchange ahead of another, and the frames of a link are bounded
// (limits::kRankFrames, kRankBytes). A frame of another epoch, number, type or size ends the group
// and names its sender. A rank waits limits::kRankSeconds for a frame, and kRankStepSeconds for all
// frames of one rank in a step.
//
// The links have their own transport, which the engine's thread polls while it waits: no other
// thread is woken within a step. Threads: everything is the engine's but listen(), which comes
// before the first join(), wake() and recheck_peers(): those are the main thread's.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "node/assignment.h"
#include "node/engine/ranks/exchange.h"
#include "proto/link/tcp_transport.h"

namespace hearth::node {

class RankLinks final : public Exchange, private TransportEvents {
 public:
  // `identity`: our versions and name. Nothing listens before listen().
  RankLinks(TcpOptions options, Hello identity);
  ~RankLinks() override;
  RankLinks(const RankLinks&) = delete;
  RankLinks& operator=(const RankLinks&) = delete;

  // Where other ranks reach this one from now on, "host:port". kIo when the address of the options
  // cannot be listened at.
  Result<std::string> listen();
  // Makes a wait look at `cancelled` and at other work now.
  void wake();
  // After a newer roster: closes the links whose peers it no longer names.
  void recheck_peers();

  // Links this rank with all others of the group. `cancelled` ends this wait and all later ones of
  // the group, with kCancelled. `leaving` does so too, but a step under way has some seconds to
  // end.
  Status join(const Assignment& assignment, std::function<bool()> cancelled,
              std::function<bool()> leaving = {});
  // Closes the links of the group.
  void leave();

  // Nothing waits to be sent when it returns.
  Status swap(std::span<const ByteSpan> out, std::span<const MutableByteSpan> in) override;
  Error blame(std::uint32_t rank, const std::string& why) override;
  // From rank 0 to all others.
  Status send_batch(const Bytes& batch);
  // On another rank: the next batch, or nothing when the wait was woken or was long.
  Result<std::optional<Bytes>> next_batch();

  // The node whose fault ended the group; empty: unknown.
  const std::string& culprit() const { return culprit_; }

 private:
  struct Peer {
    enum class State { kNone, kDialling, kGreeted, kOpen, kLost };
    State state = State::kNone;
    LinkId link;
    TimePoint dial_at{};
    std::deque<Frame> frames;  // that came and were not read
    std::size_t bytes = 0;     // of them
    Duration waited{};         // for this rank, in the step under way
  };
  // A link that another node dialled, until it is a rank's.
  struct Caller {
    std::optional<Hello> hello;
    TimePoint deadline{};
  };

  void on_link_open(LinkId link, bool incoming) override;
  void on_frame(LinkId link, Frame frame) override;
  void on_link_closed(LinkId link, const Error& why) override;

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(group_.size()); }
  Hello our_hello() const;
  Peer* peer_of(LinkId link);
  void dial(Peer& peer, std::uint32_t rank);
  void judge(LinkId link, const Hello& hello);
  Status check_hello(LinkId link, const Hello& hello, std::uint32_t rank) const;
  void on_answer(std::uint32_t rank, const Frame& frame);
  void drop_callers();
  // Ends the group; the first reason stays.
  void lose(std::uint32_t rank, ErrorCode code, const std::string& why);
  bool ends();
  void mark_step(bool begins);
  // Polls until `done`, or ends: a loss, ends(), or `for_rank` says nothing for too long.
  Status wait(const std::function<bool()>& done, std::uint32_t for_rank, Duration patience);
  Status sleep_until(const std::function<bool()>& done, std::uint32_t for_rank, Duration patience);
  Status send(std::uint32_t rank, FrameType type, Bytes payload);
  Result<Frame> receive(std::uint32_t rank, FrameType type);
  // Waits until the system has all that was sent.
  Status drain();

  const TcpOptions options_;
  const Hello identity_;
  const std::unique_ptr<boost::asio::io_context> io_;
  std::unique_ptr<TcpTransport> transport_;  // from listen() on
  std::atomic<bool> is_woken_ = false;       // a wake() is under way
  std::string address_;
  Epoch epoch_;
  std::vector<AssignedRank> group_;  // empty: in no group
  std::uint32_t rank_ = 0;
  std::vector<Peer> peers_;  // by rank
  std::map<LinkId, Caller> callers_;
  std::uint64_t number_ = 0;    // of the next exchange
  Duration spin_{};             // of a wait, before it sleeps
  std::uint32_t unpolled_ = 1;  // waits that sleep at once behind the next one that polls in vain
  std::uint32_t unpolled_left_ = 0;  // of those behind the last such one
  std::function<bool()> cancelled_;
  std::function<bool()> leaving_;
  bool in_step_ = false;
  std::optional<TimePoint> leave_by_;  // once a wait of a step has seen that the rank leaves
  std::optional<Error> lost_;
  std::string culprit_;
};

}  // namespace hearth::node
