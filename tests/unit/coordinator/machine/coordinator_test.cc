#include "coordinator/coordinator.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "tests/unit/coordinator/workers/workers.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

using control::v1::CoordinatorMessage;
using control::v1::WorkerMessage;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Recorder final : SequenceEvents {
  void on_admitted() override { log += "admitted "; }
  void on_token(const SampledToken& token) override {
    log += "token" + std::to_string(token.token) + " ";
  }
  void on_hashes(std::vector<RowHash> hashes) override {
    log += "hashes" + std::to_string(hashes.size()) + " ";
  }
  void on_error(const Error& error) override {
    log += std::string(error_code_name(error.code)) + " ";
    message = error.message;
  }
  std::string log;
  std::string message;
};

struct CoordinatorTest : ::testing::Test {
  testing::FakeClock clock;
  SeededRandom random{1};
  testing::FakeTransport control;
  testing::FakeTransport data;
  std::unique_ptr<Coordinator> machine =
      Coordinator::start(testing::swarm_options(2), clock, random, control, data);
  LinkId a, b, first, last;

  LinkId join(const control::v1::Register& body) {
    const LinkId link = control.incoming();
    WorkerMessage message;
    *message.mutable_register_() = body;
    say(link, message);
    return link;
  }
  void say(LinkId link, const WorkerMessage& message) {
    Bytes payload(message.ByteSizeLong());
    message.SerializeToArray(payload.data(), static_cast<int>(payload.size()));
    control.receive(link, FrameType::kControl, std::move(payload));
  }
  // Time in which a beats, or both.
  void pass(int milliseconds_passed, bool both) {
    WorkerMessage beat;
    beat.mutable_heartbeat();
    for (int time = 0; time < milliseconds_passed; time += 50) {
      clock.advance(milliseconds(50));
      say(a, beat);
      if (both) say(b, beat);
      machine->on_timer();
    }
  }
  CoordinatorMessage heard(LinkId link) {
    CoordinatorMessage message;
    if (control.sent[link].empty()) return message;
    const Bytes& payload = control.sent[link].back().payload;
    message.ParseFromArray(payload.data(), static_cast<int>(payload.size()));
    return message;
  }
  void ready(LinkId link, std::uint64_t epoch, std::uint32_t pages = 2) {
    WorkerMessage message;
    message.mutable_stage_ready()->set_epoch(epoch);
    message.mutable_stage_ready()->set_kv_pages(pages);
    message.mutable_stage_ready()->set_kv_page_tokens(32);
    say(link, message);
  }
  static Bytes hello(std::uint64_t epoch, std::uint32_t stage, const std::string& node) {
    Hello hello;
    hello.canonical = 1;
    hello.epoch = Epoch(epoch);
    hello.stage = stage;
    hello.node = node;
    return encode(hello);
  }
  void serve(std::uint64_t epoch = 1, std::uint32_t pages = 2) {
    if (epoch == 1) {
      a = join(testing::worker("a"));
      b = join(testing::worker("b"));
    }
    first = data.open("a:data");
    data.receive(first, FrameType::kHello, hello(epoch, 0, "a"));
    last = data.incoming();
    data.receive(last, FrameType::kHello, hello(epoch, 1, "b"));
    ready(a, epoch);
    ready(b, epoch, pages);
  }
  std::shared_ptr<Recorder> submit(std::uint32_t tokens, bool hashes = false,
                                   bool background = false) {
    auto recorder = std::make_shared<Recorder>();
    GenerateRequest request{{1, 2}, {}, hashes};
    request.sampling.max_tokens = tokens;
    request.background = background;
    const auto id = machine->submit(std::move(request), recorder);
    if (!id.ok()) recorder->log = "refused " + std::string(error_code_name(id.error().code));
    return recorder;
  }
  void tokens(std::uint64_t step, std::vector<SampledToken> sampled,
              std::vector<SequenceId> released = {}) {
    data.receive(last, FrameType::kTokens,
                 encode(StepTokens{Epoch(1), StepId(step), std::move(sampled), released}));
  }
  void hashes(LinkId link, std::uint64_t id, std::vector<Position> positions,
              std::uint64_t epoch = 1) {
    WorkerMessage message;
    message.mutable_step_hashes()->set_epoch(epoch);
    for (const Position position : positions) {
      auto& row = *message.mutable_step_hashes()->add_rows();
      row.set_sequence(id);
      row.set_position(position);
      row.set_in(std::string(32, 'i'));
      row.set_out(std::string(32, 'o'));
    }
    say(link, message);
  }
  static SampledToken token(std::uint64_t id, Position position, TokenId value,
                            FinishReason finish = FinishReason::kNone) {
    return {SequenceId(id), position, value, finish, ErrorCode::kNumeric, 0.0F, {}};
  }
};

TEST_F(CoordinatorTest, AWorkerIsWhoItsKeySays) {
  const auto speak = [&](std::optional<RosterEntry> peer) {
    const LinkId link = control.incoming();
    control.peers[link] = std::move(peer);
    WorkerMessage message;
    *message.mutable_register_() = testing::worker("a");
    say(link, message);
    return heard(link);
  };
  for (const auto& peer :
       {std::optional<RosterEntry>(), std::optional(RosterEntry{{}, "mallory", Role::kWorker, {}}),
        std::optional(RosterEntry{{}, "a", Role::kClient, {}}),
        std::optional(RosterEntry{{}, "a", Role::kAdmin, {}}),
        std::optional(RosterEntry{{}, "a", Role::kCoordinator, {}})}) {
    const CoordinatorMessage answer = speak(peer);
    EXPECT_EQ(answer.refused().reason(), "this node is not admitted here");
    EXPECT_FALSE(answer.refused().may_pass());
  }
  EXPECT_TRUE(machine->status().nodes.empty());
  EXPECT_TRUE(speak(RosterEntry{{}, "a", Role::kWorker, {}}).has_registered());
}

TEST_F(CoordinatorTest, WhatAWorkerHoldsAgainstARosterIsHandedOn) {
  std::vector<std::string> shown;
  bool one_of_ours = true;
  CoordinatorOptions options = testing::swarm_options(2);
  options.on_held_roster = [&](const std::string& node, ByteSpan roster) {
    shown.push_back(node + ": " + std::string(as_text(roster)));
    return one_of_ours;
  };
  machine = Coordinator::start(options, clock, random, control, data);
  const LinkId link = join(testing::worker("a"));
  WorkerMessage message;
  message.mutable_roster()->set_roster("newer");
  say(link, message);
  EXPECT_EQ(shown, std::vector<std::string>{"a: newer"});
  EXPECT_FALSE(control.closed.contains(link));
  one_of_ours = false;
  say(link, message);
  EXPECT_TRUE(control.closed.contains(link)) << "it was none";
}

TEST_F(CoordinatorTest, EveryWorkerHearsOfEveryRoster) {
  const auto roster_of = [&](LinkId link, std::size_t message) {
    CoordinatorMessage heard;
    const Bytes& payload = control.sent[link].at(message).payload;
    heard.ParseFromArray(payload.data(), static_cast<int>(payload.size()));
    return heard.roster().roster();
  };
  const ByteSpan one = as_bytes("roster one");
  machine->publish_roster(Bytes(one.begin(), one.end()));
  a = join(testing::worker("a"));
  ASSERT_EQ(control.sent[a].size(), 2u);
  EXPECT_EQ(roster_of(a, 1), "roster one") << "after Registered";
  b = join(testing::worker("b"));
  ASSERT_EQ(control.sent[b].size(), 3u);
  EXPECT_EQ(roster_of(b, 1), "roster one") << "before its Assign";
  const ByteSpan two = as_bytes("roster two");
  machine->publish_roster(Bytes(two.begin(), two.end()));
  EXPECT_EQ(heard(a).roster().roster(), "roster two");
  EXPECT_EQ(heard(b).roster().roster(), "roster two");
  const std::size_t before = control.sent[a].size();
  control.lose(a);
  machine->publish_roster(Bytes(one.begin(), one.end()));
  EXPECT_EQ(control.sent[a].size(), before) << "to a lost one";
}

TEST_F(CoordinatorTest, ServesOnlyWhenEveryStageIsReadyAndLinked) {
  EXPECT_EQ(submit(4)->log, "refused unavailable");
  a = join(testing::worker("a"));
  EXPECT_TRUE(heard(a).has_registered());
  EXPECT_FALSE(machine->status().ready);
  b = join(testing::worker("b"));
  EXPECT_EQ(heard(a).assign().stage(), 0u);
  EXPECT_EQ(heard(b).assign().stage(), 1u);
  EXPECT_EQ(heard(b).assign().coordinator_address(), "here:1");
  first = data.open("a:data");
  data.receive(first, FrameType::kHello, hello(1, 0, "a"));
  ready(a, 1);
  ready(b, 1);
  EXPECT_FALSE(machine->status().ready) << "the last stage has no link yet";
  last = data.incoming();
  data.receive(last, FrameType::kHello, hello(1, 1, "b"));
  EXPECT_TRUE(machine->status().ready);
  EXPECT_EQ(data.sent[last].front().type, FrameType::kHello);
}

TEST_F(CoordinatorTest, RefusesOtherVersionsModelsAndStrangers) {
  auto body = testing::worker("x");
  body.set_canonical_version(2);
  const LinkId link = join(body);
  EXPECT_NE(heard(link).refused().reason().find("arithmetic 2"), std::string::npos);
  body = testing::worker("x");
  body.set_layers(9);
  EXPECT_NE(heard(join(body)).refused().reason().find("worker's 9"), std::string::npos);
  const LinkId silent = control.incoming();
  const LinkId noise = control.incoming();
  control.receive(noise, FrameType::kControl, Bytes(3, std::byte{0xFF}));
  EXPECT_TRUE(heard(noise).has_refused());
  clock.advance(seconds(5));
  machine->on_timer();
  EXPECT_TRUE(control.closed.contains(silent));
  EXPECT_TRUE(control.closed.contains(noise));
  EXPECT_TRUE(machine->status().nodes.empty());
}

TEST_F(CoordinatorTest, RefusesDataLinksOfOtherVersionsEpochsAndNodes) {
  serve();
  const auto refusal = [&](Bytes payload) {
    const LinkId link = data.incoming();
    data.receive(link, FrameType::kHello, std::move(payload));
    const Frame& frame = data.sent[link].back();
    return frame.type == FrameType::kRefused ? decode_refused(frame.payload) : "";
  };
  Hello old;
  old.protocol = kProtocolOldest - 1;
  EXPECT_NE(refusal(encode(old)).find("protocol " + std::to_string(old.protocol)),
            std::string::npos);
  EXPECT_NE(refusal(hello(9, 1, "b")).find("epoch 9"), std::string::npos);
  EXPECT_NE(refusal(hello(1, 1, "a")).find("not the last stage"), std::string::npos);
  EXPECT_NE(refusal(hello(1, 1, "b")).find("already"), std::string::npos);
}

TEST_F(CoordinatorTest, AdmitsInOrderReservesAndReleases) {
  serve();
  const auto one = submit(40);  // two pages of two
  const auto two = submit(4);
  EXPECT_EQ(one->log, "admitted ");
  EXPECT_EQ(two->log, "");
  EXPECT_EQ(machine->status().waiting, 1u);
  EXPECT_EQ(machine->status().pipelines[0].kv_pages_reserved, 2u);
  EXPECT_EQ(data.sent[first].back().type, FrameType::kSubmit);
  tokens(0, {token(1, 2, 50)});
  tokens(1, {token(1, 3, 51, FinishReason::kStop)});
  EXPECT_EQ(one->log, "admitted token50 token51 ");
  EXPECT_EQ(two->log, "") << "the KV is not free yet";
  tokens(2, {}, {SequenceId(1)});
  EXPECT_EQ(two->log, "admitted ");
  EXPECT_EQ(machine->status().finished_stop_total, 1u);
}

TEST_F(CoordinatorTest, RefusesWhatNeverFitsAndWhatTheQueueCannotHold) {
  serve();
  EXPECT_EQ(submit(63)->log, "refused invalid_input");  // 2 + 63 pass the context of 64
  const auto running = submit(62);
  const std::uint32_t most = (2 * limits::kWaitingSequences + 2) / 3;  // of one owner
  for (std::uint32_t i = 0; i < most; ++i) EXPECT_EQ(submit(1)->log, "");
  EXPECT_EQ(submit(1)->log, "refused no_capacity");
}

TEST_F(CoordinatorTest, RefusesMoreKvThanThereIsInAll) {
  serve(1, 1);  // one page of 32 positions
  EXPECT_EQ(submit(30)->log, "admitted ");
  EXPECT_EQ(submit(31)->log, "refused no_capacity");
}

TEST_F(CoordinatorTest, CancelIsSentAndKvComesBackWithTheRelease) {
  serve();
  const auto one = submit(40);
  machine->cancel(SequenceId(1));
  EXPECT_EQ(data.sent[first].back().type, FrameType::kCancel);
  tokens(0, {token(1, 2, 50)});
  tokens(1, {}, {SequenceId(1)});
  EXPECT_EQ(one->log, "admitted ");
  EXPECT_EQ(machine->status().running, 0u);
  EXPECT_EQ(machine->status().pipelines[0].kv_pages_reserved, 0u);
  machine->cancel(SequenceId(1));
  EXPECT_EQ(machine->status().cancelled_total, 1u);
}

TEST_F(CoordinatorTest, TheSequencesOfALostWorkerGoOnFromTheirTokens) {
  serve();
  const auto one = submit(40);
  const auto two = submit(40);
  tokens(0, {token(1, 2, 50)});
  tokens(1, {token(1, 3, 51)});
  control.lose(b);
  EXPECT_EQ(one->log, "admitted token50 token51 ");
  EXPECT_EQ(heard(a).unassign().epoch(), 1u);
  EXPECT_EQ(machine->status().waiting, 2u);
  b = join(testing::worker("b"));
  EXPECT_EQ(heard(a).assign().epoch(), 2u);
  serve(2);
  const auto again =
      decode_submit(data.sent[first].back().payload, testing::swarm_options(2).shape);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->epoch, Epoch(2));
  EXPECT_EQ(again->open.sequence, SequenceId(1));
  EXPECT_EQ(again->open.prompt_tokens, 2u);
  EXPECT_EQ(again->open.sampling.max_tokens, 40u);
  EXPECT_EQ(again->prompt, (std::vector<TokenId>{1, 2, 50, 51}));
  EXPECT_EQ(two->log, "") << "the one that was running comes first";
  data.receive(last, FrameType::kTokens,
               encode(StepTokens{
                   Epoch(2), StepId(0), {token(1, 4, 52, FinishReason::kStop)}, {SequenceId(1)}}));
  EXPECT_EQ(one->log, "admitted token50 token51 token52 ");
  EXPECT_EQ(two->log, "admitted ");
  EXPECT_EQ(machine->status().admitted_total, 2u);
  EXPECT_EQ(machine->status().resumed_total, 1u);
  EXPECT_EQ(machine->status().prompt_tokens_total, 4u);
  EXPECT_EQ(machine->status().finished_stop_total, 1u);
}

TEST_F(CoordinatorTest, WhereNobodyHoldsTheLayersTheyEndWithOneErrorByName) {
  serve();
  const auto one = submit(40);
  control.lose(b);
  pass(21'400, false);
  EXPECT_EQ(one->log, "admitted ");
  pass(600, false);
  EXPECT_EQ(one->log, "admitted unavailable ");
  EXPECT_NE(one->message.find("worker b (stage 2 of 2, layers 2-3)"), std::string::npos)
      << one->message;
  EXPECT_EQ(machine->status().waiting, 0u);
}

// As where a network is interrupted: the silent one may come back with its layers.
TEST_F(CoordinatorTest, ASilentNodeIsWaitedForTwentySeconds) {
  serve();
  const auto one = submit(40);
  const auto two = submit(40);
  tokens(0, {token(1, 2, 50)});
  pass(1'000, true);
  pass(21'000, false);
  EXPECT_EQ(one->log, "admitted token50 ");
  EXPECT_EQ(machine->status().waiting, 2u) << "its silence is found";
  b = join(testing::worker("b"));
  EXPECT_EQ(heard(a).assign().epoch(), 2u);
  serve(2);
  data.receive(last, FrameType::kTokens,
               encode(StepTokens{
                   Epoch(2), StepId(0), {token(1, 3, 51, FinishReason::kStop)}, {SequenceId(1)}}));
  EXPECT_EQ(one->log, "admitted token50 token51 ");
  EXPECT_EQ(two->log, "admitted ");
  pass(1'000, true);
  pass(23'400, false);
  EXPECT_EQ(two->log, "admitted unavailable ") << "not for ever";
}

TEST_F(CoordinatorTest, WhoSleptHimselfBlamesNobodysSilence) {
  serve();
  const auto one = submit(40);
  machine->on_timer();
  clock.advance(seconds(3));  // this process was frozen
  machine->on_timer();
  EXPECT_EQ(one->log, "admitted ");
  for (int i = 0; i < 430; ++i) {
    clock.advance(milliseconds(50));
    machine->on_timer();
  }
  EXPECT_EQ(one->log, "admitted ") << "they have the time that they need to come back";
  for (int i = 0; i < 10; ++i) {
    clock.advance(milliseconds(50));
    machine->on_timer();
  }
  EXPECT_EQ(one->log, "admitted unavailable ");
}

TEST_F(CoordinatorTest, ARequestInTheBackgroundKeepsItsRoom) {
  serve();
  const auto titles = submit(40, false, true);
  const auto opened =
      decode_submit(data.sent[first].back().payload, testing::swarm_options(2).shape);
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(opened->open.background);
  const auto next = submit(40);
  machine->on_timer();
  EXPECT_EQ(titles->log, "admitted ");
  EXPECT_EQ(next->log, "") << "it waits for the room of the one that runs";
  machine->cancel(SequenceId(1));
  tokens(0, {}, {SequenceId(1)});
  EXPECT_EQ(next->log, "admitted ");
}

TEST_F(CoordinatorTest, WhileAPipelineFormsTheyWait) {
  serve();
  const auto one = submit(40);
  control.lose(b);
  b = join(testing::worker("b"));
  first = data.open("a:data");
  data.receive(first, FrameType::kHello, hello(2, 0, "a"));
  const auto beat = [&] {
    clock.advance(seconds(1));
    WorkerMessage message;
    message.mutable_heartbeat();
    say(a, message);
    say(b, message);
    machine->on_timer();
  };
  for (int second = 0; second < 60; ++second) beat();
  EXPECT_EQ(one->log, "admitted ") << "its layers are being loaded";
  for (int second = 60; second < 140; ++second) beat();
  EXPECT_EQ(one->log, "admitted unavailable ") << "not for ever";
}

// A frozen worker is missed by its neighbour about when it is missed by us: the neighbour is not
// to blame.
TEST_F(CoordinatorTest, OfALostLinkTheEndThatIsSilentIsToBlame) {
  serve();
  const auto one = submit(40);
  clock.advance(milliseconds(600));
  WorkerMessage failed;
  failed.mutable_stage_failed()->set_epoch(1);
  failed.mutable_stage_failed()->set_error("link to a:data lost");
  failed.mutable_stage_failed()->set_peer("a");
  say(b, failed);
  EXPECT_EQ(machine->status().nodes[1].state, "free");
  EXPECT_NE(machine->status().missing.find("worker a (stage 1 of 2"), std::string::npos)
      << machine->status().missing;
  EXPECT_EQ(one->log, "admitted ");
}

TEST_F(CoordinatorTest, WhoHangsUpOnASilentNeighbourIsNotToBlame) {
  serve();
  const auto one = submit(40);
  clock.advance(milliseconds(1'200));
  WorkerMessage beat;
  beat.mutable_heartbeat();
  say(a, beat);
  data.lose(first);
  EXPECT_NE(
      machine->status().missing.find("worker b (stage 2 of 2, layers 2-3) failed: it sends no"),
      std::string::npos)
      << machine->status().missing;
}

TEST_F(CoordinatorTest, WhoIsHereAndRestsIsWaitedFor) {
  serve();
  const auto one = submit(40);
  const auto beat = [&](LinkId link) {
    WorkerMessage message;
    message.mutable_heartbeat();
    say(link, message);
  };
  const auto pass = [&](bool both) {
    clock.advance(milliseconds(50));
    beat(a);
    if (both) beat(b);
    machine->on_timer();
  };
  for (int i = 0; i < 28; ++i) pass(false);
  data.lose(first);
  beat(b);  // it was silent, and is not any more
  for (int i = 0; i < 40 && machine->status().pipelines.empty(); ++i) {
    pass(true);
    EXPECT_EQ(one->log, "admitted ") << i;
  }
  EXPECT_FALSE(machine->status().pipelines.empty());
}

// One that brings down every pipeline that computes it must not have them all.
TEST_F(CoordinatorTest, ASequenceThatLosesOnePipelineAfterAnotherEnds) {
  serve();
  const auto one = submit(40);
  tokens(0, {token(1, 2, 50)});
  for (std::uint64_t epoch = 2; epoch <= 6; ++epoch) {
    EXPECT_EQ(one->log, "admitted token50 ") << epoch;
    control.lose(b);
    b = join(testing::worker("b"));
    serve(epoch);
  }
  control.lose(b);
  EXPECT_EQ(one->log, "admitted token50 unavailable ");
}

TEST_F(CoordinatorTest, CancelAndStopBetweenTwoPipelines) {
  serve();
  const auto cancelled = submit(20);
  const auto stopped = submit(20, true);
  tokens(0, {token(1, 2, 50), token(2, 2, 50)});
  hashes(a, 2, {0, 1});
  hashes(b, 2, {0, 1});
  control.lose(b);
  EXPECT_EQ(machine->status().waiting, 2u);
  machine->cancel(SequenceId(1));
  machine->stop(SequenceId(2), 1);
  EXPECT_EQ(cancelled->log, "admitted token50 ");
  EXPECT_EQ(stopped->log, "admitted token50 hashes2 ");
  EXPECT_EQ(machine->status().waiting, 0u);
  EXPECT_EQ(machine->status().running, 0u);
  EXPECT_EQ(machine->status().finished_stop_total, 1u);
  EXPECT_EQ(machine->status().cancelled_total, 1u);
}

// The next pipeline computes every row again, so its hashes alone are the sequence's.
TEST_F(CoordinatorTest, HashesComeFromThePipelineThatEndsTheSequence) {
  serve();
  const auto one = submit(40, true);
  tokens(0, {token(1, 2, 50)});
  hashes(a, 1, {0, 1});
  control.lose(b);
  b = join(testing::worker("b"));
  serve(2);
  hashes(a, 1, {2}, 1);  // late
  for (const LinkId link : {a, b}) hashes(link, 1, {0, 1, 2}, 2);
  data.receive(last, FrameType::kTokens,
               encode(StepTokens{Epoch(2),
                                 StepId(0),
                                 {token(1, 2, 50), token(1, 3, 51, FinishReason::kLength)},
                                 {SequenceId(1)}}));
  EXPECT_EQ(one->log, "admitted token50 hashes6 token51 ");
}

TEST_F(CoordinatorTest, UnreadinessNamesTheWorkerAndTheLayersThatAreMissing) {
  const auto says = [&](const std::string& part) {
    const std::string sentence = machine->status().missing;
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
  };
  says("0 of 2 workers are registered");
  serve();
  EXPECT_EQ(machine->status().missing, "");
  control.lose(b);
  says("1 of 2 workers are registered; before, worker b (stage 2 of 2, layers ");
  says("control session ended");
  b = join(testing::worker("b"));
  ready(a, 2);
  says("2 of 2 workers are registered; worker b (stage 2 of 2, layers ");
  says("is not ready yet");
}

TEST_F(CoordinatorTest, NamesTheLayersForWhichNobodyIsHere) {
  using Ranges = std::vector<LayerRange>;
  EXPECT_EQ(machine->status().uncovered, (Ranges{{0, 2}, {2, 4}}));
  a = join(testing::worker("a"));
  EXPECT_EQ(machine->status().uncovered, (Ranges{{2, 4}}));
  b = join(testing::worker("b"));
  EXPECT_EQ(machine->status().uncovered, Ranges{}) << "loading, so that nothing is to be added";
  control.lose(a);
  EXPECT_EQ(machine->status().uncovered, (Ranges{{2, 4}}));
}

TEST_F(CoordinatorTest, WhoHasLoadedLayersKeepsThem) {
  using Ranges = std::vector<LayerRange>;
  serve();
  control.lose(a);
  EXPECT_EQ(machine->status().uncovered, (Ranges{{0, 2}}));
  control.lose(b);
  EXPECT_EQ(machine->status().uncovered, (Ranges{{0, 2}, {2, 4}}));
}

TEST_F(CoordinatorTest, RatesComeFromHeartbeats) {
  serve();
  for (int beat = 0; beat < 9; ++beat) {
    WorkerMessage message;
    message.mutable_heartbeat()->set_rows_total(1'000U + 100U * static_cast<unsigned>(beat));
    message.mutable_heartbeat()->set_busy_seconds_total(7.0 + 0.125 * beat);
    say(a, message);
    clock.advance(milliseconds(250));
    say(b, WorkerMessage(message));
  }
  const SwarmStatus status = machine->status();
  EXPECT_DOUBLE_EQ(status.nodes[0].rows_per_second, 400.0);
  EXPECT_DOUBLE_EQ(status.nodes[0].busy_ratio, 0.5);
}

TEST_F(CoordinatorTest, AShareIsNeverMoreThanTheWhole) {
  serve();
  for (int beat = 0; beat < 3; ++beat) {
    WorkerMessage message;
    message.mutable_heartbeat()->set_busy_seconds_total(beat * 1e300);
    say(a, message);
    clock.advance(milliseconds(250));
  }
  EXPECT_EQ(machine->status().nodes[0].busy_ratio, 1.0);
}

TEST_F(CoordinatorTest, TokensASecondAreSampledByTheTimer) {
  serve();
  machine->on_timer();
  EXPECT_EQ(machine->status().prompt_tokens_per_second, 0.0);
  submit(4);
  tokens(1, {token(1, 2, 9)});
  clock.advance(milliseconds(500));
  machine->on_timer();
  EXPECT_DOUBLE_EQ(machine->status().prompt_tokens_per_second, 4.0);
  EXPECT_DOUBLE_EQ(machine->status().tokens_per_second, 2.0);
}

TEST_F(CoordinatorTest, SaysThatTheWorkersHaveTooLittleRoom) {
  control::v1::Register small = testing::worker("a");
  small.set_layers_most(1);
  a = join(small);
  small.set_node("b");
  small.set_layers_most(2);
  b = join(small);
  EXPECT_NE(machine->status().missing.find("2 of them have room for 3 of the model's 4 layers"),
            std::string::npos)
      << machine->status().missing;
}

TEST_F(CoordinatorTest, MoreWorkersThanStagesAreSoManyOfNothing) {
  control::v1::Register small = testing::worker("a");
  small.set_layers_most(1);
  for (const char* name : {"a", "b", "c"}) {
    small.set_node(name);
    join(small);
  }
  EXPECT_NE(machine->status().missing.find(": 3 workers are registered"), std::string::npos)
      << machine->status().missing;
}

TEST_F(CoordinatorTest, ABeatBringsWhatTheCardSays) {
  serve();
  EXPECT_FALSE(machine->status().nodes[0].card);
  say(a, [] {
    WorkerMessage message;
    message.mutable_heartbeat()->mutable_card()->set_celsius(61);
    return message;
  }());
  ASSERT_TRUE(machine->status().nodes[0].card);
  EXPECT_EQ(machine->status().nodes[0].card->celsius, 61u);
}

TEST_F(CoordinatorTest, SilenceIsALoss) {
  serve();
  const auto one = submit(40);
  clock.advance(milliseconds(1499));
  say(a, [] {
    WorkerMessage message;
    message.mutable_heartbeat()->set_steps_total(7);
    return message;
  }());
  machine->on_timer();
  EXPECT_EQ(one->log, "admitted ");
  clock.advance(milliseconds(1));
  machine->on_timer();
  EXPECT_EQ(one->log, "admitted ");
  EXPECT_EQ(machine->status().waiting, 1u) << "it waits for another pipeline";
  EXPECT_TRUE(control.closed.contains(b));
  EXPECT_FALSE(control.closed.contains(a));
}

TEST_F(CoordinatorTest, WaitingSequencesGiveUpAfterTwentySecondsWithoutAPipeline) {
  serve();
  const auto running = submit(40);
  const auto waiting = submit(40);
  control.lose(a);
  control.lose(b);
  clock.advance(milliseconds(19'900));
  machine->on_timer();
  EXPECT_EQ(waiting->log, "");
  clock.advance(milliseconds(200));
  machine->on_timer();
  EXPECT_EQ(waiting->log, "unavailable ");
  clock.advance(seconds(2));  // what ran waits a moment longer
  machine->on_timer();
  EXPECT_EQ(machine->status().waiting, 0u);
}

TEST_F(CoordinatorTest, ANameBelongsToItsWorkerWhileThatIsHeardOf) {
  serve();
  const LinkId newcomer = join(testing::worker("b"));
  EXPECT_NE(heard(newcomer).refused().reason().find("a worker named b is already connected"),
            std::string::npos);
  EXPECT_TRUE(heard(newcomer).refused().may_pass());
  EXPECT_TRUE(machine->status().ready) << "the one who has the name serves on";
  WorkerMessage beat;
  beat.mutable_heartbeat();
  const std::size_t answers = control.sent[newcomer].size();
  say(newcomer, beat);
  EXPECT_EQ(control.sent[newcomer].size(), answers) << "what a refused one says is not heard";
  EXPECT_FALSE(control.sent[b].empty() || heard(b).has_refused());
}

TEST_F(CoordinatorTest, ANameIsFreeOnceItsWorkerIsGoneOrSilent) {
  serve();
  control.lose(b);
  EXPECT_TRUE(heard(join(testing::worker("b"))).has_assign()) << "a closed session is gone at once";
  EXPECT_EQ(machine->status().nodes.size(), 2u);
  clock.advance(milliseconds(1500));  // no worker beats, and no timer has run yet
  const LinkId newer = join(testing::worker("a"));
  EXPECT_FALSE(heard(newer).has_refused());
  EXPECT_TRUE(control.closed.contains(a)) << "the silent one is hung up on";
}

TEST_F(CoordinatorTest, TheLastTokenWaitsForItsHashesAndNotForEver) {
  serve();
  const auto with = submit(1, true);
  tokens(0, {token(1, 2, 50, FinishReason::kLength)});
  EXPECT_EQ(with->log, "admitted ");
  hashes(a, 1, {0, 1});
  EXPECT_EQ(with->log, "admitted ");
  hashes(b, 1, {0, 1});
  EXPECT_EQ(with->log, "admitted hashes4 token50 ");
  const auto late = submit(1, true);
  tokens(1, {token(2, 2, 51, FinishReason::kLength)}, {SequenceId(1)});
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(late->log, "admitted ") << i << " s";
    clock.advance(milliseconds(1000));
    for (const LinkId link : {a, b}) {
      WorkerMessage beat;
      beat.mutable_heartbeat();
      say(link, beat);
    }
    machine->on_timer();
  }
  EXPECT_EQ(late->log, "admitted hashes0 token51 ");
}

TEST_F(CoordinatorTest, AStoppedSequenceReportsTheHashesBeforeItsEndAndNothingElse) {
  serve();
  const auto stopped = submit(40, true);
  tokens(0, {token(1, 2, 50)});
  hashes(a, 1, {0, 1});
  tokens(1, {token(1, 3, 51)});
  machine->stop(SequenceId(1), 2);
  machine->stop(SequenceId(1), 2);
  EXPECT_EQ(data.sent[first].back().type, FrameType::kCancel);
  hashes(a, 1, {2});
  hashes(b, 1, {0});
  tokens(2, {token(1, 4, 52)});
  EXPECT_EQ(stopped->log, "admitted token50 token51 ");
  hashes(b, 1, {1});
  EXPECT_EQ(stopped->log, "admitted token50 token51 hashes4 ");
  hashes(b, 1, {2});
  tokens(3, {}, {SequenceId(1)});
  EXPECT_EQ(stopped->log, "admitted token50 token51 hashes4 ");
  EXPECT_EQ(machine->status().running, 0u);
  EXPECT_EQ(machine->status().finished_stop_total, 1u);
  EXPECT_EQ(machine->status().pipelines[0].kv_pages_reserved, 0u);

  const auto plain = submit(40);
  tokens(4, {token(2, 2, 50)});
  machine->stop(SequenceId(2), 2);
  EXPECT_EQ(plain->log, "admitted token50 ");
  tokens(5, {}, {SequenceId(2)});
  const auto lost = submit(40, true);
  tokens(6, {token(3, 2, 50)});
  machine->stop(SequenceId(3), 2);
  hashes(a, 3, {0});
  control.lose(b);
  EXPECT_EQ(lost->log, "admitted token50 hashes1 ") << "its text is complete";
  EXPECT_EQ(machine->status().running, 0u);
}

TEST_F(CoordinatorTest, ABreachOfOrderEndsThePipelineOnce) {
  serve();
  const auto one = submit(40);
  tokens(0, {token(1, 2, 50)});
  tokens(0, {token(1, 2, 50)});
  EXPECT_FALSE(machine->status().ready);
  EXPECT_NE(machine->status().missing.find("the answer to step 0 came after"), std::string::npos)
      << machine->status().missing;
  tokens(1, {token(1, 3, 51)});
  EXPECT_EQ(one->log, "admitted token50 ") << "nothing of a pipeline that is over counts";
  for (int i = 0; i < 480; ++i) {  // workers that say nothing are waited for
    clock.advance(milliseconds(50));
    machine->on_timer();
  }
  EXPECT_EQ(one->log, "admitted token50 unavailable ");
}

TEST_F(CoordinatorTest, ASubmitSurvivesAFullSendQueue) {
  serve();
  data.full.insert(first);
  const auto one = submit(40);
  const std::size_t before = data.sent[first].size();
  machine->on_timer();
  EXPECT_EQ(data.sent[first].size(), before);
  data.full.clear();
  machine->on_timer();
  EXPECT_EQ(data.sent[first].size(), before + 1);
  EXPECT_EQ(data.sent[first].back().type, FrameType::kSubmit);
}

}  // namespace
}  // namespace hearth::coordinator
