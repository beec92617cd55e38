#include "coordinator/pipelines/pipeline_links.h"

#include <spdlog/spdlog.h>

#include <vector>

#include "base/limits.h"

namespace hearth::coordinator {
namespace {

constexpr Duration kHelloPatience = std::chrono::seconds(5);
// A refused peer hangs up by itself once it has read the sentence.
constexpr Duration kRefusedPatience = std::chrono::seconds(1);
constexpr Duration kAnswerPatience = std::chrono::seconds(2);
// Longest time over all attempts. Loading keeps no worker from answering.
constexpr Duration kFormingPatience = std::chrono::seconds(5);
constexpr Duration kRedial = std::chrono::milliseconds(200);

}  // namespace

PipelineLinks::PipelineLinks(Hello identity, const Clock& clock, Transport& transport,
                             PipelineLinkEvents& events)
    : identity_(std::move(identity)), clock_(clock), transport_(transport), events_(events) {
  identity_.stage = Hello::kCoordinatorStage;
}

Hello PipelineLinks::hello_of(Epoch epoch) const {
  Hello hello = identity_;
  hello.epoch = epoch;
  return hello;
}

void PipelineLinks::open(Epoch epoch, std::uint32_t stages, std::string first_address,
                         std::string first_node, std::string last_node) {
  Ends& ends = ends_[epoch];
  ends.stages = stages;
  ends.first_address = std::move(first_address);
  ends.first_node = std::move(first_node);
  ends.last_node = std::move(last_node);
  ends.give_up = clock_.now() + kFormingPatience;
  dial(ends);
}

void PipelineLinks::dial(Ends& ends) {
  ends.first_state = State::kDialling;
  ends.deadline = clock_.now() + kAnswerPatience;
  ends.first = transport_.connect(ends.first_address);
}

void PipelineLinks::close(Epoch epoch) {
  const auto found = ends_.find(epoch);
  if (found == ends_.end()) return;
  const Ends& ends = found->second;
  if (ends.first_state != State::kWaiting) transport_.close(ends.first);
  if (ends.last_open) transport_.close(ends.last);
  ends_.erase(found);
}

bool PipelineLinks::linked(Epoch epoch) const {
  const auto found = ends_.find(epoch);
  return found != ends_.end() && found->second.first_state == State::kOpen &&
         found->second.last_open;
}

void PipelineLinks::send(Epoch epoch, Frame frame) {
  const auto found = ends_.find(epoch);
  if (found == ends_.end()) return;
  found->second.queue.push_back(std::move(frame));
  flush(found->second);
}

void PipelineLinks::flush(Ends& ends) {
  while (ends.first_state == State::kOpen && !ends.queue.empty()) {
    if (!transport_.send(ends.first, std::move(ends.queue.front())).ok()) return;  // it stays whole
    ends.queue.pop_front();
  }
}

void PipelineLinks::on_timer() {
  const TimePoint now = clock_.now();
  std::vector<Epoch> silent;
  for (auto& [epoch, ends] : ends_) {
    flush(ends);
    if (ends.first_state == State::kOpen || now < ends.deadline) continue;
    if (ends.first_state == State::kWaiting) {
      dial(ends);
    } else {
      transport_.close(ends.first);
      silent.push_back(epoch);
    }
  }
  for (const Epoch epoch : silent) {
    const auto found = ends_.find(epoch);
    if (found != ends_.end()) first_closed(epoch, found->second, "no answer");
  }
  std::erase_if(strangers_, [&](const auto& entry) {
    if (now < entry.second.deadline) return false;
    transport_.close(entry.first);
    return true;
  });
}

void PipelineLinks::on_link_open(LinkId link, bool incoming) {
  if (incoming) {
    if (strangers_.size() >= limits::kConnections) return transport_.close(link);
    strangers_[link].deadline = clock_.now() + kHelloPatience;
    return;
  }
  for (auto& [epoch, ends] : ends_) {
    if (ends.first_state != State::kDialling || ends.first != link) continue;
    ends.first_state = State::kGreeted;
    // A queue that holds nothing yet takes a Hello.
    (void)transport_.send(link, {FrameType::kHello, encode(hello_of(epoch))}).ok();
    return;
  }
}

void PipelineLinks::on_frame(LinkId link, Frame frame) {
  const auto stranger = strangers_.find(link);
  if (stranger != strangers_.end()) return on_stranger_frame(link, stranger->second, frame);
  for (auto& [epoch, ends] : ends_) {
    if (ends.last_open && ends.last == link) {
      return events_.on_pipeline_frame(epoch, std::move(frame));
    }
    const bool dialled = ends.first_state == State::kGreeted || ends.first_state == State::kOpen;
    if (dialled && ends.first == link) return on_first_frame(epoch, ends, frame);
  }
  ++late_frames_;
}

void PipelineLinks::on_first_frame(Epoch epoch, Ends& ends, const Frame& frame) {
  const Status answer = check_answer(epoch, ends, frame);
  if (!answer.ok()) return events_.on_pipeline_link_lost(epoch, 0, answer.error().message);
  ends.first_state = State::kOpen;
  flush(ends);
  announce(epoch, ends);
}

Status PipelineLinks::check_answer(Epoch epoch, const Ends& ends, const Frame& frame) const {
  if (frame.type == FrameType::kRefused) {
    return Error::of(ErrorCode::kVersion, "refused by the worker: ", decode_refused(frame.payload));
  }
  REQUIRE(ends.first_state == State::kGreeted && frame.type == FrameType::kHello,
          "the first stage sent a frame of type ", static_cast<int>(frame.type),
          " against the direction of the link");
  TRY(const Hello theirs, decode_hello(frame.payload));
  TRY_VOID(check_versions(identity_, theirs));
  REQUIRE(theirs.epoch == epoch && theirs.stage == 0, "expected the first stage of epoch ",
          epoch.value, ", found stage ", theirs.stage, " of epoch ", theirs.epoch.value);
  TRY_VOID(check_peer(transport_, ends.first, theirs.node, Role::kWorker));
  REQUIRE(theirs.node == ends.first_node, theirs.node,
          " answers in place of the first stage's node, ", ends.first_node);
  return ok_status();
}

void PipelineLinks::on_stranger_frame(LinkId link, Stranger& stranger, const Frame& frame) {
  if (stranger.refused) return;
  auto hello = frame.type == FrameType::kHello
                   ? decode_hello(frame.payload)
                   : Result<Hello>(Error::invalid("a link begins with one hello each way"));
  const Status versions = hello.ok() ? check_versions(identity_, *hello) : Status(hello.error());
  if (!versions.ok()) {
    return refuse(link, stranger, versions.error().message, versions.error().message);
  }
  // Before anything is said of epochs and stages: that is for the nodes that they name.
  const Status speaker = check_peer(transport_, link, hello->node, Role::kWorker);
  if (!speaker.ok()) return refuse(link, stranger, speaker.error().message, kNotAdmitted);
  const Status welcome = judge(*hello);
  if (!welcome.ok()) {
    return refuse(link, stranger, welcome.error().message, welcome.error().message);
  }
  strangers_.erase(link);
  Ends& ends = ends_.at(hello->epoch);
  // A worker that dials again before it was ready lost the first link.
  if (ends.last_open) transport_.close(ends.last);
  ends.last_open = true;
  ends.last = link;
  (void)transport_.send(link, {FrameType::kHello, encode(hello_of(hello->epoch))}).ok();
  announce(hello->epoch, ends);
}

void PipelineLinks::refuse(LinkId link, Stranger& stranger, const std::string& why,
                           std::string_view told) {
  spdlog::warn("refused a data link: {}", why);
  stranger.refused = true;
  stranger.deadline = clock_.now() + kRefusedPatience;
  (void)transport_.send(link, {FrameType::kRefused, encode_refused(told)}).ok();
}

Status PipelineLinks::judge(const Hello& hello) const {
  const auto found = ends_.find(hello.epoch);
  REQUIRE(found != ends_.end(), "epoch ", hello.epoch.value,
          " is not a pipeline of this coordinator");
  const Ends& ends = found->second;
  REQUIRE(hello.stage + 1 == ends.stages && hello.node == ends.last_node, "stage ", hello.stage,
          " on ", hello.node, " is not the last stage of epoch ", hello.epoch.value);
  REQUIRE(!ends.announced, "the last stage has a link already");
  return ok_status();
}

void PipelineLinks::announce(Epoch epoch, Ends& ends) {
  if (ends.announced || ends.first_state != State::kOpen || !ends.last_open) return;
  ends.announced = true;
  events_.on_pipeline_linked(epoch);
}

void PipelineLinks::on_link_closed(LinkId link, const Error& why) {
  if (strangers_.erase(link) > 0) return;
  for (auto& [epoch, ends] : ends_) {
    if (ends.last_open && ends.last == link) {
      ends.last_open = false;
      if (ends.announced) events_.on_pipeline_link_lost(epoch, ends.stages - 1, why.message);
      return;
    }
    if (ends.first_state != State::kWaiting && ends.first == link) {
      return first_closed(epoch, ends, why.message);
    }
  }
}

// Before the pipeline is linked its first stage may merely be late, for a while.
void PipelineLinks::first_closed(Epoch epoch, Ends& ends, const std::string& why) {
  ends.first_state = State::kWaiting;
  ends.deadline = clock_.now() + kRedial;
  const bool lost = ends.announced || clock_.now() >= ends.give_up;
  if (lost) events_.on_pipeline_link_lost(epoch, 0, why);
}

}  // namespace hearth::coordinator
