// A swarm against the coordinator: workers that come and go, owners that call back from inside
// their events, and last stages that keep the protocol.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "coordinator/coordinator.h"
#include "tests/unit/coordinator/workers/workers.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {

using control::v1::CoordinatorMessage;
using control::v1::WorkerMessage;
using std::chrono::milliseconds;
using std::chrono::seconds;

// One sequence's owner: checks the order of its events.
struct Owner final : SequenceEvents {
  void on_admitted() override {
    EXPECT_FALSE(admitted || over) << id;
    admitted = true;
    if (order != nullptr) order->push_back(this);
    if (then) then(*this);
  }
  void on_cached(std::uint32_t positions) override {
    EXPECT_TRUE(admitted && !over && tokens == 0 && cached == 0) << id;
    cached = positions;
  }
  void on_scores(std::vector<SampledToken> more) override {
    EXPECT_TRUE(admitted && !over && tokens == 0) << id;
    scores.insert(scores.end(), more.begin(), more.end());
  }
  void on_embedding(std::vector<float> values) override {
    EXPECT_TRUE(admitted && !over && tokens == 0) << id;
    embedding = std::move(values);
  }
  void on_token(const SampledToken& token) override {
    EXPECT_TRUE(admitted && !over) << id;
    EXPECT_EQ(token.position, prompt + tokens) << id << ": a gap, or a token twice";
    ++tokens;
    over = token.finish != FinishReason::kNone;
    if (then) then(*this);
  }
  void on_hashes(std::vector<RowHash>) override { EXPECT_TRUE(admitted && !over) << id; }
  void on_error(const Error& error) override {
    EXPECT_FALSE(over) << id;
    over = true;
    failed = true;
    code = error.code;
    message = error.message;
    if (then) then(*this);
  }
  std::uint64_t id = 0;
  std::uint32_t prompt = 0;
  bool admitted = false;
  bool over = false;  // ended, or cancelled: nothing may follow
  bool failed = false;
  std::uint32_t tokens = 0;
  std::uint32_t cached = 0;
  std::vector<SampledToken> scores;
  std::vector<float> embedding;
  ErrorCode code = ErrorCode::kNumeric;
  std::string message;
  std::vector<Owner*>* order = nullptr;
  std::function<void(Owner&)> then;
};

// What runs on the stages of one pipeline.
struct Ring {
  struct Live {
    Position next = 0;
    std::uint32_t left = 0;
    bool over = false;
  };
  LinkId first, last;
  std::uint64_t step = 0;
  std::size_t read = 0;
  std::map<std::uint64_t, Live> live;
};

class Swarm {
 public:
  explicit Swarm(std::uint32_t stages) : Swarm(testing::swarm_options(stages)) {}
  explicit Swarm(CoordinatorOptions given)
      : options(std::move(given)),
        machine(Coordinator::start(options, clock, random, control, data)) {}

  void join(const std::string& name) {
    WorkerMessage message;
    *message.mutable_register_() = testing::worker(name);
    const LinkId link = control.incoming();
    sessions[name] = link;
    say(link, message);
  }
  void say(LinkId link, const WorkerMessage& message) {
    Bytes payload(message.ByteSizeLong());
    message.SerializeToArray(payload.data(), static_cast<int>(payload.size()));
    control.receive(link, FrameType::kControl, std::move(payload));
  }
  void beat(const std::string& name) {
    WorkerMessage message;
    message.mutable_heartbeat();
    say(sessions[name], message);
  }
  std::vector<CoordinatorMessage> told(LinkId link) {
    std::vector<CoordinatorMessage> out;
    for (const Frame& frame : control.sent[link]) {
      out.emplace_back();
      out.back().ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size()));
    }
    return out;
  }
  // All that the workers of a forming pipeline do until it serves.
  void complete(const PipelineStatus& pipeline, std::uint32_t pages) {
    Ring& ring = rings[pipeline.epoch.value];
    ring.first = data.open(pipeline.nodes.front() + ":data");
    data.receive(ring.first, FrameType::kHello, hello(pipeline.epoch, 0, pipeline.nodes.front()));
    ring.last = data.incoming();
    const auto stages = static_cast<std::uint32_t>(pipeline.nodes.size());
    data.receive(ring.last, FrameType::kHello,
                 hello(pipeline.epoch, stages - 1, pipeline.nodes.back()));
    for (const std::string& node : pipeline.nodes) {
      WorkerMessage message;
      message.mutable_stage_ready()->set_epoch(pipeline.epoch.value);
      message.mutable_stage_ready()->set_kv_pages(pages);
      message.mutable_stage_ready()->set_kv_page_tokens(8);
      say(sessions[node], message);
    }
  }
  void complete_all(std::uint32_t pages) {
    for (const PipelineStatus& pipeline : machine->status().pipelines) {
      if (pipeline.state == "forming") complete(pipeline, pages);
    }
  }
  static Bytes hello(Epoch epoch, std::uint32_t stage, const std::string& node) {
    Hello hello;
    hello.canonical = 1;
    hello.epoch = epoch;
    hello.stage = stage;
    hello.node = node;
    return encode(hello);
  }
  // `answer`: tokens that it has already.
  std::shared_ptr<Owner> submit(std::uint32_t prompt, std::uint32_t tokens,
                                std::vector<TokenId> answer = {}) {
    auto owner = std::make_shared<Owner>();
    owner->order = &admitted;
    owner->prompt = prompt + static_cast<std::uint32_t>(answer.size());
    GenerateRequest request;
    request.prompt.assign(prompt, 1);
    request.answer = std::move(answer);
    request.sampling.max_tokens = tokens;
    const auto id = machine->submit(std::move(request), owner);
    owner->id = id.ok() ? id->value : 0;
    if (!id.ok()) owner->code = id.error().code;
    return owner;
  }
  // Reads what the first stage was sent; computes a step in which each sequence gets a token when
  // `wants` says so; releases what is over.
  void compute(Ring& ring, Epoch epoch, const std::function<bool()>& wants) {
    StepTokens out{epoch, StepId(ring.step++), {}, {}};
    const std::vector<Frame>& sent = data.sent[ring.first];
    for (; ring.read < sent.size(); ++ring.read) take(ring, epoch, sent[ring.read]);
    for (auto it = ring.live.begin(); it != ring.live.end();) {
      Ring::Live& live = it->second;
      if (live.over && wants()) {
        out.released.push_back(SequenceId(it->first));
        it = ring.live.erase(it);
        continue;
      }
      if (!live.over && wants()) {
        const bool last = --live.left == 0;
        out.tokens.push_back({SequenceId(it->first),
                              live.next++,
                              5,
                              last ? FinishReason::kLength : FinishReason::kNone,
                              ErrorCode::kNumeric,
                              0.0F,
                              {}});
        live.over = last;
      }
      ++it;
    }
    data.receive(ring.last, FrameType::kTokens, encode(out));
  }
  void compute_all(const std::function<bool()>& wants) {
    for (const PipelineStatus& pipeline : machine->status().pipelines) {
      const auto ring = rings.find(pipeline.epoch.value);
      if (pipeline.state == "serving") compute(ring->second, pipeline.epoch, wants);
    }
  }

  CoordinatorOptions options;
  testing::FakeClock clock;
  SeededRandom random{1};
  testing::FakeTransport control;
  testing::FakeTransport data;
  std::unique_ptr<Coordinator> machine;
  std::map<std::string, LinkId> sessions;
  std::map<std::uint64_t, Ring> rings;
  std::vector<Owner*> admitted;

 private:
  void take(Ring& ring, Epoch epoch, const Frame& frame) {
    if (frame.type == FrameType::kSubmit) {
      const auto submit = decode_submit(frame.payload, options.shape);
      ASSERT_TRUE(submit.ok()) << submit.error().message;
      ASSERT_EQ(submit->epoch, epoch);
      const auto known = static_cast<std::uint32_t>(submit->prompt.size());
      const std::uint32_t end = submit->open.prompt_tokens + submit->open.sampling.max_tokens;
      ring.live[submit->open.sequence.value] = {known, end - known, false};
    } else if (frame.type == FrameType::kCancel) {
      const auto cancel = decode_cancel(frame.payload);
      ASSERT_TRUE(cancel.ok());
      for (const SequenceId id : cancel->sequences) {
        const auto found = ring.live.find(id.value);
        if (found != ring.live.end()) found->second.over = true;
      }
    }
  }
};

inline bool always() { return true; }

inline NodeStatus status_of(const Swarm& swarm, const std::string& name) {
  for (const NodeStatus& node : swarm.machine->status().nodes) {
    if (node.name == name) return node;
  }
  return {};
}

}  // namespace hearth::coordinator
