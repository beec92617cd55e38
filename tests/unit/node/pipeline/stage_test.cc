#include "node/pipeline/stage.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <vector>

#include "base/limits.h"
#include "proto/control.pb.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::node {
namespace {

using control::v1::CoordinatorMessage;
using control::v1::WorkerMessage;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Keeps what it is asked until the test answers.
struct PausedCompute final : StageCompute {
  void set_events(StageComputeEvents* given) override { events = given; }
  void load(Epoch epoch, LayerRange, std::uint32_t, std::uint32_t) override {
    loads.push_back(epoch);
  }
  void compute(StepBatch batch) override { steps.push_back(std::move(batch)); }
  void forget() override { ++forgotten; }
  void distrust() override { ++distrusted; }
  void check_weights() override { ++checks; }
  void unload() override { ++unloads; }
  void finish_unload() {
    --unloads;
    events->on_unloaded();
  }
  void finish_load() {
    const Epoch epoch = loads.front();
    loads.pop_front();
    events->on_loaded(
        epoch, StageComputeEvents::Loaded{{4, 100, 64, true}, 8, 1000, limits::kRunningSequences});
  }
  void refuse_load(Error why) {
    const Epoch epoch = loads.front();
    loads.pop_front();
    events->on_loaded(epoch, std::move(why));
  }
  void finish_step(StepResult result = {}) {
    StepBatch batch = std::move(steps.front());
    steps.pop_front();
    events->on_computed(std::move(batch), std::move(result), ok_status());
  }
  StageComputeEvents* events = nullptr;
  std::deque<Epoch> loads;
  std::deque<StepBatch> steps;
  int checks = 0;
  int forgotten = 0;
  int distrusted = 0;
  int unloads = 0;
};

// The middle stage of three, unless a test says otherwise.
struct StageTest : ::testing::Test {
  testing::FakeClock clock;
  SeededRandom random{1};
  testing::FakeTransport control;
  testing::FakeTransport data;
  PausedCompute compute;
  std::unique_ptr<Stage> stage;
  LinkId session, next, previous;
  std::vector<bool> told_layers;

  void SetUp() override {
    StageOptions options;
    options.check_weights_every = std::chrono::hours(4);
    options.card = [] {
      CardReading reading;
      reading.celsius = 61;
      return reading;
    };
    options.on_layers = [this](LayerRange, bool served) { told_layers.push_back(served); };
    options.node = "w1";
    options.control_address = "home:1";
    options.layers = 6;
    options.canonical_version = 1;
    stage = std::make_unique<Stage>(options, clock, random, control, data, compute);
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
  void assign(std::uint64_t epoch) {
    tell([&](auto& message) {
      auto& a = *message.mutable_assign();
      a.set_epoch(epoch);
      a.set_stage(1);
      a.set_stages(3);
      a.mutable_layers()->set_begin(2);
      a.mutable_layers()->set_end(4);
      a.set_next_address("w2:data");
      a.set_next_node("peer");
      a.set_previous_node("peer");
      a.set_batch_rows(8);
      a.set_batches_in_flight(4);
    });
  }
  WorkerMessage said() {
    WorkerMessage message;
    const Bytes& payload = control.sent[session].back().payload;
    message.ParseFromArray(payload.data(), static_cast<int>(payload.size()));
    return message;
  }
  static Bytes hello(std::uint64_t epoch, std::uint32_t at) {
    Hello hello;
    hello.canonical = 1;
    hello.epoch = Epoch(epoch);
    hello.stage = at;
    hello.node = "peer";
    return encode(hello);
  }
  void serve(std::uint64_t epoch) {
    assign(epoch);
    compute.finish_load();
    next = data.open("w2:data");
    data.receive(next, FrameType::kHello, hello(epoch, 2));
    previous = data.incoming();
    data.receive(previous, FrameType::kHello, hello(epoch, 0));
  }
  void batch(std::uint64_t epoch, std::uint64_t step, std::uint32_t boundary = 2) {
    StepBatch batch;
    batch.boundary = boundary;
    batch.epoch = Epoch(epoch);
    batch.step = StepId(step);
    data.receive(previous, FrameType::kBatch, encode(batch));
  }
};

TEST_F(StageTest, RegistersBeatsAndBecomesReadyWhenLoadedAndLinked) {
  EXPECT_TRUE(said().has_register_());
  clock.advance(milliseconds(250));
  stage->on_timer();
  EXPECT_TRUE(said().has_heartbeat());
  assign(1);
  compute.finish_load();
  EXPECT_FALSE(said().has_stage_ready());
  next = data.open("w2:data");
  EXPECT_EQ(data.sent[next].front().type, FrameType::kHello);
  data.receive(next, FrameType::kHello, hello(1, 2));
  EXPECT_EQ(said().stage_ready().epoch(), 1u);
  EXPECT_EQ(said().stage_ready().kv_pages(), 8u);
  EXPECT_EQ(said().stage_ready().sequences(), 0u) << "they keep no state";
  EXPECT_EQ(told_layers, (std::vector<bool>{false, true})) << "assigned, and served";
}

TEST_F(StageTest, ABeatSaysWhatTheCardSays) {
  clock.advance(milliseconds(250));
  stage->on_timer();
  EXPECT_EQ(said().heartbeat().card().celsius(), 61u);
  EXPECT_FALSE(said().heartbeat().card().has_watts());
}

TEST_F(StageTest, ChecksLoadedWeightsEveryFewHoursAndWhenAsked) {
  const auto later = [&](Duration time) {
    clock.advance(time);
    stage->on_timer();
    return compute.checks;
  };
  EXPECT_EQ(later(std::chrono::hours(5)), 0) << "nothing is loaded";
  stage->check_weights();
  EXPECT_EQ(compute.checks, 0);
  tell([](auto& m) { m.mutable_registered()->set_heartbeat_milliseconds(250); });
  serve(1);
  EXPECT_EQ(later(std::chrono::hours(4) - Duration(1)), 0);
  EXPECT_EQ(later(Duration(1)), 1);
  EXPECT_EQ(later(Duration(1)), 1);
  EXPECT_EQ(later(std::chrono::hours(2)), 1);
  stage->check_weights();
  EXPECT_EQ(later(std::chrono::hours(4) - Duration(1)), 2) << "that one counts, too";
  EXPECT_EQ(later(Duration(1)), 3);
  EXPECT_EQ(compute.distrusted, 0) << "no result of this node is in doubt";
  compute.events->on_weights_checked(ok_status());
  EXPECT_FALSE(said().has_stage_failed());
  compute.events->on_weights_checked(Error{ErrorCode::kNumeric, "tensor x changed"});
  EXPECT_NE(said().stage_failed().error().find("tensor x changed"), std::string::npos);
}

TEST_F(StageTest, LooksAtItselfWhenItIsAskedAndDropsWhatIsDamaged) {
  const auto ask = [&](std::uint64_t number) {
    tell([&](auto& m) { m.mutable_self_check()->set_number(number); });
  };
  ask(7);
  EXPECT_EQ(compute.checks, 1) << "also weights that wait for the next assignment";
  EXPECT_EQ(compute.distrusted, 1) << "a kept page would repeat an error that happened once";
  EXPECT_FALSE(said().has_self_checked());
  compute.events->on_weights_checked(Error{ErrorCode::kUnavailable, "no layers are loaded"});
  EXPECT_EQ(said().self_checked().number(), 7u);
  EXPECT_TRUE(said().self_checked().weights_whole()) << "there are none";
  EXPECT_TRUE(said().self_checked().self_test_passed());
  EXPECT_EQ(compute.unloads, 0);
  serve(1);
  ask(8);
  ask(9);
  compute.events->on_weights_checked(Error{ErrorCode::kNumeric, "layer 3 changed"});
  EXPECT_EQ(compute.unloads, 1) << "the next assignment reads them anew";
  EXPECT_NE(said().stage_failed().error().find("layer 3 changed"), std::string::npos);
  compute.finish_unload();
  std::vector<std::uint64_t> damaged;
  for (const Frame& frame : control.sent[session]) {
    WorkerMessage message;
    message.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size()));
    if (!message.has_self_checked() || message.self_checked().weights_whole()) continue;
    EXPECT_EQ(message.self_checked().what(), "layer 3 changed");
    damaged.push_back(message.self_checked().number());
  }
  EXPECT_EQ(damaged, (std::vector<std::uint64_t>{8, 9}));
}

TEST_F(StageTest, PassesStepsOnInOrder) {
  serve(1);
  batch(1, 0);
  batch(1, 1);
  ASSERT_EQ(compute.steps.size(), 2u);
  compute.finish_step();
  compute.finish_step();
  ASSERT_EQ(data.sent[next].size(), 3u);
  EXPECT_EQ(data.sent[next][1].type, FrameType::kBatch);
  const auto second = decode_step_batch(data.sent[next][2].payload, {4, 100, 64, true});
  EXPECT_EQ(second->step, StepId(1));
  EXPECT_EQ(second->boundary, 4u);
}

// Such rows fit in every other way: a layer would be left out, and the tokens would be others.
TEST_F(StageTest, RowsOfAnotherBoundaryEndTheEpoch) {
  serve(1);
  batch(1, 0, 0);
  EXPECT_TRUE(compute.steps.empty());
  EXPECT_NE(said().stage_failed().error().find("boundary is 0; this stage begins at layer 2"),
            std::string::npos);
}

TEST_F(StageTest, KeepsFramesThatTheTransportHasNoRoomFor) {
  serve(1);
  data.full.insert(next);
  batch(1, 0);
  compute.finish_step();
  EXPECT_EQ(data.sent[next].size(), 1u);
  data.full.clear();
  stage->on_timer();
  EXPECT_EQ(data.sent[next].size(), 2u);
}

TEST_F(StageTest, MoreStepsThanAgreedEndTheEpoch) {
  serve(1);
  for (std::uint64_t step = 0; step < 4; ++step) batch(1, step);
  EXPECT_FALSE(said().has_stage_failed());
  batch(1, 4);
  EXPECT_NE(said().stage_failed().error().find("in flight"), std::string::npos);
}

TEST_F(StageTest, RowsThatAreSaidAgainAreNotCountedAsComputed) {
  serve(1);
  StepBatch step;
  step.epoch = Epoch(1);
  step.boundary = 2;
  step.opens.push_back({SequenceId(1), 2, false, {}});
  step.rows = {{SequenceId(1), 0, 5, 0}, {SequenceId(1), 1, 5, 0}};
  step.activations.resize(2 * 4 * 2);
  data.receive(previous, FrameType::kBatch, encode(step));
  ASSERT_EQ(compute.steps.size(), 1u);
  StepResult result;
  result.replayed = 1;
  compute.finish_step(std::move(result));
  EXPECT_EQ(stage->replayed_rows(), 1u);
  clock.advance(milliseconds(250));
  stage->on_timer();
  EXPECT_EQ(said().heartbeat().replayed_rows_total(), 1u);
  EXPECT_EQ(said().heartbeat().rows_total(), 1u);
}

TEST_F(StageTest, LateFramesAreCountedAndDropped) {
  serve(1);
  const LinkId old_previous = previous;
  serve(2);
  batch(1, 7);
  data.receive(old_previous, FrameType::kBatch, Bytes(9));
  EXPECT_TRUE(compute.steps.empty());
  EXPECT_EQ(stage->late_frames(), 2u);
  EXPECT_FALSE(said().has_stage_failed());
}

TEST_F(StageTest, AnswersOfAnOldEpochGoNowhere) {
  serve(1);
  batch(1, 0);
  serve(2);
  const std::size_t before = data.sent[next].size();
  compute.finish_step();
  EXPECT_EQ(data.sent[next].size(), before);
}

TEST_F(StageTest, OfALostLinkItSaysWhoIsAtTheOtherEnd) {
  serve(1);
  data.lose(next);
  EXPECT_NE(said().stage_failed().error().find("link to w2:data lost"), std::string::npos);
  EXPECT_EQ(said().stage_failed().peer(), "peer");
}

TEST_F(StageTest, BadFramesAndGapsEndTheEpochAndNotTheProcess) {
  serve(1);
  data.receive(previous, FrameType::kBatch, Bytes(3));
  EXPECT_NE(said().stage_failed().error().find("a bad frame"), std::string::npos);
  EXPECT_TRUE(data.closed.contains(previous));
  EXPECT_TRUE(data.closed.contains(next));
  compute.loads.clear();
  serve(2);
  batch(2, 5);
  batch(2, 7);
  EXPECT_NE(said().stage_failed().error().find("step 7 came after step 5"), std::string::npos);
  compute.loads.clear();
  serve(3);
  data.receive(previous, FrameType::kSubmit, Bytes(3));
  EXPECT_NE(said().stage_failed().error().find("does not belong"), std::string::npos);
  compute.loads.clear();
  serve(4);
  EXPECT_EQ(said().stage_ready().epoch(), 4u);
}

TEST_F(StageTest, HoldsAHelloOfAnEpochToComeButNotForEver) {
  const LinkId early = data.incoming();
  data.receive(early, FrameType::kHello, hello(1, 0));
  EXPECT_TRUE(data.sent[early].empty());
  assign(1);
  ASSERT_EQ(data.sent[early].size(), 1u);
  EXPECT_EQ(data.sent[early][0].type, FrameType::kHello);
  const LinkId never = data.incoming();
  data.receive(never, FrameType::kHello, hello(9, 0));
  clock.advance(seconds(5));
  stage->on_timer();
  ASSERT_EQ(data.sent[never].size(), 1u);
  EXPECT_NE(decode_refused(data.sent[never][0].payload).find("epoch 9"), std::string::npos);
  clock.advance(seconds(1));
  stage->on_timer();
  EXPECT_TRUE(data.closed.contains(never));
}

TEST_F(StageTest, RefusesOtherVersionsOldEpochsAndWrongNeighbours) {
  serve(5);
  const auto refusal = [&](Bytes payload) {
    const LinkId link = data.incoming();
    data.receive(link, FrameType::kHello, std::move(payload));
    return decode_refused(data.sent[link].back().payload);
  };
  Hello other;
  other.canonical = 2;
  other.node = "peer";
  const std::string versions = refusal(encode(other));
  EXPECT_NE(versions.find("arithmetic 1"), std::string::npos);
  EXPECT_NE(versions.find("arithmetic 2"), std::string::npos);
  EXPECT_NE(refusal(hello(4, 0)).find("epoch 4 is over"), std::string::npos);
  EXPECT_NE(refusal(hello(5, 2)).find("stage 2 has no link"), std::string::npos);
  EXPECT_NE(refusal(hello(5, Hello::kCoordinatorStage)).find("has no link"), std::string::npos);
}

TEST_F(StageTest, ALostNextStageIsReported) {
  serve(1);
  data.lose(next);
  EXPECT_NE(said().stage_failed().error().find("w2:data"), std::string::npos);
}

TEST_F(StageTest, ANextStageThatIsLateIsDialledAgain) {
  assign(1);
  const std::size_t before = data.dialled.size();
  data.lose(data.dialled.back().first);
  clock.advance(milliseconds(100));
  stage->on_timer();
  EXPECT_EQ(data.dialled.size(), before + 1);
  EXPECT_FALSE(said().has_stage_failed());
}

TEST_F(StageTest, LosesTheEpochWithTheCoordinatorAndDialsAgain) {
  serve(1);
  control.lose(session);
  EXPECT_TRUE(data.closed.contains(next));
  EXPECT_EQ(compute.loads.size(), 1u) << "the same range again, to drop its sequences";
  clock.advance(milliseconds(100));
  stage->on_timer();
  session = control.open("home:1");
  EXPECT_TRUE(said().has_register_());
  EXPECT_TRUE(stage->refused().empty());
  EXPECT_EQ(compute.forgotten, 1) << "another coordinator means others by the same ids";
}

TEST_F(StageTest, ARefusalIsForGood) {
  tell([](auto& message) { message.mutable_refused()->set_reason("models differ"); });
  EXPECT_NE(stage->refused().find("models differ"), std::string::npos);
  const std::size_t dialled = control.dialled.size();
  clock.advance(seconds(60));
  stage->on_timer();
  EXPECT_EQ(control.dialled.size(), dialled);
}

TEST_F(StageTest, ARangeThatFindsNoRoomIsToldAndEndsTheWorker) {
  assign(1);
  compute.refuse_load({ErrorCode::kNoCapacity, "needs 9 GiB, has 8"});
  EXPECT_NE(said().stage_failed().error().find("needs 9 GiB, has 8"), std::string::npos);
  ASSERT_TRUE(stage->no_room().has_value());
  EXPECT_EQ(stage->no_room()->code, ErrorCode::kNoCapacity);
  EXPECT_NE(stage->no_room()->message.find("layers 2-3"), std::string::npos);
  EXPECT_NE(stage->no_room()->message.find("needs 9 GiB, has 8"), std::string::npos);
}

TEST_F(StageTest, AnotherFailureOfALoadingEndsTheAssignmentOnly) {
  assign(1);
  compute.refuse_load({ErrorCode::kIo, "the disk is gone"});
  EXPECT_NE(said().stage_failed().error().find("the disk is gone"), std::string::npos);
  EXPECT_FALSE(stage->no_room().has_value());
}

TEST_F(StageTest, UnassignEndsTheNamedEpochAlone) {
  serve(2);
  tell([](auto& message) { message.mutable_unassign()->set_epoch(1); });
  EXPECT_FALSE(data.closed.contains(next));
  tell([](auto& message) { message.mutable_unassign()->set_epoch(2); });
  EXPECT_TRUE(data.closed.contains(next));
  EXPECT_FALSE(said().has_stage_failed());
  assign(2);
  EXPECT_NE(said().stage_failed().error().find("not newer"), std::string::npos);
  EXPECT_EQ(compute.forgotten, 0) << "its sequences may come again";
}

// A coordinator whose clock was set back goes on above it.
TEST_F(StageTest, ANewSessionSaysTheNewestEpoch) {
  serve(2);
  control.lose(session);
  clock.advance(seconds(3));
  stage->on_timer();
  session = control.open("home:1");
  EXPECT_EQ(said().register_().newest_epoch(), 2u);
}

const Away kPause{false, 0, "hearth pause"};
const Away kDrain{true, 0, "hearth drain"};

TEST_F(StageTest, APauseIsToldAtOnceAndItsLinksWaitForTheCoordinator) {
  serve(1);
  batch(1, 0);
  batch(1, 1);
  compute.finish_step();
  const std::size_t sent = data.sent[next].size();
  stage->set_away(kPause);
  EXPECT_EQ(said().heartbeat().away().why(), "hearth pause");
  EXPECT_EQ(compute.unloads, 1);
  EXPECT_FALSE(stage->rests()) << "the memory is not free yet";
  compute.finish_step();
  batch(1, 2);
  EXPECT_EQ(data.sent[next].size(), sent) << "a step was passed on";
  EXPECT_TRUE(compute.steps.empty()) << "a step was begun";
  EXPECT_FALSE(data.closed.contains(next)) << "the neighbours are to hear of it first";
  compute.finish_unload();
  EXPECT_TRUE(stage->rests());
  stage->set_away(kPause);
  EXPECT_EQ(compute.unloads, 0) << "it is the same one";
  tell([](auto& message) { message.mutable_unassign()->set_epoch(1); });
  EXPECT_TRUE(data.closed.contains(next));
  EXPECT_FALSE(said().has_stage_failed());
  EXPECT_TRUE(compute.loads.empty()) << "nothing is loaded again";
  assign(2);
  EXPECT_NE(said().stage_failed().error().find("owner"), std::string::npos);
  EXPECT_TRUE(compute.loads.empty());
  stage->set_away(std::nullopt);
  EXPECT_TRUE(said().has_heartbeat());
  EXPECT_FALSE(said().heartbeat().has_away());
  EXPECT_FALSE(stage->rests());
  serve(3);
  EXPECT_TRUE(said().has_stage_ready());
}

TEST_F(StageTest, ACoordinatorThatDoesNotKnowOfPausesHearsOfAFailureASecondLater) {
  serve(1);
  stage->set_away(kPause);
  clock.advance(milliseconds(999));
  stage->on_timer();
  EXPECT_FALSE(data.closed.contains(next));
  clock.advance(milliseconds(1));
  stage->on_timer();
  EXPECT_TRUE(data.closed.contains(next));
  EXPECT_NE(said().stage_failed().error().find("owner"), std::string::npos);
}

TEST_F(StageTest, APauseEndsALoading) {
  assign(1);
  stage->set_away(kPause);
  EXPECT_EQ(compute.unloads, 1);
  compute.refuse_load({ErrorCode::kCancelled, "loading was given up"});
  EXPECT_FALSE(said().has_stage_failed());
  compute.finish_unload();
  EXPECT_TRUE(stage->rests());
  stage->set_away(std::nullopt);
  tell([](auto& message) { message.mutable_unassign()->set_epoch(1); });
  EXPECT_TRUE(compute.loads.empty()) << "what was given up is not taken up again";
}

TEST_F(StageTest, ADrainedStageServesUntilTheCoordinatorEndsIt) {
  serve(1);
  stage->set_away(kDrain);
  EXPECT_TRUE(said().heartbeat().away().drain());
  EXPECT_EQ(compute.unloads, 0);
  batch(1, 0);
  compute.finish_step();
  EXPECT_EQ(data.sent[next].size(), 2u);
  tell([](auto& message) { message.mutable_unassign()->set_epoch(1); });
  EXPECT_FALSE(stage->rests());
  EXPECT_EQ(compute.unloads, 1);
  compute.finish_unload();
  EXPECT_TRUE(stage->rests());
}

TEST_F(StageTest, APausedWorkerRegistersAsOne) {
  stage->set_away(kPause);
  compute.finish_unload();
  control.lose(session);
  clock.advance(milliseconds(100));
  stage->on_timer();
  session = control.open("home:1");
  EXPECT_EQ(said().register_().away().why(), "hearth pause");
  EXPECT_TRUE(stage->rests());
}

}  // namespace
}  // namespace hearth::node
