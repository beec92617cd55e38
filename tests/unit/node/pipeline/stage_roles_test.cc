#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>

#include "base/limits.h"
#include "node/pipeline/stage.h"
#include "node/runner/draft_ask.h"
#include "proto/control.pb.h"
#include "proto/frame.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::node {
namespace {

using control::v1::CoordinatorMessage;
using control::v1::WorkerMessage;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct HeldCompute final : StageCompute {
  void set_events(StageComputeEvents* given) override { events = given; }
  void load(Epoch epoch, LayerRange, std::uint32_t, std::uint32_t) override {
    loads.push_back(epoch);
  }
  void compute(StepBatch batch) override { steps.push_back(std::move(batch)); }
  void forget() override { ++forgotten; }
  void distrust() override {}
  void check_weights() override { ++checks; }
  void unload() override {}
  void finish_load() {
    const Epoch epoch = loads.back();
    events->on_loaded(epoch, StageComputeEvents::Loaded{{4, 100, 64, false}, 8, 1000});
  }
  // A text without repetitions.
  static TokenId text_at(Position position) { return static_cast<TokenId>(position * 37 % 97); }
  // Answers the oldest step: every sampled row gets token 5 or the text's token, drafts included.
  void finish_step(Status status = ok_status()) {
    StepBatch batch = std::move(steps.front());
    steps.pop_front();
    StepResult result;
    for (const BatchRow& row : batch.rows) {
      if ((row.flags & BatchRow::kSample) == 0) continue;
      SampledToken token;
      token.sequence = row.sequence;
      token.position = row.position + 1;
      token.token = repeats ? 5 : text_at(token.position);
      result.tokens.push_back(token);
    }
    result.released = batch.releases;
    events->on_computed(std::move(batch), std::move(result), std::move(status));
  }
  StageComputeEvents* events = nullptr;
  std::vector<Epoch> loads;
  std::deque<StepBatch> steps;
  int checks = 0;
  int forgotten = 0;
  bool repeats = true;
};

struct HeldDrafts final : DraftSource {
  void ask(DraftAsk ask, Done done) override {
    asks.push_back(std::move(ask));
    answer = std::move(done);
  }
  void unload(std::function<void()> done) override {
    ++unloads;
    unloaded = std::move(done);
  }
  std::vector<DraftAsk> asks;
  Done answer;  // to the latest ask
  std::function<void()> unloaded;
  int unloads = 0;
};

struct StageRoles : ::testing::Test {
  testing::FakeClock clock;
  SeededRandom random{1};
  testing::FakeTransport control;
  testing::FakeTransport data;
  HeldCompute compute;
  HeldDrafts drafts;
  std::uint32_t protocol = kProtocolDraftModel;  // of assignments
  std::uint32_t in_flight = 2;                   // likewise
  std::optional<control::v1::StepTimes> times;   // likewise
  std::unique_ptr<Stage> stage;
  LinkId session, home, ring;  // ring: from the previous stage

  void SetUp() override {
    StageOptions options;
    options.node = "w1";
    options.control_address = "home:1";
    options.layers = 6;
    options.canonical_version = 1;
    options.draft_model = &drafts;
    stage = std::make_unique<Stage>(options, clock, random, control, data, compute);
    join();
  }
  void join() {
    session = control.open("home:1");
    tell([](auto& m) { m.mutable_registered()->set_heartbeat_milliseconds(250); });
  }
  void tell(const std::function<void(CoordinatorMessage&)>& fill) {
    CoordinatorMessage message;
    fill(message);
    Bytes payload(message.ByteSizeLong());
    message.SerializeToArray(payload.data(), static_cast<int>(payload.size()));
    control.receive(session, FrameType::kControl, std::move(payload));
  }
  void assign(std::uint64_t epoch, std::uint32_t at, std::uint32_t stages) {
    tell([&](auto& message) {
      auto& a = *message.mutable_assign();
      a.set_epoch(epoch);
      a.set_stage(at);
      a.set_stages(stages);
      a.mutable_layers()->set_begin(6 / stages * at);
      a.mutable_layers()->set_end(6 / stages * (at + 1));
      a.set_next_address("next:1");
      a.set_next_node("peer");
      a.set_previous_node("peer");
      a.set_coordinator_address("home:data");
      a.set_batch_rows(8);
      a.set_batches_in_flight(in_flight);
      if (times) *a.mutable_times() = *times;
      a.set_protocol(protocol);
    });
  }
  std::string failure() {
    WorkerMessage message;
    const Bytes& payload = control.sent[session].back().payload;
    message.ParseFromArray(payload.data(), static_cast<int>(payload.size()));
    return message.has_stage_failed() ? message.stage_failed().error() : "";
  }
  static Bytes hello(std::uint64_t epoch, std::uint32_t at) {
    Hello hello;
    hello.canonical = 1;
    hello.epoch = Epoch(epoch);
    hello.stage = at;
    hello.node = "peer";
    return encode(hello);
  }
  LinkId incoming(std::uint64_t epoch, std::uint32_t at) {
    const LinkId link = data.incoming();
    data.receive(link, FrameType::kHello, hello(epoch, at));
    return link;
  }
  void serve(std::uint64_t epoch, std::uint32_t at, std::uint32_t stages) {
    assign(epoch, at, stages);
    compute.finish_load();
    if (stages > 1) {
      data.receive(data.open("next:1"), FrameType::kHello, hello(epoch, (at + 1) % stages));
      ring = incoming(epoch, (at + stages - 1) % stages);
    }
    if (at + 1 == stages) {
      home = data.open("home:data");
      data.receive(home, FrameType::kHello, hello(epoch, Hello::kCoordinatorStage));
    }
    if (at == 0) from_home = incoming(epoch, Hello::kCoordinatorStage);
  }
  static Bytes submit(std::uint64_t epoch, std::uint64_t id) {
    SubmitMessage message;
    message.epoch = Epoch(epoch);
    message.open.sequence = SequenceId(id);
    message.open.prompt_tokens = 1;
    message.open.drafts = false;  // each step has one row
    message.prompt = {7};
    return encode(message);
  }
  std::size_t answers() {
    std::size_t count = 0;
    for (const Frame& frame : data.sent[home]) count += frame.type == FrameType::kTokens ? 1 : 0;
    return count;
  }
  LinkId from_home;
};

TEST_F(StageRoles, OneStageAnswersTheCoordinatorAndGoesOnByItself) {
  serve(1, 0, 1);
  data.receive(from_home, FrameType::kSubmit, submit(1, 1));
  for (std::size_t i = 1; i <= 5; ++i) {
    ASSERT_EQ(compute.steps.size(), 1U);
    ASSERT_EQ(compute.steps.front().rows.size(), 1U);
    EXPECT_EQ(compute.steps.front().rows[0].position, i - 1);
    compute.finish_step();
    EXPECT_EQ(answers(), i);
  }
  data.receive(from_home, FrameType::kCancel, encode(CancelMessage{Epoch(1), {SequenceId(1)}}));
  ASSERT_EQ(compute.steps.size(), 2U);  // the row under way, and the release
  EXPECT_EQ(compute.steps.back().releases, std::vector<SequenceId>{SequenceId(1)});
  compute.finish_step();
  compute.finish_step();
  EXPECT_TRUE(compute.steps.empty());
  EXPECT_EQ(failure(), "");
}

// A round takes three times as long as the slowest part: with one to spare, four steps.
TEST_F(StageRoles, TheFirstStageHasAsManyStepsInFlightAsTheirTimesSay) {
  in_flight = 5;
  times.emplace();
  times->set_batch_rows(16);
  times->set_ring_seconds(0.03);
  times->set_ring_batch_seconds(0.03);
  times->add_part_seconds(0.01);
  times->add_part_batch_seconds(0.01);
  for (const std::size_t steps : {std::size_t{4}, std::size_t{5}}) {
    compute.steps.clear();
    serve(steps, 0, 1);
    SubmitMessage message;
    message.epoch = Epoch(steps);
    message.open.sequence = SequenceId(1);
    message.open.prompt_tokens = 40;
    message.prompt.assign(40, TokenId{7});
    data.receive(from_home, FrameType::kSubmit, encode(message));
    EXPECT_EQ(compute.steps.size(), steps);
    EXPECT_EQ(failure(), "");
    times.reset();
  }
}

TEST_F(StageRoles, AsksTheDraftModelIfAllStagesKnowItsDrafts) {
  compute.repeats = false;
  const auto run = [&](std::uint64_t epoch, std::uint32_t known) {
    drafts.asks.clear();
    compute.steps.clear();
    protocol = known;
    serve(epoch, 0, 1);
    SubmitMessage message;
    message.epoch = Epoch(epoch);
    message.open.sequence = SequenceId(1);
    message.open.prompt_tokens = 1;
    message.open.sampling.max_tokens = 60;
    message.prompt = {HeldCompute::text_at(0)};
    data.receive(from_home, FrameType::kSubmit, encode(message));
    for (int i = 0; i < 40 && !compute.steps.empty() && drafts.asks.empty(); ++i) {
      clock.advance(milliseconds(10));
      compute.finish_step();
    }
  };
  run(1, kProtocolDraftModel - 1);
  EXPECT_TRUE(drafts.asks.empty());
  run(2, kProtocolDraftModel);
  ASSERT_EQ(drafts.asks.size(), 1U);
  EXPECT_EQ(drafts.asks[0].count, 0U) << "the model may have to be loaded";
  ASSERT_EQ(compute.steps.size(), 1U) << "the stream does not wait";
  drafts.answer(
      {SequenceId(1), {}, static_cast<std::uint32_t>(drafts.asks[0].tokens.size()), false});
  clock.advance(milliseconds(10));
  compute.finish_step();
  ASSERT_EQ(drafts.asks.size(), 2U);
  EXPECT_TRUE(compute.steps.empty()) << "the stream waits";
  const DraftAsk ask = drafts.asks[1];
  const auto known = static_cast<std::uint32_t>(ask.tokens.size());
  DraftAnswer answer{SequenceId(1), {}, known, false};
  for (std::uint32_t i = 0; i < ask.count; ++i) {
    answer.drafts.push_back(HeldCompute::text_at(known + i));
  }
  clock.advance(milliseconds(1));
  drafts.answer(answer);
  ASSERT_EQ(compute.steps.size(), 1U);
  ASSERT_EQ(compute.steps.front().rows.size(), 1U + ask.count);
  EXPECT_EQ(compute.steps.front().rows[1].kind(), DraftKind::kModel);
  compute.finish_step();
  EXPECT_EQ(failure(), "");
  ASSERT_EQ(drafts.asks.size(), 3U);
  ASSERT_TRUE(compute.steps.empty());
  clock.advance(milliseconds(250));  // longer than 16 tokens of 10 ms
  stage->on_timer();
  ASSERT_EQ(compute.steps.size(), 1U) << "it waits no longer";
  EXPECT_EQ(compute.steps.front().rows.size(), 1U);

  const auto late = drafts.answer;
  run(3, kProtocolDraftModel - 1);
  late(answer);
  EXPECT_EQ(failure(), "") << "the answer is for an ended epoch";
  EXPECT_EQ(drafts.unloads, 0);
  stage->set_away(Away{false, 0, "a game runs"});
  EXPECT_EQ(drafts.unloads, 1);
  compute.events->on_unloaded();
  EXPECT_FALSE(stage->rests()) << "the draft model is still in memory";
  drafts.unloaded();
  EXPECT_TRUE(stage->rests());
}

TEST_F(StageRoles, HeartbeatsCountTheStepsThatCameBackAndTheirTime) {
  const auto beat = [&] {
    clock.advance(std::chrono::milliseconds(250));
    stage->on_timer();
    WorkerMessage message;
    const Bytes& payload = control.sent[session].back().payload;
    message.ParseFromArray(payload.data(), static_cast<int>(payload.size()));
    EXPECT_TRUE(message.has_heartbeat());
    return message.heartbeat();
  };
  serve(1, 0, 2);
  data.receive(from_home, FrameType::kSubmit, submit(1, 1));
  ASSERT_EQ(compute.steps.size(), 1U);
  compute.finish_step();
  EXPECT_EQ(beat().ring_steps_total(), 0U) << "it is on its way";
  SampledToken token;
  token.sequence = SequenceId(1);
  token.position = 1;
  data.receive(ring, FrameType::kTokens, encode(StepTokens{Epoch(1), StepId(0), {token}, {}}));
  const auto first = beat();
  EXPECT_EQ(first.ring_steps_total(), 1U);
  EXPECT_DOUBLE_EQ(first.ring_seconds_total(), 0.25);
  EXPECT_EQ(first.kv_tokens_used(), 1U);
  compute.finish_step();
  token.position = 2;
  data.receive(ring, FrameType::kTokens, encode(StepTokens{Epoch(1), StepId(1), {token}, {}}));
  EXPECT_DOUBLE_EQ(beat().ring_seconds_total(), 0.5) << "the second began with the first's answer";
}

TEST_F(StageRoles, ACoordinatorThatTakesNoTokensStopsTheStepsUntilItDoes) {
  serve(1, 0, 1);
  data.full.insert(home);
  for (std::uint64_t id = 1; id <= 6; ++id) {
    data.receive(from_home, FrameType::kSubmit, submit(1, id));
  }
  std::size_t steps = 0;
  for (; !compute.steps.empty() && steps < 20; ++steps) compute.finish_step();
  EXPECT_GE(steps, 2U);
  EXPECT_LE(steps, 3U);  // two answers queued, and at most one more step that was under way
  EXPECT_EQ(answers(), 0U);
  stage->on_timer();
  EXPECT_TRUE(compute.steps.empty());
  data.full.clear();
  stage->on_timer();
  EXPECT_EQ(answers(), steps);
  EXPECT_FALSE(compute.steps.empty());
  EXPECT_EQ(failure(), "");
}

TEST_F(StageRoles, FramesOfTheWrongPeerOrEpochEndTheEpoch) {
  StepBatch batch;
  const auto batch_of = [&](std::uint64_t epoch) {
    batch.epoch = Epoch(epoch);
    return encode(batch);
  };
  const auto tokens_of = [](std::uint64_t epoch, std::uint64_t step) {
    return encode(StepTokens{Epoch(epoch), StepId(step), {}, {}});
  };
  const auto cancel_of = [](std::uint64_t e) { return encode(CancelMessage{Epoch(e), {}}); };
  struct Case {
    std::uint32_t at;
    bool by_home;
    FrameType type;
    std::function<Bytes(std::uint64_t epoch)> payload;
    const char* why;
  };
  const Case cases[] = {
      {0, false, FrameType::kBatch, batch_of, "type 5 does not belong"},
      {0, false, FrameType::kSubmit, [](std::uint64_t e) { return submit(e, 1); }, "type 3"},
      {0, false, FrameType::kCancel, cancel_of, "type 4 does not belong"},
      {0, false, FrameType::kHello, batch_of, "type 1 does not belong"},
      {0, true, FrameType::kBatch, batch_of, "from the coordinator"},
      {0, true, FrameType::kTokens, [&](std::uint64_t e) { return tokens_of(e, 0); }, "type 6"},
      {1, false, FrameType::kTokens, [&](std::uint64_t e) { return tokens_of(e, 0); }, "type 6"},
      {2, false, FrameType::kTokens, [&](std::uint64_t e) { return tokens_of(e, 0); }, "type 6"},
      {0, true, FrameType::kSubmit, [](std::uint64_t e) { return submit(e + 1, 1); }, "epoch"},
      {0, true, FrameType::kSubmit, [](std::uint64_t) { return Bytes(5); }, "the coordinator"},
      {0, true, FrameType::kCancel, [&](std::uint64_t e) { return cancel_of(e + 1); }, "assigned"},
      {0, false, FrameType::kTokens, [&](std::uint64_t e) { return tokens_of(e, 0); }, "in flight"},
      {0, false, FrameType::kTokens, [&](std::uint64_t e) { return tokens_of(e + 1, 0); }, "epoch"},
      {1, false, FrameType::kBatch, [&](std::uint64_t e) { return batch_of(e + 1); }, "assigned"},
  };
  std::uint64_t epoch = 0;
  for (const Case& one : cases) {
    serve(++epoch, one.at, 3);
    ASSERT_EQ(failure(), "") << one.why;
    data.receive(one.by_home ? from_home : ring, one.type, one.payload(epoch));
    EXPECT_NE(failure().find(one.why), std::string::npos) << one.why << ": " << failure();
    EXPECT_TRUE(data.closed.contains(ring));
    EXPECT_TRUE(compute.steps.empty());
  }
}

TEST_F(StageRoles, FramesBeforeTheStageIsReadyEndTheEpoch) {
  assign(1, 0, 1);
  from_home = incoming(1, Hello::kCoordinatorStage);
  data.receive(from_home, FrameType::kSubmit, submit(1, 1));
  EXPECT_NE(failure().find("before this stage was ready"), std::string::npos);
  compute.finish_load();  // of an epoch that is over
  EXPECT_NE(failure().find("before this stage was ready"), std::string::npos);
}

TEST_F(StageRoles, LossOfTheCoordinatorInEveryStateLeavesAStageThatServesAgain) {
  const std::function<void(std::uint64_t)> states[] = {
      [](std::uint64_t) {},
      [&](std::uint64_t epoch) { assign(epoch, 0, 1); },
      [&](std::uint64_t epoch) {
        assign(epoch, 0, 1);
        compute.finish_load();
      },
      [&](std::uint64_t epoch) { serve(epoch, 0, 1); },
      [&](std::uint64_t epoch) {
        serve(epoch, 0, 1);
        data.receive(from_home, FrameType::kSubmit, submit(epoch, 1));
        ASSERT_EQ(compute.steps.size(), 1U);
      },
  };
  std::uint64_t epoch = 0;
  for (const auto& reach : states) {
    reach(++epoch);
    control.lose(session);
    const std::size_t sent = data.sent[home].size();
    while (!compute.steps.empty()) compute.finish_step();
    EXPECT_EQ(data.sent[home].size(), sent) << "an answer of a lost epoch goes nowhere";
    clock.advance(seconds(2));
    stage->on_timer();
    join();
    serve(++epoch, 0, 1);
    data.receive(from_home, FrameType::kSubmit, submit(epoch, 1));
    ASSERT_EQ(compute.steps.size(), 1U) << "state before epoch " << epoch;
    EXPECT_EQ(compute.steps.front().step, StepId(0));
    compute.finish_step();
    EXPECT_GE(answers(), 1U);
    tell([&](auto& m) { m.mutable_unassign()->set_epoch(epoch); });
    compute.steps.clear();
  }
}

TEST_F(StageRoles, AStepThatTheEngineRefusesEndsTheEpochWithItsReason) {
  serve(1, 0, 1);
  data.receive(from_home, FrameType::kSubmit, submit(1, 1));
  compute.finish_step(Error::invalid("a gap"));
  EXPECT_NE(failure().find("broke the contract: a gap"), std::string::npos);
  EXPECT_EQ(answers(), 0U);
  EXPECT_EQ(compute.loads.size(), 2U) << "the same range again, to drop its sequences";
}

TEST_F(StageRoles, MoreSequencesThanTheLimitEndTheEpoch) {
  serve(1, 0, 1);
  for (std::uint64_t id = 1; id <= limits::kRunningSequences; ++id) {
    data.receive(from_home, FrameType::kSubmit, submit(1, id));
  }
  EXPECT_EQ(failure(), "");
  data.receive(from_home, FrameType::kSubmit, submit(1, 1'000'000));
  EXPECT_NE(failure().find(std::to_string(limits::kRunningSequences)), std::string::npos);
}

}  // namespace
}  // namespace hearth::node
