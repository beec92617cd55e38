#include "node/ranks/rank_links.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstring>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "base/pause.h"
#include "proto/address.h"
#include "proto/exchange.h"

namespace hearth::node {
namespace {

constexpr Duration kPartPatience = std::chrono::seconds(limits::kRankSeconds);
constexpr Duration kRankStepPatience = std::chrono::seconds(limits::kRankStepSeconds);
// All ranks are told at about the same time to leave. A step that ends keeps their engines.
constexpr Duration kLeavePatience = std::chrono::seconds(5);
// For all links of a group. A rank may still free what it had before.
constexpr Duration kJoinPatience = std::chrono::seconds(60);
constexpr Duration kDialAgain = std::chrono::milliseconds(50);
// A caller says Hello within this time. Its epoch may be one that is not assigned here yet.
constexpr Duration kCallerPatience = std::chrono::seconds(30);
constexpr std::uint32_t kCallers = 2 * limits::kRanks;
// A wait polls for so long before it sleeps, because sleeping and waking cost more than most
// exchanges take. Beside other programs a rank that polls loses the processor, and one that sleeps
// gets it at once. So after a wait that polled in vain the next ones sleep at once: 1, 2, 4 and up
// to kMostUnpolled of them, and 1 again after one that polled with success. Where a machine has
// more ranks than processors, polling would delay the rank that is waited for.
constexpr Duration kSpin = std::chrono::microseconds(150);
constexpr std::uint32_t kMostUnpolled = 64;
// Between two reads: each takes a lock that the bytes under way need, too.
constexpr int kReadPauses = 8;
constexpr auto kSleep = std::chrono::milliseconds(100);

TimePoint time_now() { return SystemClock().now(); }

// The book of tickets belongs to the main thread.
TcpOptions without_tickets(TcpOptions options) {
  options.tickets = nullptr;
  return options;
}

std::string machine_of(const std::string& address) {
  const auto parsed = parse_address(address);
  return parsed.ok() ? parsed->host : address;
}

}  // namespace

RankLinks::RankLinks(TcpOptions options, Hello identity)
    : options_(without_tickets(std::move(options))),
      identity_(std::move(identity)),
      io_(std::make_unique<boost::asio::io_context>()) {}

RankLinks::~RankLinks() = default;

Result<std::string> RankLinks::listen() {
  if (transport_ != nullptr) return address_;
  TcpOptions tcp = options_;
  tcp.peers = {Role::kWorker};
  tcp.connections = 2 * kCallers;
  tcp.makes_room = true;
  // A rank that computes, or that has no step, reads nothing and sends no heartbeat: heartbeats of
  // the others would fill its links. Its process ends its links with it, and the coordinator misses
  // its machine. A rank that is waited for has limits::kRankSeconds.
  tcp.silence = tcp.beat = tcp.stall_deadline = Duration::max() / 2;
  tcp.unread_deadline = kRankStepPatience;
  tcp.first_frame_deadline = kCallerPatience;
  TRY(transport_, TcpTransport::open(*io_, tcp));
  transport_->set_events(this);
  address_ = transport_->address();
  return address_;
}

// At most one is under way, because nothing takes them while this rank is in no group.
void RankLinks::wake() {
  if (transport_ == nullptr || is_woken_.exchange(true)) return;
  boost::asio::post(*io_, [this] { is_woken_ = false; });
}

void RankLinks::recheck_peers() {
  if (transport_ != nullptr) transport_->recheck_peers();
}

Hello RankLinks::our_hello() const {
  Hello hello = identity_;
  hello.epoch = epoch_;
  hello.stage = rank_;
  return hello;
}

RankLinks::Peer* RankLinks::peer_of(LinkId link) {
  const auto found = std::ranges::find_if(peers_, [link](const Peer& peer) {
    return peer.state != Peer::State::kNone && peer.link == link;
  });
  return found == peers_.end() ? nullptr : &*found;
}

// --- the group ---

Status RankLinks::join(const Assignment& assignment, std::function<bool()> cancelled,
                       std::function<bool()> leaving) {
  leave();
  REQUIRE(assignment.rank < assignment.group.size(), "rank ", assignment.rank,
          " is not in its group of ", assignment.group.size(), " ranks");
  INVARIANT(transport_ != nullptr, "a rank gets a group once it listens for others");
  epoch_ = assignment.epoch;
  group_ = assignment.group;
  rank_ = assignment.rank;
  cancelled_ = std::move(cancelled);
  leaving_ = std::move(leaving);
  peers_.assign(ranks(), Peer{});
  const auto here = std::ranges::count_if(group_, [this](const AssignedRank& rank) {
    return machine_of(rank.address) == machine_of(address_);
  });
  spin_ = here > std::thread::hardware_concurrency() ? Duration::zero() : kSpin;
  for (std::uint32_t rank = 0; rank < rank_; ++rank) dial(peers_[rank], rank);
  std::vector<std::pair<LinkId, Hello>> waiting;
  for (const auto& [link, caller] : callers_) {
    if (caller.hello) waiting.emplace_back(link, *caller.hello);
  }
  for (const auto& [link, hello] : waiting) judge(link, hello);
  const auto missing = [this] {
    std::uint32_t rank = 0;
    while (rank < ranks() && (rank == rank_ || peers_[rank].state == Peer::State::kOpen)) ++rank;
    return rank;
  };
  const TimePoint end = time_now() + kJoinPatience;
  while (missing() < ranks()) {
    const std::uint32_t before = missing();
    TRY_VOID(wait([&] { return missing() != before; }, before, end - time_now()));
  }
  return ok_status();
}

void RankLinks::leave() {
  if (group_.empty()) return;
  for (const Peer& peer : peers_) {
    if (peer.state != Peer::State::kNone) transport_->close(peer.link);
  }
  peers_.clear();
  group_.clear();
  cancelled_ = nullptr;
  leaving_ = nullptr;
  leave_by_.reset();
  in_step_ = false;
  unpolled_ = 1;
  unpolled_left_ = 0;
  lost_.reset();
  culprit_.clear();
  number_ = 0;
  // Sends the ends of the links, which the others wait for.
  io_->poll();
}

void RankLinks::dial(Peer& peer, std::uint32_t rank) {
  peer.state = Peer::State::kDialling;
  peer.link = transport_->connect(group_[rank].address);
}

void RankLinks::lose(std::uint32_t rank, ErrorCode code, const std::string& why) {
  if (lost_) return;
  INVARIANT(rank < ranks(), "a lost rank is one of the group");
  culprit_ = group_[rank].node;
  lost_ = Error::of(code, "rank ", rank, " of the group, worker ", culprit_, ", ", why);
}

Error RankLinks::blame(std::uint32_t rank, const std::string& why) {
  lose(rank, ErrorCode::kInvalidInput, why);
  return *lost_;
}

// --- links ---

void RankLinks::on_link_open(LinkId link, bool incoming) {
  if (incoming) {
    if (callers_.size() >= kCallers) return transport_->close(link);
    callers_[link].deadline = time_now() + kCallerPatience;
    return;
  }
  Peer* peer = peer_of(link);
  if (peer == nullptr || peer->state != Peer::State::kDialling) return transport_->close(link);
  peer->state = Peer::State::kGreeted;
  // A queue that holds nothing yet takes a Hello.
  (void)transport_->send(link, {FrameType::kHello, encode(our_hello())}).ok();
}

Status RankLinks::check_hello(LinkId link, const Hello& hello, std::uint32_t rank) const {
  TRY_VOID(check_versions(identity_, hello));
  TRY_VOID(check_peer(*transport_, link, hello.node, Role::kWorker));
  REQUIRE(hello.epoch == epoch_ && hello.stage == rank && hello.node == group_[rank].node,
          "says that it is ", hello.node, ", rank ", hello.stage, " of epoch ", hello.epoch.value,
          "; expected ", group_[rank].node, ", rank ", rank, " of epoch ", epoch_.value);
  return ok_status();
}

void RankLinks::on_frame(LinkId link, Frame frame) {
  if (Peer* peer = peer_of(link)) {
    const auto rank = static_cast<std::uint32_t>(peer - peers_.data());
    if (peer->state != Peer::State::kOpen) return on_answer(rank, frame);
    if (frame.type != FrameType::kExchange && frame.type != FrameType::kBatch) {
      return lose(rank, ErrorCode::kInvalidInput,
                  message_of("sent a frame of type ", static_cast<int>(frame.type),
                             ", which no rank sends"));
    }
    if (peer->frames.size() >= limits::kRankFrames) {
      return lose(rank, ErrorCode::kInvalidInput,
                  message_of("sent more frames ahead than ", limits::kRankFrames));
    }
    peer->bytes += frame.payload.size();
    if (peer->bytes > limits::kRankBytes) {
      return lose(rank, ErrorCode::kInvalidInput,
                  message_of("sent more bytes ahead than ", limits::kRankBytes));
    }
    peer->frames.push_back(std::move(frame));
    return;
  }
  const auto found = callers_.find(link);
  if (found == callers_.end()) return;  // of a link that was closed here
  auto hello = frame.type == FrameType::kHello && !found->second.hello
                   ? decode_hello(frame.payload)
                   : Result<Hello>(Error::invalid("a link begins with one hello each way"));
  const bool known = hello.ok() && check_versions(identity_, *hello).ok() &&
                     check_peer(*transport_, link, hello->node, Role::kWorker).ok();
  if (!known) return transport_->close(link);
  // A node has one place, because there are few of them.
  std::erase_if(callers_, [&](const auto& entry) {
    const auto& [other, caller] = entry;
    if (other == link || !caller.hello || caller.hello->node != hello->node) return false;
    transport_->close(other);
    return true;
  });
  callers_.at(link).hello = *hello;
  judge(link, *hello);
}

// A caller of an epoch to come stays; of another one, or of no rank above, it is refused.
void RankLinks::judge(LinkId link, const Hello& hello) {
  if (group_.empty() || hello.epoch > epoch_) return;
  const std::uint32_t rank = hello.stage;
  const bool expected = hello.epoch == epoch_ && rank > rank_ && rank < ranks() &&
                        peers_[rank].state == Peer::State::kNone;
  if (!expected || !check_hello(link, hello, rank).ok()) return transport_->close(link);
  callers_.erase(link);
  peers_[rank].state = Peer::State::kOpen;
  peers_[rank].link = link;
  (void)transport_->send(link, {FrameType::kHello, encode(our_hello())}).ok();
}

void RankLinks::on_answer(std::uint32_t rank, const Frame& frame) {
  Peer& peer = peers_[rank];
  auto hello = frame.type == FrameType::kHello && peer.state == Peer::State::kGreeted
                   ? decode_hello(frame.payload)
                   : Result<Hello>(Error::invalid("sent a frame before its hello"));
  const Status good = hello.ok() ? check_hello(peer.link, *hello, rank) : Status(hello.error());
  if (!good.ok()) return lose(rank, ErrorCode::kInvalidInput, good.error().message);
  peer.state = Peer::State::kOpen;
}

// A rank that is dialled may not have its assignment yet, and closes a link that it holds too long.
void RankLinks::on_link_closed(LinkId link, const Error& why) {
  callers_.erase(link);
  Peer* peer = peer_of(link);
  if (peer == nullptr) return;
  const auto rank = static_cast<std::uint32_t>(peer - peers_.data());
  if (peer->state == Peer::State::kOpen) {
    peer->state = Peer::State::kLost;
    return lose(rank, ErrorCode::kIo, "is lost: " + why.message);
  }
  peer->state = Peer::State::kNone;
  peer->dial_at = time_now() + kDialAgain;
}

void RankLinks::drop_callers() {
  const TimePoint time = time_now();
  std::erase_if(callers_, [&](const auto& entry) {
    if (time < entry.second.deadline) return false;
    transport_->close(entry.first);
    return true;
  });
}

// --- frames ---

void RankLinks::mark_step(bool begins) {
  in_step_ = begins;
  for (Peer& peer : peers_) peer.waited = Duration::zero();
}

bool RankLinks::ends() {
  if (cancelled_ && cancelled_()) return true;
  if (!leaving_ || !leaving_()) return false;
  if (!in_step_) return true;
  if (!leave_by_) leave_by_ = time_now() + kLeavePatience;
  return time_now() >= *leave_by_;
}

Status RankLinks::wait(const std::function<bool()>& done, std::uint32_t for_rank,
                       Duration patience) {
  if (done()) return ok_status();
  Peer& peer = peers_[for_rank];
  const TimePoint begun = time_now();
  Status status = sleep_until(done, for_rank, std::min(patience, kRankStepPatience - peer.waited));
  if (in_step_) peer.waited += time_now() - begun;
  return status;
}

Status RankLinks::sleep_until(const std::function<bool()>& done, std::uint32_t for_rank,
                              Duration patience) {
  const TimePoint begun = time_now();
  bool polls = spin_ > Duration::zero() && unpolled_left_ == 0;
  if (!polls && unpolled_left_ > 0) --unpolled_left_;
  while (!done()) {
    // A rank whose link has closed may have left after its last exchange: waits for others go on.
    const bool goes_on =
        lost_ && lost_->code == ErrorCode::kIo && peers_[for_rank].state == Peer::State::kOpen;
    if (lost_ && !goes_on) return *lost_;
    if (ends()) return Error{ErrorCode::kCancelled, "the group ended"};
    const Duration waited = time_now() - begun;
    if (waited > patience) {
      const auto seconds =
          std::chrono::duration_cast<std::chrono::seconds>(waited + peers_[for_rank].waited);
      lose(for_rank, ErrorCode::kTimeout,
           message_of("kept this rank waiting for ", seconds.count(), " s"));
      return *lost_;
    }
    if (peers_[for_rank].state == Peer::State::kOpen) transport_->poll(peers_[for_rank].link);
    if (done()) continue;
    if (polls && waited < spin_) {
      for (int i = 0; i < kReadPauses; ++i) pause();
      continue;
    }
    if (std::exchange(polls, false)) {
      unpolled_left_ = unpolled_;
      unpolled_ = std::min(2 * unpolled_, kMostUnpolled);
    }
    for (std::uint32_t rank = 0; rank < rank_; ++rank) {
      Peer& peer = peers_[rank];
      if (peer.state == Peer::State::kNone && time_now() >= peer.dial_at) dial(peer, rank);
    }
    drop_callers();
    io_->run_one_for(kSleep);
  }
  if (polls) unpolled_ = 1;
  return ok_status();
}

Status RankLinks::send(std::uint32_t rank, FrameType type, Bytes payload) {
  Frame frame{type, std::move(payload)};
  const auto sent = [&] { return transport_->send(peers_[rank].link, std::move(frame)); };
  Status status = sent();
  if (status.ok() || status.error().code != ErrorCode::kNoCapacity) return status;
  // The frame is unchanged: the queue has room once the other rank has read.
  return wait(
      [&] {
        status = sent();
        return status.ok() || status.error().code != ErrorCode::kNoCapacity;
      },
      rank, kPartPatience);
}

Result<Frame> RankLinks::receive(std::uint32_t rank, FrameType type) {
  std::deque<Frame>& frames = peers_[rank].frames;
  TRY_VOID(wait([&] { return !frames.empty(); }, rank, kPartPatience));
  Frame frame = std::move(frames.front());
  frames.pop_front();
  peers_[rank].bytes -= frame.payload.size();
  if (frame.type != type) {
    lose(rank, ErrorCode::kInvalidInput,
         message_of("sent a frame of type ", static_cast<int>(frame.type), " in place of type ",
                    static_cast<int>(type)));
    return *lost_;
  }
  return frame;
}

Status RankLinks::swap(std::span<const ByteSpan> out, std::span<const MutableByteSpan> in) {
  INVARIANT(out.size() == ranks() && in.size() == ranks(), "an exchange has a part of each rank");
  if (lost_) return *lost_;
  const std::uint64_t number = number_++;
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    if (rank == rank_) continue;
    TRY_VOID(send(rank, FrameType::kExchange, encode(ExchangePart{epoch_, number, out[rank]})));
  }
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    if (rank == rank_) continue;
    TRY(const Frame frame, receive(rank, FrameType::kExchange));
    const auto part = decode_exchange_part(frame.payload);
    const bool good = part.ok() && part->epoch == epoch_ && part->number == number &&
                      part->bytes.size() == in[rank].size();
    if (!good) {
      lose(rank, ErrorCode::kInvalidInput,
           part.ok() ? message_of("sent ", part->bytes.size(), " bytes of exchange ", part->number,
                                  " of epoch ", part->epoch.value, "; expected ", in[rank].size(),
                                  " bytes of exchange ", number, " of epoch ", epoch_.value)
                     : "sent a bad frame: " + part.error().message);
      return *lost_;
    }
    if (!part->bytes.empty()) {
      std::memcpy(in[rank].data(), part->bytes.data(), part->bytes.size());
    }
  }
  return drain();
}

// The rank may send nothing more for a long time after an exchange, and nothing polls meanwhile.
// Every other rank reads until it has this exchange whole, so it reads these bytes.
Status RankLinks::drain() {
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    if (rank == rank_ || peers_[rank].state != Peer::State::kOpen) continue;
    const LinkId link = peers_[rank].link;
    TRY_VOID(wait([&] { return transport_->is_sent(link); }, rank, kPartPatience));
  }
  return ok_status();
}

Status RankLinks::send_batch(const Bytes& batch) {
  INVARIANT(rank_ == 0, "rank 0 gives out the batches");
  // Nothing has polled since the last step. Without a lost rank the engine begins no step.
  io_->poll();
  if (lost_) return *lost_;
  mark_step(true);
  for (std::uint32_t rank = 1; rank < ranks(); ++rank) {
    TRY_VOID(send(rank, FrameType::kBatch, batch));
  }
  return ok_status();
}

Result<std::optional<Bytes>> RankLinks::next_batch() {
  INVARIANT(rank_ > 0 && rank_ < ranks(), "a rank waits for the batches of rank 0");
  const std::deque<Frame>& frames = peers_[0].frames;
  mark_step(false);
  if (lost_) return *lost_;
  if (ends()) return Error{ErrorCode::kCancelled, "the group ended"};
  // A wake may be what the poll has run: then this wait is over.
  transport_->poll(peers_[0].link);
  if (io_->poll() == 0 && frames.empty() && !lost_) {
    drop_callers();
    io_->run_one_for(kSleep);
    io_->poll();
  }
  if (lost_) return *lost_;
  if (frames.empty()) return std::optional<Bytes>();
  mark_step(true);
  TRY(Frame frame, receive(0, FrameType::kBatch));
  return std::optional<Bytes>(std::move(frame.payload));
}

}  // namespace hearth::node
