#include "node/pipeline/data_links.h"

#include <spdlog/spdlog.h>

#include "base/check.h"
#include "base/limits.h"
#include "proto/link/route.h"

namespace hearth::node {
namespace {

// A peer that dialled must say Hello within this; a Hello of an epoch to come waits as long.
constexpr Duration kHelloPatience = std::chrono::seconds(5);
// A refused peer hangs up by itself once it has read the sentence.
constexpr Duration kRefusedWait = std::chrono::seconds(1);
constexpr Duration kAnswerPatience = std::chrono::seconds(2);
// Longest time over all attempts to reach the peers of an assignment. A peer that loads layers
// still answers.
constexpr Duration kFormingPatience = std::chrono::seconds(5);

}  // namespace

DataLinks::DataLinks(Hello identity, const Clock& clock, Random& random, Transport& transport,
                     DataLinkEvents& events)
    : identity_(std::move(identity)),
      clock_(clock),
      transport_(transport),
      events_(events),
      backoff_(random) {}

Hello DataLinks::our_hello() const {
  Hello hello = identity_;
  hello.epoch = assignment_->epoch;
  hello.stage = assignment_->stage;
  return hello;
}

void DataLinks::begin(const Assignment& assignment) {
  end();
  assignment_ = assignment;
  newest_epoch_ = assignment.epoch;
  forming_deadline_ = clock_.now() + kFormingPatience;
  announced_ = false;
  backoff_.reset();
  if (assignment.stages > 1 && assignment.leads()) {
    plan(Peer::kRing, assignment.next_address, assignment.next_node,
         (assignment.stage + 1) % assignment.stages);
  }
  if (assignment.is_last() && assignment.leads()) {
    plan(Peer::kCoordinator, assignment.coordinator_address, "", Hello::kCoordinatorStage);
  }
  for (auto& [link, in] : incoming_) {
    if (in.state == Incoming::State::kHeld) judge(link, in);
  }
}

void DataLinks::end() {
  for (Outgoing& out : outgoing_) {
    if (out.state != Outgoing::State::kUnused && out.state != Outgoing::State::kWaiting) {
      transport_.close(out.link);
    }
    out = Outgoing{};
  }
  std::erase_if(incoming_, [this](const auto& entry) {
    if (entry.second.state != Incoming::State::kAccepted) return false;
    transport_.close(entry.first);
    return true;
  });
  assignment_.reset();
}

bool DataLinks::linked() const {
  if (!assignment_) return false;
  for (const Outgoing& out : outgoing_) {
    if (out.state != Outgoing::State::kUnused && out.state != Outgoing::State::kOpen) return false;
  }
  return true;
}

void DataLinks::plan(Peer peer, std::string address, std::string node, std::uint32_t stage) {
  Outgoing& out = outgoing(peer);
  out.address = std::move(address);
  out.node = std::move(node);
  out.stage = stage;
  dial(out);
}

void DataLinks::dial(Outgoing& out) {
  out.state = Outgoing::State::kDialling;
  // A ticket is good for one attempt.
  out.deadline = clock_.now() + (is_direct_route(out.address) ? kAnswerPatience : kFormingPatience);
  out.link = transport_.connect(out.address);
}

void DataLinks::send(Peer to, Frame frame) {
  Outgoing& out = outgoing(to);
  if (out.state == Outgoing::State::kUnused) return;
  out.queue.push_back(std::move(frame));
  flush();
}

std::size_t DataLinks::queued(Peer to) const { return outgoing(to).queue.size(); }

void DataLinks::flush() {
  flush(outgoing(Peer::kCoordinator));
  if (queued(Peer::kCoordinator) == 0) flush(outgoing(Peer::kRing));
}

void DataLinks::flush(Outgoing& out) {
  while (out.state == Outgoing::State::kOpen && !out.queue.empty()) {
    if (!transport_.send(out.link, std::move(out.queue.front())).ok()) return;  // it stays whole
    out.queue.pop_front();
  }
}

void DataLinks::on_timer() {
  flush();
  for (Outgoing& out : outgoing_) outgoing_timer(out);
  const TimePoint now = clock_.now();
  for (auto& [link, in] : incoming_) {
    if (in.state != Incoming::State::kHeld || now < in.deadline) continue;
    refuse(link, in, message_of("epoch ", in.hello.epoch.value, " is not assigned here"));
  }
  std::erase_if(incoming_, [&](const auto& entry) {
    const auto& [link, in] = entry;
    const bool waiting =
        in.state == Incoming::State::kSilent || in.state == Incoming::State::kRefused;
    if (!waiting || now < in.deadline) return false;
    transport_.close(link);
    return true;
  });
}

void DataLinks::outgoing_timer(Outgoing& out) {
  const TimePoint now = clock_.now();
  if (out.state == Outgoing::State::kUnused || out.state == Outgoing::State::kOpen ||
      now < out.deadline) {
    return;
  }
  if (out.state == Outgoing::State::kWaiting) return dial(out);
  transport_.close(out.link);
  on_outgoing_closed(out, "no answer");
}

void DataLinks::on_link_open(LinkId link, bool incoming) {
  if (incoming) {
    if (incoming_.size() >= limits::kConnections) return transport_.close(link);
    incoming_[link].deadline = clock_.now() + kHelloPatience;
    return;
  }
  for (Outgoing& out : outgoing_) {
    if (out.state != Outgoing::State::kDialling || out.link != link) continue;
    out.state = Outgoing::State::kGreeted;
    // In another network, another node may have the same address.
    const auto peer = transport_.peer(link);
    out.reached = out.reached || !peer || out.node.empty() || peer->name == out.node;
    // A queue that holds nothing yet takes a Hello.
    (void)transport_.send(link, {FrameType::kHello, encode(our_hello())}).ok();
    return;
  }
}

void DataLinks::on_frame(LinkId link, Frame frame) {
  for (Outgoing& out : outgoing_) {
    const bool ours = out.state == Outgoing::State::kGreeted || out.state == Outgoing::State::kOpen;
    if (ours && out.link == link) return on_outgoing_frame(out, frame);
  }
  const auto found = incoming_.find(link);
  if (found == incoming_.end()) {
    ++late_frames_;  // of a link that we closed with its epoch
    return;
  }
  on_incoming_frame(link, found->second, std::move(frame));
}

void DataLinks::on_outgoing_frame(Outgoing& out, const Frame& frame) {
  const Status answer = check_answer(out, frame);
  if (!answer.ok()) {
    return events_.on_links_failed(
        "link to " + describe_route(out.address) + ": " + answer.error().message, out.node,
        !out.reached);
  }
  out.state = Outgoing::State::kOpen;
  if (linked() && !announced_) {
    announced_ = true;
    events_.on_linked();
  }
}

Status DataLinks::check_answer(const Outgoing& out, const Frame& frame) const {
  if (frame.type == FrameType::kRefused) {
    return Error::of(ErrorCode::kVersion, "refused by the peer: ", decode_refused(frame.payload));
  }
  REQUIRE(out.state == Outgoing::State::kGreeted && frame.type == FrameType::kHello,
          "the peer sent a frame of type ", static_cast<int>(frame.type),
          " against the direction of the link");
  TRY(const Hello theirs, decode_hello(frame.payload));
  TRY_VOID(check_versions(our_hello(), theirs));
  REQUIRE(theirs.epoch == assignment_->epoch && theirs.stage == out.stage, "expected stage ",
          out.stage, " of epoch ", assignment_->epoch.value, ", found stage ", theirs.stage,
          " of epoch ", theirs.epoch.value);
  return check_speaker(out.link, theirs, out.node);
}

Status DataLinks::check_speaker(LinkId link, const Hello& hello, const std::string& node) const {
  const bool coordinator = hello.stage == Hello::kCoordinatorStage;
  const Role role = coordinator ? Role::kCoordinator : Role::kWorker;
  TRY_VOID(check_peer(transport_, link, hello.node, role));
  REQUIRE(node.empty() || hello.node == node, hello.node, " claims to be stage ", hello.stage,
          ", which is ", node);
  return ok_status();
}

void DataLinks::on_link_closed(LinkId link, const Error& why) {
  if (incoming_.erase(link) > 0) return;
  for (Outgoing& out : outgoing_) {
    const bool unused =
        out.state == Outgoing::State::kUnused || out.state == Outgoing::State::kWaiting;
    if (!unused && out.link == link) return on_outgoing_closed(out, why.message);
  }
}

// Before the stage is linked a peer may merely be late, but a ticket is good for one attempt.
// Afterwards, what was under way is lost.
void DataLinks::on_outgoing_closed(Outgoing& out, const std::string& why) {
  const bool forming =
      !announced_ && is_direct_route(out.address) && clock_.now() < forming_deadline_;
  if (!forming) {
    return events_.on_links_failed("link to " + describe_route(out.address) + " lost: " + why,
                                   out.node, !out.reached);
  }
  out.state = Outgoing::State::kWaiting;
  out.deadline = clock_.now() + backoff_.next();
}

void DataLinks::on_incoming_frame(LinkId link, Incoming& in, Frame frame) {
  if (in.state == Incoming::State::kRefused) return;
  if (in.state == Incoming::State::kAccepted) {
    in.used = true;
    return events_.on_peer_frame(in.peer, std::move(frame));
  }
  if (in.state == Incoming::State::kHeld || frame.type != FrameType::kHello) {
    return refuse(link, in, "a link begins with one hello each way");
  }
  auto hello = decode_hello(frame.payload);
  if (!hello.ok()) return refuse(link, in, hello.error().message);
  in.hello = std::move(*hello);
  const Status versions = check_versions(identity_, in.hello);
  if (!versions.ok()) return refuse(link, in, versions.error().message);
  // Before anything is said of epochs and stages: that is for the nodes that they name.
  const Status speaker = check_speaker(link, in.hello, "");
  if (!speaker.ok()) return refuse(link, in, speaker.error().message, kNotAdmitted);
  in.deadline = clock_.now() + kHelloPatience;
  judge(link, in);
}

// Accepts, refuses or holds a peer by the epoch and the stage of its Hello.
void DataLinks::judge(LinkId link, Incoming& in) {
  const Hello& hello = in.hello;
  if (hello.epoch > newest_epoch_) {
    in.state = Incoming::State::kHeld;
    return;
  }
  if (!assignment_ || hello.epoch != assignment_->epoch) {
    return refuse(link, in,
                  message_of("epoch ", hello.epoch.value, " is over; the newest here is ",
                             newest_epoch_.value));
  }
  if (!assignment_->leads()) {
    return refuse(link, in, "only rank 0 of a group has the links of its stage");
  }
  if (hello.stage == Hello::kCoordinatorStage && assignment_->is_first()) {
    const Status speaker = check_speaker(link, hello, "");
    if (!speaker.ok()) return refuse(link, in, speaker.error().message, kNotAdmitted);
    return accept(link, in, Peer::kCoordinator);
  }
  const std::uint32_t previous =
      (assignment_->stage + assignment_->stages - 1) % assignment_->stages;
  if (assignment_->stages > 1 && hello.stage == previous) {
    const Status speaker = check_speaker(link, hello, assignment_->previous_node);
    if (!speaker.ok()) return refuse(link, in, speaker.error().message, kNotAdmitted);
    return accept(link, in, Peer::kRing);
  }
  refuse(link, in, message_of("stage ", hello.stage, " has no link to stage ", assignment_->stage));
}

void DataLinks::accept(LinkId link, Incoming& in, Peer peer) {
  for (auto& [other, existing] : incoming_) {
    if (existing.state != Incoming::State::kAccepted || existing.peer != peer) continue;
    if (existing.used) return refuse(link, in, "this peer has a link already");
    // A peer that dials again lost the first link; its end was not seen here yet.
    refuse(other, existing, "replaced by a newer link");
  }
  in.state = Incoming::State::kAccepted;
  in.peer = peer;
  (void)transport_.send(link, {FrameType::kHello, encode(our_hello())}).ok();
}

void DataLinks::refuse(LinkId link, Incoming& in, const std::string& why, std::string_view told) {
  spdlog::warn("{}: refused a data link of {}: {}", identity_.node,
               in.hello.node.empty() ? "an unnamed peer" : in.hello.node, why);
  in.state = Incoming::State::kRefused;
  in.deadline = clock_.now() + kRefusedWait;
  (void)transport_.send(link, {FrameType::kRefused, encode_refused(told.empty() ? why : told)})
      .ok();
}

}  // namespace hearth::node
