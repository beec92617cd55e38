// Whole swarms against the coordinator: several pipelines, workers that come and go, owners that
// call back from inside their events. The simulated last stages keep the protocol.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/limits.h"
#include "coordinator/coordinator.h"
#include "tests/unit/coordinator/workers.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

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
  explicit Swarm(std::uint32_t stages)
      : options(testing::swarm_options(stages)),
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

bool always() { return true; }

TEST(CoordinatorSwarm, OfTwoPipelinesOneTakesOverWhatTheOtherLoses) {
  Swarm swarm(2);
  for (const char* name : {"a", "b", "c", "d"}) swarm.join(name);
  swarm.complete_all(8);
  ASSERT_EQ(swarm.machine->status().pipelines.size(), 2u);
  const auto one = swarm.submit(8, 8);
  const auto two = swarm.submit(8, 8);
  for (const PipelineStatus& pipeline : swarm.machine->status().pipelines) {
    EXPECT_EQ(pipeline.running, 1u);
    EXPECT_EQ(pipeline.kv_pages_reserved, 2u);
  }
  swarm.control.lose(swarm.sessions["a"]);
  EXPECT_FALSE(one->over || two->over);
  EXPECT_TRUE(swarm.machine->status().ready) << "the other one serves";
  EXPECT_EQ(swarm.machine->status().pipelines[0].running, 2u);
  EXPECT_EQ(swarm.machine->status().resumed_total, 1u);
  swarm.compute_all(always);
  EXPECT_EQ(one->tokens, 1u);
  EXPECT_EQ(two->tokens, 1u);
  swarm.join("a");
  ASSERT_EQ(swarm.machine->status().pipelines.size(), 2u);
  EXPECT_EQ(swarm.machine->status().pipelines.back().epoch, Epoch(3));
}

TEST(CoordinatorSwarm, ASequenceGoesToThePipelineWhoseTokensCameTheQuickest) {
  Swarm swarm(1);
  for (const char* name : {"a", "b"}) swarm.join(name);
  swarm.complete_all(8);
  const auto one = swarm.submit(8, 4);
  const auto two = swarm.submit(8, 4);
  const auto running = [&](std::size_t pipeline) {
    return swarm.machine->status().pipelines[pipeline].running;
  };
  ASSERT_EQ(running(0), 1u);
  ASSERT_EQ(running(1), 1u);
  for (int i = 1; i <= 25; ++i) {
    swarm.clock.advance(milliseconds(10));
    swarm.compute(swarm.rings[2], Epoch(2), always);
    if (i % 5 == 0) swarm.compute(swarm.rings[1], Epoch(1), always);
  }
  ASSERT_TRUE(one->over && two->over);
  ASSERT_EQ(running(0) + running(1), 0u);
  const auto three = swarm.submit(8, 4);
  EXPECT_EQ(running(1), 1u) << "10 ms a token; by room alone the first one has it";
  const auto four = swarm.submit(8, 4);
  EXPECT_EQ(running(1), 2u) << "20 ms for each of two";
}

TEST(CoordinatorSwarm, WhatAnEarlierProcessBeganGoesOnBehindItsTokens) {
  Swarm swarm(1);
  swarm.join("a");
  swarm.complete_all(8);
  const auto owner = swarm.submit(4, 5, {7, 8, 9});
  EXPECT_EQ(swarm.machine->status().resumed_total, 1u);
  swarm.compute_all(always);
  swarm.compute_all(always);
  EXPECT_TRUE(owner->over && !owner->failed);
  EXPECT_EQ(owner->tokens, 2u) << "three were there";
  for (const std::vector<TokenId>& wrong :
       {std::vector<TokenId>(5, 1), std::vector<TokenId>{-1}, std::vector<TokenId>{1'000'000}}) {
    const auto refused = swarm.submit(4, 5, wrong);
    EXPECT_EQ(refused->id, 0u);
    EXPECT_EQ(refused->code, ErrorCode::kInvalidInput);
  }
}

TEST(CoordinatorSwarm, NobodyIsAssignedToAPipelineThatEndedWhileItFormed) {
  Swarm swarm(2);
  swarm.join("a");
  swarm.control.full.insert(swarm.sessions["a"]);  // its Assign cannot be sent: it is lost
  swarm.join("b");
  swarm.control.full.clear();
  std::uint64_t ended = 0;
  for (const CoordinatorMessage& message : swarm.told(swarm.sessions["b"])) {
    if (message.has_unassign()) ended = std::max(ended, message.unassign().epoch());
    if (message.has_assign()) {
      EXPECT_GT(message.assign().epoch(), ended);
    }
  }
  EXPECT_TRUE(swarm.machine->status().pipelines.empty());
  swarm.join("c");
  EXPECT_EQ(swarm.told(swarm.sessions["b"]).back().assign().epoch(), 2u);
}

// cancel() ends a sequence without further events, even while others of its pipeline are told.
TEST(CoordinatorSwarm, ASequenceCancelledWhileItsPipelineEndsHearsNothing) {
  Swarm swarm(1);
  swarm.join("a");
  swarm.complete_all(16);
  std::vector<std::shared_ptr<Owner>> owners;
  for (int i = 0; i < 3; ++i) owners.push_back(swarm.submit(4, 4));
  owners[0]->then = [&](Owner&) {
    swarm.machine->cancel(SequenceId(owners[2]->id));
    owners[2]->over = true;
  };
  swarm.control.lose(swarm.sessions["a"]);
  EXPECT_FALSE(owners[0]->over);
  swarm.clock.advance(seconds(2));
  swarm.machine->on_timer();
  EXPECT_TRUE(owners[0]->failed);
  EXPECT_TRUE(owners[1]->failed);
  EXPECT_FALSE(owners[2]->failed);
  EXPECT_EQ(swarm.machine->status().finished_error_total, 2u);
  EXPECT_EQ(swarm.machine->status().cancelled_total, 1u);
}

TEST(CoordinatorSwarm, TheSameWhenWaitingSequencesExpire) {
  Swarm swarm(1);
  swarm.join("a");
  swarm.complete_all(1);
  const auto running = swarm.submit(4, 4);
  std::vector<std::shared_ptr<Owner>> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(swarm.submit(4, 4));
  waiting[0]->then = [&](Owner&) {
    swarm.machine->cancel(SequenceId(waiting[1]->id));
    waiting[1]->over = true;
    EXPECT_EQ(swarm.submit(1, 1)->code, ErrorCode::kUnavailable);
  };
  swarm.control.lose(swarm.sessions["a"]);
  swarm.clock.advance(seconds(11));
  swarm.machine->on_timer();
  EXPECT_TRUE(waiting[0]->failed && waiting[2]->failed);
  EXPECT_FALSE(waiting[1]->failed);
  EXPECT_EQ(swarm.machine->status().waiting, 0u);
}

TEST(CoordinatorSwarm, OwnersMayCancelThemselvesAndSubmitFromTheirEvents) {
  Swarm swarm(1);
  swarm.join("a");
  swarm.complete_all(2);
  std::vector<std::shared_ptr<Owner>> more;
  const auto one = swarm.submit(4, 8);
  one->then = [&](Owner& self) {
    if (self.tokens != 2) return;
    swarm.machine->cancel(SequenceId(self.id));
    self.over = true;
    more.push_back(swarm.submit(4, 1));
  };
  for (int i = 0; i < 6; ++i) swarm.compute_all(always);
  EXPECT_EQ(one->tokens, 2u);
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(more[0]->tokens, 1u);
  const SwarmStatus status = swarm.machine->status();
  EXPECT_EQ(status.running, 0u);
  EXPECT_EQ(status.pipelines[0].kv_pages_reserved, 0u);
  EXPECT_EQ(status.cancelled_total, 1u);
  EXPECT_EQ(status.finished_length_total, 1u);
}

TEST(CoordinatorSwarm, ASequenceThatNoPipelineLeftCanHoldEndsByItsSize) {
  Swarm swarm(1);
  swarm.join("big");
  swarm.join("small");
  const auto pipelines = swarm.machine->status().pipelines;
  ASSERT_EQ(pipelines.size(), 2u);
  swarm.complete(pipelines[0], 5);
  swarm.complete(pipelines[1], 2);
  const auto fills = swarm.submit(20, 20);
  const auto large = swarm.submit(20, 20);  // waits for the big one
  const auto small = swarm.submit(4, 4);    // waits behind it
  EXPECT_TRUE(fills->admitted);
  EXPECT_FALSE(large->admitted || small->admitted);
  swarm.control.lose(swarm.sessions["big"]);
  EXPECT_TRUE(large->failed);
  EXPECT_EQ(large->code, ErrorCode::kNoCapacity);
  EXPECT_NE(large->message.find("40"), std::string::npos) << large->message;
  EXPECT_TRUE(small->admitted);
  EXPECT_FALSE(fills->over) << "a larger pipeline may come back";
  swarm.clock.advance(seconds(2));
  swarm.beat("small");
  swarm.machine->on_timer();
  EXPECT_TRUE(fills->failed);
  EXPECT_FALSE(small->over);
}

// A numeric failure is the sequence's own; its pipeline goes on.
TEST(CoordinatorSwarm, AnErrorTokenEndsItsSequenceOnly) {
  Swarm swarm(1);
  swarm.join("a");
  swarm.complete_all(4);
  const auto bad = swarm.submit(2, 4);
  const auto good = swarm.submit(2, 4);
  Ring& ring = swarm.rings[1];
  const auto token = [](std::uint64_t id, FinishReason finish) {
    return SampledToken{SequenceId(id), 2, 5, finish, ErrorCode::kNumeric, 0.0F, {}};
  };
  swarm.data.receive(
      ring.last, FrameType::kTokens,
      encode(StepTokens{Epoch(1),
                        StepId(0),
                        {token(1, FinishReason::kError), token(2, FinishReason::kNone)},
                        {}}));
  EXPECT_TRUE(bad->failed);
  EXPECT_EQ(bad->code, ErrorCode::kNumeric);
  EXPECT_NE(bad->message.find("position 2"), std::string::npos);
  EXPECT_EQ(good->tokens, 1u);
  EXPECT_EQ(swarm.machine->status().running, 2u) << "its KV is not free yet";
  EXPECT_TRUE(swarm.machine->status().ready);
}

struct Breach {
  const char* name;
  std::vector<StepTokens> steps;
  const char* says;
};

TEST(CoordinatorSwarm, EveryBreachOfTheLastStageEndsThePipelineByName) {
  const auto token = [](std::uint64_t id, Position position, FinishReason finish) {
    return SampledToken{SequenceId(id), position, 5, finish, ErrorCode::kNumeric, 0.0F, {}};
  };
  const auto none = FinishReason::kNone;
  const Epoch one(1);
  const std::vector<Breach> breaches = {
      {"future epoch", {{Epoch(2), StepId(0), {}, {}}}, "epoch 2"},
      {"a step left out",
       {{one, StepId(0), {}, {}}, {one, StepId(2), {}, {}}},
       "step 2 follows the one to step 0"},
      {"unknown sequence", {{one, StepId(0), {token(9, 2, none)}, {}}}, "sequence 9"},
      {"skipped position", {{one, StepId(0), {token(1, 3, none)}, {}}}, "the next is 2"},
      {"the prompt again", {{one, StepId(0), {token(1, 1, none)}, {}}}, "position 1"},
      {"named twice",
       {{one, StepId(0), {token(1, 2, none), token(1, 2, none)}, {}}},
       "sequence 1 go from position 2 to 2"},
      {"two ends",
       {{one, StepId(0), {token(1, 2, FinishReason::kStop)}, {}},
        {one, StepId(1), {token(1, 3, none)}, {}}},
       "after its end"},
      {"too many",
       {{one, StepId(0), {token(1, 2, none)}, {}}, {one, StepId(1), {token(1, 3, none)}, {}}},
       "goes on"},
      {"released alive", {{one, StepId(0), {}, {SequenceId(1)}}}, "had not ended"},
      {"released unknown", {{one, StepId(0), {}, {SequenceId(7)}}}, "sequence 7"},
  };
  for (const Breach& breach : breaches) {
    Swarm swarm(1);
    swarm.join("a");
    swarm.complete_all(4);
    const auto owner = swarm.submit(2, 2);
    for (const StepTokens& step : breach.steps) {
      swarm.data.receive(swarm.rings[1].last, FrameType::kTokens, encode(step));
    }
    EXPECT_FALSE(swarm.machine->status().ready) << breach.name;
    EXPECT_EQ(swarm.machine->status().running, 0u) << breach.name;
    EXPECT_FALSE(owner->failed) << breach.name << ": another pipeline may take it";
    const auto heard = swarm.told(swarm.sessions["a"]);
    EXPECT_TRUE(heard.back().has_unassign()) << breach.name;
    swarm.clock.advance(seconds(2));
    swarm.machine->on_timer();
    EXPECT_TRUE(owner->over) << breach.name;
    if (owner->failed) {
      EXPECT_NE(owner->message.find("worker a (stage 0 of 1"), std::string::npos) << breach.name;
      EXPECT_NE(owner->message.find(breach.says), std::string::npos) << owner->message;
    }
  }
}

// Random days of a swarm. `check` holds after every event.
class Chaos {
 public:
  explicit Chaos(std::uint64_t seed) : random_(seed) {}

  void step() {
    switch (random_.next() % 12) {
      case 0: return toggle_worker();
      case 1: return swarm.complete_all(2 + static_cast<std::uint32_t>(random_.next() % 6));
      case 2:
      case 3:
      case 4: return submit();
      case 5: return cancel();
      case 6: return pass_time();
      case 7: return choke();
      default: return swarm.compute_all([this] { return random_.next() % 4 != 0; });
    }
  }

  void check() {
    const SwarmStatus status = swarm.machine->status();
    std::set<std::string> members;
    std::uint32_t running = 0;
    for (const PipelineStatus& pipeline : status.pipelines) {
      ASSERT_LE(pipeline.kv_pages_reserved, pipeline.kv_pages);
      running += pipeline.running;
      newest_ = std::max(newest_, pipeline.epoch.value);
      for (const std::string& node : pipeline.nodes) {
        ASSERT_TRUE(members.insert(node).second) << node << " is in two pipelines";
      }
    }
    ASSERT_EQ(status.running, running);
    ASSERT_LE(status.nodes.size(), kNames);
    for (std::size_t i = 1; i < swarm.admitted.size(); ++i) {
      ASSERT_TRUE(swarm.admitted[i - 1]->id < swarm.admitted[i]->id || swarm.admitted[i]->id == 0)
          << "overtaken";
    }
    ASSERT_EQ(status.admitted_total, swarm.admitted.size());
    for (const NodeStatus& node : status.nodes) {
      ASSERT_EQ(members.contains(node.name), node.state == "loading" || node.state == "serving")
          << node.name << " is " << node.state;
    }
  }

  // With workers that stay, everything ends and every page comes back.
  void settle() {
    for (std::size_t i = 0; i < kNames; ++i) {
      if (!alive(name(i))) swarm.join(name(i));
    }
    for (int i = 0; i < 400; ++i) {
      pass_time();
      swarm.complete_all(8);
      swarm.compute_all(always);
    }
    const SwarmStatus status = swarm.machine->status();
    EXPECT_EQ(status.running, 0u);
    EXPECT_EQ(status.waiting, 0u);
    for (const PipelineStatus& pipeline : status.pipelines) {
      EXPECT_EQ(pipeline.kv_pages_reserved, 0u);
    }
    std::uint64_t accepted = 0;
    for (const auto& owner : owners_) {
      EXPECT_TRUE(owner->over) << "sequence " << owner->id << " was forgotten";
      accepted += owner->id != 0 ? 1 : 0;
    }
    EXPECT_EQ(accepted,
              status.finished_length_total + status.finished_error_total + status.cancelled_total);
    for (const auto& [link, frames] : swarm.control.sent) check_epochs(link);
  }

  Swarm swarm{2};
  std::uint64_t newest_ = 0;

 private:
  static constexpr std::size_t kNames = 7;

  static std::string name(std::size_t i) { return "w" + std::to_string(i); }
  bool alive(const std::string& node) {
    for (const NodeStatus& status : swarm.machine->status().nodes) {
      if (status.name == node) return status.state != "lost";
    }
    return false;
  }
  void toggle_worker() {
    const std::string node = name(random_.next() % kNames);
    if (!alive(node) || random_.next() % 6 == 0) return swarm.join(node);
    if (random_.next() % 3 == 0) swarm.control.lose(swarm.sessions[node]);
  }
  void submit() {
    const auto owner = swarm.submit(1 + static_cast<std::uint32_t>(random_.next() % 12),
                                    1 + static_cast<std::uint32_t>(random_.next() % 12));
    if (owner->id == 0) owner->over = true;
    owners_.push_back(owner);
  }
  void cancel() {
    if (owners_.empty()) return;
    const auto& owner = owners_[random_.next() % owners_.size()];
    if (owner->over) return;
    swarm.machine->cancel(SequenceId(owner->id));
    owner->over = true;
  }
  void pass_time() {
    swarm.clock.advance(milliseconds(300));
    for (const auto& [node, link] : swarm.sessions) {
      if (alive(node)) swarm.beat(node);
    }
    swarm.machine->on_timer();
  }
  // One session takes nothing for a moment.
  void choke() {
    const std::string node = name(random_.next() % kNames);
    swarm.control.full.insert(swarm.sessions[node]);
    toggle_worker();
    swarm.control.full.clear();
  }
  // What one worker hears of epochs only rises, and none comes back after its end.
  void check_epochs(LinkId link) {
    std::uint64_t assigned = 0;
    std::uint64_t ended = 0;
    for (const CoordinatorMessage& message : swarm.told(link)) {
      if (message.has_assign()) {
        EXPECT_GT(message.assign().epoch(), assigned);
        EXPECT_GT(message.assign().epoch(), ended);
        assigned = message.assign().epoch();
      }
      if (message.has_unassign()) ended = std::max(ended, message.unassign().epoch());
    }
  }

  SeededRandom random_;
  std::vector<std::shared_ptr<Owner>> owners_;
};

TEST(CoordinatorSwarm, RandomDaysKeepEveryInvariant) {
  std::uint64_t finished = 0;
  std::uint64_t failed = 0;
  std::uint64_t epochs = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    Chaos chaos(seed);
    for (int i = 0; i < 500; ++i) {
      chaos.step();
      chaos.check();
      if (::testing::Test::HasFailure()) FAIL() << "seed " << seed << ", step " << i;
    }
    chaos.settle();
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed << ", at the end";
    finished += chaos.swarm.machine->status().finished_length_total;
    failed += chaos.swarm.machine->status().finished_error_total;
    epochs += chaos.newest_;
  }
  EXPECT_GT(finished, 200u);
  EXPECT_GT(failed, 20u);
  EXPECT_GT(epochs, 100u);
}

// --- owners ---

void own(Swarm& swarm, const std::string& name, std::optional<Away> away) {
  WorkerMessage message;
  message.mutable_heartbeat();
  if (away) write_away(*away, *message.mutable_heartbeat()->mutable_away());
  swarm.say(swarm.sessions[name], message);
}

const Away kPause{false, 1'800'000'000, "a game runs"};
const Away kDrain{true, 0, "hearth drain"};

NodeStatus status_of(const Swarm& swarm, const std::string& name) {
  for (const NodeStatus& node : swarm.machine->status().nodes) {
    if (node.name == name) return node;
  }
  return {};
}

TEST(CoordinatorOwners, APausedNodesSequencesGoOnWithASpareAndNobodyIsToBlame) {
  Swarm swarm(2);
  for (const char* name : {"a", "b", "c"}) swarm.join(name);
  swarm.complete_all(8);
  const auto owner = swarm.submit(8, 8);
  swarm.compute_all(always);
  own(swarm, "a", kPause);
  EXPECT_EQ(swarm.told(swarm.sessions["a"]).back().unassign().epoch(), 1u);
  EXPECT_EQ(status_of(swarm, "a").state, "paused");
  EXPECT_EQ(status_of(swarm, "a").away, kPause);
  ASSERT_EQ(swarm.machine->status().pipelines.size(), 1u);
  EXPECT_EQ(swarm.machine->status().pipelines[0].nodes, (std::vector<std::string>{"c", "b"}));
  // What its neighbour says of the lost link comes late.
  WorkerMessage late;
  late.mutable_stage_failed()->set_epoch(1);
  late.mutable_stage_failed()->set_peer("a");
  swarm.say(swarm.sessions["b"], late);
  swarm.complete_all(8);
  swarm.compute_all(always);
  EXPECT_EQ(owner->tokens, 2u);
  EXPECT_FALSE(owner->over);
  // Without rest and without strikes it is chosen as soon as it is back.
  swarm.join("d");
  EXPECT_EQ(swarm.machine->status().pipelines.size(), 1u) << "a paused node was chosen";
  own(swarm, "a", std::nullopt);
  ASSERT_EQ(swarm.machine->status().pipelines.size(), 2u);
  const auto nodes = swarm.machine->status().pipelines.back().nodes;
  EXPECT_EQ(std::count(nodes.begin(), nodes.end(), "a"), 1);
  EXPECT_EQ(swarm.machine->status().finished_error_total, 0u);
}

// --- slow machines ---

struct SlowNodes {
  explicit SlowNodes(std::vector<std::string> all) : names(std::move(all)) {
    for (const std::string& name : names) swarm.join(name);
    swarm.complete_all(8);
  }
  // So many seconds in which each node's steps take 10 ms, or what `slow` says.
  void pass(int seconds, const std::map<std::string, double>& slow = {}) {
    for (int i = 0; i < 4 * seconds; ++i) {
      swarm.clock.advance(milliseconds(250));
      for (const std::string& name : names) {
        control::v1::Heartbeat& total = totals[name];
        total.set_steps_total(total.steps_total() + 4);
        total.set_rows_total(total.rows_total() + 4);
        const auto found = slow.find(name);
        const double step = found == slow.end() ? 0.01 : found->second;
        total.set_busy_seconds_total(total.busy_seconds_total() + 4 * step);
        WorkerMessage message;
        *message.mutable_heartbeat() = total;
        swarm.say(swarm.sessions[name], message);
      }
      swarm.machine->on_timer();
      swarm.complete_all(8);
    }
  }
  std::vector<std::string> nodes() const { return swarm.machine->status().pipelines.at(0).nodes; }

  Swarm swarm{2};
  std::vector<std::string> names;
  std::map<std::string, control::v1::Heartbeat> totals;
};

TEST(CoordinatorSlow, ItsLayersGoToASpareAndWhatRunsGoesOn) {
  SlowNodes slow({"a", "b", "c"});
  const auto owner = slow.swarm.submit(8, 8);
  slow.swarm.compute_all(always);
  slow.pass(4);
  ASSERT_EQ(slow.nodes(), (std::vector<std::string>{"a", "b"}));
  slow.pass(5, {{"a", 0.1}});
  ASSERT_EQ(slow.nodes(), (std::vector<std::string>{"c", "b"}));
  EXPECT_NE(status_of(slow.swarm, "a").slow.find("times as long"), std::string::npos);
  slow.swarm.compute_all(always);
  EXPECT_EQ(owner->tokens, 2U);
  EXPECT_FALSE(owner->over);
  // It is the last to be chosen, and chosen where nobody else is there.
  slow.swarm.join("d");
  slow.names.push_back("d");
  slow.swarm.complete_all(8);
  slow.swarm.control.lose(slow.swarm.sessions["c"]);
  std::erase(slow.names, "c");
  slow.swarm.complete_all(8);
  const auto without_c = slow.nodes();
  EXPECT_EQ(std::count(without_c.begin(), without_c.end(), "d"), 1);
  slow.pass(61);
  EXPECT_EQ(status_of(slow.swarm, "a").slow, "");
}

TEST(CoordinatorSlow, WhereNobodyCanTakeItsLayersItStays) {
  SlowNodes slow({"a", "b"});
  slow.pass(4);
  const auto epoch = slow.swarm.machine->status().pipelines.at(0).epoch;
  slow.pass(5, {{"a", 0.1}});
  EXPECT_EQ(slow.swarm.machine->status().pipelines.at(0).epoch, epoch);
  EXPECT_NE(status_of(slow.swarm, "a").slow, "") << "and who looks can see it";
}

TEST(CoordinatorSlow, WhereAllAreSlowerNobodyIsMoved) {
  SlowNodes slow({"a", "b", "c"});
  slow.pass(4);
  slow.pass(5, {{"a", 0.1}, {"b", 0.09}});
  EXPECT_EQ(slow.nodes(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(status_of(slow.swarm, "a").slow, "");
}

TEST(CoordinatorOwners, PausesAreNotWhatBringsASequenceDown) {
  Swarm swarm(1);
  for (const char* name : {"a", "b"}) swarm.join(name);
  swarm.complete_all(8);
  const auto owner = swarm.submit(8, 8);
  for (int i = 0; i < 20; ++i) {
    const std::string name = swarm.machine->status().pipelines.front().nodes.front();
    own(swarm, name, kPause);
    swarm.complete_all(8);
    own(swarm, name, std::nullopt);
    swarm.complete_all(8);
    ASSERT_FALSE(owner->over) << "after " << i + 1 << ": " << owner->message;
  }
  for (int i = 0; i < 9; ++i) swarm.compute_all(always);
  EXPECT_EQ(owner->tokens, 8u);
}

TEST(CoordinatorOwners, WhereNobodyTakesOverTheErrorNamesWhoIsPaused) {
  Swarm swarm(2);
  for (const char* name : {"a", "b"}) swarm.join(name);
  swarm.complete_all(8);
  const auto owner = swarm.submit(8, 8);
  own(swarm, "a", kPause);
  EXPECT_TRUE(swarm.machine->status().pipelines.empty()) << "the owner waits for nobody";
  EXPECT_FALSE(swarm.machine->status().ready);
  EXPECT_NE(
      swarm.machine->status().missing.find("1 of 2 workers are registered; worker a is paused"),
      std::string::npos)
      << swarm.machine->status().missing;
  ASSERT_EQ(swarm.machine->status().uncovered.size(), 1u);
  for (int i = 0; i < 8; ++i) {
    swarm.clock.advance(milliseconds(250));
    own(swarm, "a", kPause);
    swarm.beat("b");
    swarm.machine->on_timer();
  }
  EXPECT_EQ(owner->code, ErrorCode::kUnavailable);
  EXPECT_NE(owner->message.find("worker a is paused"), std::string::npos) << owner->message;
  own(swarm, "a", std::nullopt);
  EXPECT_EQ(swarm.machine->status().pipelines.size(), 1u);
}

TEST(CoordinatorOwners, ADrainedPipelineEndsWhatItRunsWhereNobodyTakesOver) {
  Swarm swarm(2);
  for (const char* name : {"a", "b"}) swarm.join(name);
  swarm.complete_all(8);
  const auto owner = swarm.submit(8, 2);
  own(swarm, "a", kDrain);
  EXPECT_EQ(swarm.machine->status().pipelines.size(), 1u);
  EXPECT_FALSE(swarm.machine->status().ready) << "it takes nothing new";
  EXPECT_EQ(swarm.submit(8, 2)->code, ErrorCode::kUnavailable);
  for (int i = 0; i < 3; ++i) swarm.compute_all(always);
  EXPECT_EQ(owner->tokens, 2u);
  swarm.machine->on_timer();
  EXPECT_TRUE(swarm.machine->status().pipelines.empty());
  EXPECT_EQ(swarm.told(swarm.sessions["a"]).back().unassign().epoch(), 1u);
  EXPECT_EQ(status_of(swarm, "a").state, "paused");
}

TEST(CoordinatorOwners, ADrainedPipelineHandsOverToASpareAtOnce) {
  Swarm swarm(2);
  for (const char* name : {"a", "b", "c"}) swarm.join(name);
  swarm.complete_all(8);
  const auto owner = swarm.submit(8, 8);
  swarm.compute_all(always);
  own(swarm, "b", kDrain);
  ASSERT_EQ(swarm.machine->status().pipelines.size(), 1u);
  EXPECT_EQ(swarm.machine->status().pipelines[0].epoch, Epoch(2));
  swarm.complete_all(8);
  for (int i = 0; i < 8; ++i) swarm.compute_all(always);
  EXPECT_EQ(owner->tokens, 8u);
  EXPECT_FALSE(owner->failed);
}

TEST(CoordinatorOwners, ADrainedPipelineHandsOverToAnotherOnlyWhereThereIsRoom) {
  Swarm swarm(1);
  for (const char* name : {"a", "b"}) swarm.join(name);
  swarm.complete_all(4);
  std::vector<std::shared_ptr<Owner>> owners;
  for (int i = 0; i < 3; ++i) owners.push_back(swarm.submit(8, 8));  // 2 pages each
  const auto pipelines = swarm.machine->status().pipelines;
  const std::string full = pipelines[pipelines[0].running == 2 ? 0 : 1].nodes[0];
  own(swarm, full, kDrain);
  EXPECT_EQ(swarm.machine->status().pipelines.size(), 2u) << "the other has room for one";
  EXPECT_EQ(swarm.machine->status().resumed_total, 0u);
  const auto waiting = swarm.submit(8, 8);
  EXPECT_TRUE(waiting->admitted) << "the other takes what comes";
  swarm.machine->cancel(SequenceId(waiting->id));
  swarm.machine->cancel(SequenceId(owners[0]->id));
  swarm.compute_all(always);
  swarm.compute_all(always);
  swarm.machine->on_timer();
  EXPECT_EQ(swarm.machine->status().pipelines.size(), 1u);
  for (int i = 0; i < 12; ++i) swarm.compute_all(always);
  EXPECT_EQ(swarm.machine->status().finished_error_total, 0u);
  EXPECT_EQ(owners[1]->tokens + owners[2]->tokens, 16u);
}

TEST(CoordinatorOwners, APausedWorkerThatRegistersIsNotChosen) {
  Swarm swarm(1);
  WorkerMessage message;
  *message.mutable_register_() = testing::worker("a");
  write_away(kPause, *message.mutable_register_()->mutable_away());
  swarm.sessions["a"] = swarm.control.incoming();
  swarm.say(swarm.sessions["a"], message);
  EXPECT_EQ(status_of(swarm, "a").state, "paused");
  EXPECT_TRUE(swarm.machine->status().pipelines.empty());
  own(swarm, "a", std::nullopt);
  EXPECT_EQ(swarm.machine->status().pipelines.size(), 1u);
}

}  // namespace
}  // namespace hearth::coordinator
