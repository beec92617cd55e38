#include "coordinator/machine/model_switch.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What the tests see and set of the coordinators of the current model, of which there is one at a
// time, or of a model beside it.
struct World {
  std::uint32_t model = 0;
  bool alive = false;
  bool ready = false;
  bool settled = true;  // its receipts
  bool may_come = true;
  bool retired = false;
  bool winds_down = false;
  std::string missing = "no workers";
  std::vector<std::uint32_t> loaded;
  std::map<std::uint64_t, Submission> running;
  std::vector<std::uint64_t> cancelled;
  std::vector<std::string> rosters;
  std::vector<std::string> ordered;  // nodes
};

class OneModel final : public Coordinator {
 public:
  OneModel(World& world, Numbers& numbers) : world_(world), numbers_(numbers) {
    EXPECT_TRUE(world.running.empty()) << "a coordinator was replaced that had work";
    EXPECT_FALSE(world.alive) << "a model has one coordinator at a time";
    world_.alive = true;
    world_.retired = world_.ready = world_.winds_down = false;
  }
  ~OneModel() override {
    EXPECT_TRUE(world_.running.empty()) << "a coordinator was destroyed that had work";
    world_.alive = false;
  }
  void on_timer() override { EXPECT_FALSE(world_.retired); }
  SubmitAnswer submit(std::vector<Submission> sequences) override {
    EXPECT_FALSE(world_.winds_down) << "a request began while the model was to be unloaded";
    SubmitAnswer answer;
    std::vector<SequenceId> ids;
    for (Submission& one : sequences) {
      EXPECT_EQ(one.request.model, world_.model) << "a request reached another model";
      answer.max_tokens.push_back(one.request.sampling.max_tokens);
      ids.emplace_back(numbers_.sequence);
      world_.running.emplace(numbers_.sequence++, std::move(one));
    }
    answer.sequences = std::move(ids);
    return answer;
  }
  void cancel(SequenceId sequence) override {
    if (world_.running.erase(sequence.value) > 0) world_.cancelled.push_back(sequence.value);
  }
  void stop(SequenceId sequence, Position /*position*/) override { cancel(sequence); }
  SwarmStatus status() const override {
    SwarmStatus status;
    status.ready = world_.ready;
    status.missing = world_.missing;
    status.may_come = world_.may_come;
    status.running = static_cast<std::uint32_t>(world_.running.size());
    status.admitted_total = 1;
    status.nodes.emplace_back().name = "of " + std::to_string(world_.model);
    status.pipelines.emplace_back();
    status.prefix_queries_total = 5;
    status.prefix_hits_total = 3;
    status.drafted_total[1] = 4;
    status.accepted_total[1] = 2;
    return status;
  }
  void publish_roster(Bytes roster) override { world_.rosters.emplace_back(as_text(roster)); }
  void publish_model(const Hash256& /*model*/) override {}
  Result<std::string> route(const std::string& /*from*/, const std::string& to) override {
    return to;
  }
  Status order(const std::string& node, const std::optional<Away>& /*away*/) override {
    world_.ordered.push_back(node);
    return ok_status();
  }
  bool wind_down(bool wanted) override {
    world_.winds_down = wanted;
    return wanted && world_.running.empty() && world_.settled;
  }
  void retire() override { world_.retired = true; }

 private:
  World& world_;
  Numbers& numbers_;
};

struct Client final : SequenceEvents {
  void on_admitted() override {}
  void on_scores(std::vector<SampledToken> told) override { scores += told.size(); }
  void on_embedding(std::vector<float> told) override { values += told.size(); }
  void on_token(const SampledToken& /*token*/) override { ++tokens; }
  void on_hashes(std::vector<RowHash> /*hashes*/) override {}
  void on_error(const Error& why) override { error = why.message; }
  void on_loading(const LoadProgress& now) override { progress.push_back(now); }
  SequenceId id;
  int tokens = 0;
  std::size_t scores = 0;
  std::size_t values = 0;
  std::string error;
  std::vector<LoadProgress> progress;
};

struct ModelSwitchTest : ::testing::Test {
  ModelSwitch::Options options() {
    ModelSwitch::Options out;
    out.models = {{"small", 64}, {"large", 128}, {"other", 128}, {"fourth", 128}};
    out.load = [this](std::uint32_t model) {
      world.model = model;
      world.loaded.push_back(model);
      return std::make_unique<OneModel>(world, numbers);
    };
    out.room_beside = [this](std::uint32_t model, const SwarmStatus& now) {
      EXPECT_EQ(now.nodes.size(), 1U) << "of the current model";
      return room.contains(model) ? room[model] : RoomBeside::kImpossible;
    };
    out.load_beside = [this](std::uint32_t model) -> Result<std::unique_ptr<Coordinator>> {
      if (no_port) return Error{ErrorCode::kIo, "no port is free"};
      beside[model].model = model;
      beside[model].loaded.push_back(model);
      return std::unique_ptr<Coordinator>(std::make_unique<OneModel>(beside[model], numbers));
    };
    out.unload_beside = [this](std::uint32_t model) {
      EXPECT_FALSE(beside[model].alive);
      unloaded.push_back(model);
    };
    out.fits_in_place = [this](std::uint32_t model, const SwarmStatus&) {
      return in_place.contains(model);
    };
    out.why_no_file = [this](std::uint32_t model) {
      return gone.contains(model) ? std::string("there is no file") : "";
    };
    out.most_loaded = most_loaded;
    out.hashed = [this] { return hashed; };
    out.why_no_room = [this](std::uint32_t model, const SwarmStatus&) {
      return too_large.contains(model) ? std::string("it needs 9 GB and there are 4") : "";
    };
    return out;
  }
  std::shared_ptr<Client> ask(std::uint32_t model, const std::string& key = "",
                              std::size_t sequences = 1) {
    std::vector<Submission> all;
    const auto client = std::make_shared<Client>();
    for (std::size_t i = 0; i < sequences; ++i) {
      GenerateRequest request;
      request.prompt = {1};
      request.sampling.max_tokens = 4;
      request.policy.owner = key;
      request.model = model;
      all.push_back({std::move(request), client});
    }
    answer = models.submit(std::move(all));
    if (answer.sequences.ok()) client->id = answer.sequences->front();
    return client;
  }
  void tick(Duration time = milliseconds(50)) {
    clock.advance(time);
    models.on_timer();
  }
  void finish_all() { finish(world); }
  static void finish(World& of) {
    auto running = std::exchange(of.running, {});
    for (auto& [id, one] : running) {
      SampledToken token;
      token.finish = FinishReason::kStop;
      one.events->on_token(token);
    }
  }
  // The model comes up after `time`.
  void come_up(Duration time = seconds(1)) {
    clock.advance(time);
    world.ready = true;
    models.on_timer();
  }
  std::string state(std::uint32_t model) { return models.status().models[model].state; }

  // `model` is loaded beside the current one, and ready.
  void come_up_beside(std::uint32_t model) {
    tick();
    ASSERT_TRUE(beside[model].alive);
    clock.advance(seconds(1));
    beside[model].ready = true;
    models.on_timer();
  }

  hearth::testing::FakeClock clock;
  Numbers numbers;
  World world;
  std::map<std::uint32_t, World> beside;
  std::map<std::uint32_t, RoomBeside> room;  // otherwise: kImpossible
  std::vector<std::uint32_t> unloaded;       // beside the current one
  std::uint32_t most_loaded = 3;
  bool no_port = false;
  std::set<std::uint32_t> too_large;
  std::set<std::uint32_t> gone;      // their files are
  std::set<std::uint32_t> in_place;  // they fit in place of the current model
  std::uint64_t hashed = 0;
  SubmitAnswer answer;
  ModelSwitch models{options(), clock};
};

TEST_F(ModelSwitchTest, LoadsTheFirstModelAndPassesItsRequestsOn) {
  EXPECT_EQ(world.loaded, (std::vector<std::uint32_t>{0}));
  const auto early = ask(0);
  EXPECT_TRUE(world.running.empty()) << "it waits until the model is loaded";
  tick();
  ASSERT_EQ(early->progress.size(), 1U);
  EXPECT_EQ(early->progress[0].model, "small");
  EXPECT_TRUE(early->progress[0].loading);
  EXPECT_EQ(state(0), "loading");
  come_up();
  EXPECT_EQ(world.running.size(), 1U);
  const auto next = ask(0);
  EXPECT_EQ(world.running.size(), 2U);
  EXPECT_TRUE(world.running.contains(next->id.value)) << "nothing stands between";
  finish_all();
  EXPECT_EQ(early->tokens, 1);
  EXPECT_EQ(state(0), "ready");
  EXPECT_EQ(state(1), "unloaded");
}

TEST_F(ModelSwitchTest, ARequestForAnotherModelLoadsItWhenTheFirstHasFinished) {
  come_up();
  const auto first = ask(0);
  tick(seconds(5));
  const auto second = ask(1);
  tick();
  EXPECT_EQ(state(1), "waiting");
  EXPECT_FALSE(second->progress.at(0).loading);
  const auto late = ask(0);
  EXPECT_EQ(world.running.size(), 1U) << "its turn is over: it waits for the next one";
  for (int i = 0; i < 100; ++i) tick(seconds(10));
  EXPECT_EQ(world.loaded.size(), 1U) << "a running request is never ended for another model";
  finish_all();
  EXPECT_EQ(first->tokens, 1);
  world.settled = false;
  tick();
  EXPECT_EQ(world.loaded.size(), 1U) << "its receipts come first";
  world.settled = true;
  tick();
  EXPECT_EQ(world.loaded, (std::vector<std::uint32_t>{0, 1}));
  come_up();
  ASSERT_EQ(world.running.size(), 1U);
  world.running.begin()->second.events->on_scores(std::vector<SampledToken>(3));
  EXPECT_EQ(second->scores, 3U);
  world.running.begin()->second.events->on_embedding({0.5F, 0.5F});
  EXPECT_EQ(second->values, 2U);
  finish_all();
  EXPECT_EQ(second->tokens, 1);
  EXPECT_EQ(late->tokens, 0);
  tick(seconds(2));
  EXPECT_EQ(world.loaded, (std::vector<std::uint32_t>{0, 1, 0}));
  come_up();
  finish_all();
  EXPECT_EQ(late->tokens, 1);
}

TEST_F(ModelSwitchTest, AModelStaysAsLongAsItsLoadingTook) {
  come_up();
  tick(seconds(5));
  ask(1);
  tick();
  come_up(seconds(20));
  finish_all();
  ask(0);
  for (int i = 0; i < 19; ++i) {
    tick(seconds(1));
    EXPECT_EQ(world.model, 1U) << "after " << i + 1 << " s";
    const auto more = ask(1);
    EXPECT_EQ(world.running.size(), 1U) << "it takes requests in its turn";
    finish_all();
    EXPECT_EQ(more->tokens, 1);
  }
  tick(seconds(2));
  EXPECT_EQ(world.model, 0U);
}

TEST_F(ModelSwitchTest, TheModelWhoseRequestWaitsLongestIsNext) {
  come_up();
  ask(0);
  tick(seconds(5));
  ask(2);
  tick(seconds(1));
  ask(1);
  ask(1);
  finish_all();
  tick();
  EXPECT_EQ(world.model, 2U);
  ask(2);
  ask(0);
  come_up();
  finish_all();
  tick(seconds(5));
  EXPECT_EQ(world.model, 1U);
}

TEST_F(ModelSwitchTest, AModelWithoutRoomIsRefusedBeforeAnythingIsUnloaded) {
  come_up();
  too_large = {1};
  tick(seconds(5));
  ask(1);
  ASSERT_FALSE(answer.sequences.ok());
  EXPECT_EQ(answer.sequences.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(answer.sequences.error().message,
            "the model 'large' cannot be loaded: it needs 9 GB and there are 4");
  tick();
  EXPECT_EQ(world.loaded.size(), 1U);
}

TEST_F(ModelSwitchTest, AModelThatDoesNotComeUpEndsItsRequestsAndGivesWay) {
  come_up();
  tick(seconds(5));
  const auto doomed = ask(1);
  tick();
  ASSERT_EQ(world.model, 1U);
  world.may_come = false;
  world.missing = "no pipeline serves: 0 workers are registered";
  tick();
  tick(seconds(59));
  EXPECT_EQ(doomed->error, "");
  tick(seconds(2));
  EXPECT_EQ(doomed->error,
            "the model 'large' could not be loaded: no pipeline serves: 0 workers are registered");
  EXPECT_EQ(world.model, 0U) << "the model that was served before comes back";
  EXPECT_EQ(state(1), "failed");
  ask(1);
  EXPECT_FALSE(answer.sequences.ok()) << "it is not tried again at once";
  come_up();
  clock.advance(ModelSwitch::kFailedFor);
  ask(1);
  EXPECT_TRUE(answer.sequences.ok());
}

TEST_F(ModelSwitchTest, WhatHelpsALoadIsWaitedFor) {
  come_up();
  tick(seconds(5));
  const auto patient = ask(1);
  tick();
  world.may_come = false;
  for (int i = 0; i < 10; ++i) {
    world.missing = "stage " + std::to_string(i);  // something happens
    tick(seconds(50));
    ++hashed;
    tick(seconds(50));
  }
  EXPECT_EQ(patient->error, "");
  come_up();
  EXPECT_EQ(world.running.size(), 1U);
  finish_all();
}

TEST_F(ModelSwitchTest, ARequestThatItsClientGivesUpIsNotLoadedFor) {
  come_up();
  tick(seconds(5));
  const auto gone = ask(1);
  models.cancel(gone->id);
  tick(seconds(5));
  EXPECT_EQ(world.loaded.size(), 1U);
  ask(0);  // keeps the model busy
  const auto leaves = ask(1);
  tick(seconds(5));
  const auto held = ask(0);
  EXPECT_EQ(world.running.size(), 1U);
  models.cancel(leaves->id);
  tick();
  EXPECT_EQ(world.running.size(), 2U) << "no request waits for another model: its turn goes on";
  EXPECT_FALSE(world.winds_down);
  models.cancel(held->id);
  EXPECT_EQ(world.running.size(), 1U) << "one that waited is cancelled where it runs";
  models.cancel(held->id);
  finish_all();
}

TEST_F(ModelSwitchTest, OneKeyNeverFillsTheQueue) {
  come_up();
  ask(0);
  std::size_t taken = 0;
  for (ask(1, "greedy"); answer.sequences.ok(); ask(1, "greedy")) ++taken;
  EXPECT_EQ(answer.sequences.error().code, ErrorCode::kNoCapacity);
  EXPECT_GT(taken, limits::kWaitingSequences / 2);
  EXPECT_LT(taken, limits::kWaitingSequences);
  ask(2, "modest");
  EXPECT_TRUE(answer.sequences.ok());
  ask(2, "modest", limits::kWaitingSequences);
  EXPECT_FALSE(answer.sequences.ok()) << "a request is taken whole or not at all";
  EXPECT_EQ(models.status().waiting, taken + 1);
  finish_all();
}

TEST_F(ModelSwitchTest, TheNextCoordinatorGoesOnWhereTheLastOneWas) {
  come_up();
  tick(seconds(5));
  models.publish_roster(Bytes(as_bytes("roster").begin(), as_bytes("roster").end()));
  EXPECT_TRUE(models.order("desk", std::nullopt).ok());
  EXPECT_EQ(world.ordered, (std::vector<std::string>{"desk"}));
  const auto client = ask(1);
  tick();
  EXPECT_EQ(world.rosters, (std::vector<std::string>{"roster", "roster"}));
  come_up();
  EXPECT_EQ(models.status().admitted_total, 2U) << "of both coordinators";
  EXPECT_EQ(models.status().prefix_queries_total, 10U);
  EXPECT_EQ(models.status().prefix_hits_total, 6U);
  EXPECT_EQ(models.status().drafted_total[1], 8U);
  EXPECT_EQ(models.status().accepted_total[1], 4U);
  finish_all();
}

TEST_F(ModelSwitchTest, ProgressIsToldOnceASecondAtMost) {
  come_up();
  tick(seconds(5));
  const auto client = ask(1);
  for (int i = 0; i < 100; ++i) tick(milliseconds(50));
  EXPECT_LE(client->progress.size(), 6U);
  EXPECT_GE(client->progress.size(), 1U);
  EXPECT_TRUE(client->progress.back().loading);
}

TEST_F(ModelSwitchTest, AModelThatFitsIsLoadedBesideTheCurrentOne) {
  come_up();
  const auto first = ask(0);
  room[1] = RoomBeside::kNow;
  const auto second = ask(1);
  EXPECT_GE(second->id.value, std::uint64_t{1} << 63) << "it waits";
  come_up_beside(1);
  EXPECT_EQ(beside[1].running.size(), 1U);
  EXPECT_EQ(world.running.size(), 1U) << "nothing of the current model ends";
  EXPECT_EQ(world.loaded.size(), 1U);
  const auto third = ask(1);
  EXPECT_TRUE(beside[1].running.contains(third->id.value)) << "nothing stands between";
  const SwarmStatus now = models.status();
  EXPECT_EQ(now.model, 0U);
  EXPECT_EQ(now.models[0].state, "ready");
  EXPECT_EQ(now.models[1].state, "ready");
  EXPECT_EQ(now.models[2].state, "unloaded");
  EXPECT_EQ(now.running, 3U);
  EXPECT_EQ(now.admitted_total, 2U);
  ASSERT_EQ(now.nodes.size(), 2U);
  EXPECT_EQ(now.nodes[1].name, "of 1");
  EXPECT_EQ(now.nodes[1].model, 1U);
  ASSERT_EQ(now.pipelines.size(), 2U);
  EXPECT_EQ(now.pipelines[1].model, 1U);

  models.cancel(third->id);
  EXPECT_EQ(beside[1].cancelled, (std::vector<std::uint64_t>{third->id.value}));
  models.cancel(second->id);
  EXPECT_TRUE(beside[1].running.empty());
  EXPECT_TRUE(world.cancelled.empty());
  EXPECT_TRUE(models.order("of 1", std::nullopt).ok());
  EXPECT_EQ(beside[1].ordered.size(), 1U);
  EXPECT_TRUE(world.ordered.empty());
  models.publish_roster(Bytes(as_bytes("roster").begin(), as_bytes("roster").end()));
  EXPECT_EQ(beside[1].rosters.size(), 1U);
  EXPECT_EQ(world.rosters.size(), 1U);
  finish_all();
  EXPECT_EQ(first->tokens, 1);
}

TEST_F(ModelSwitchTest, TheModelThatWasIdleLongestMakesRoom) {
  come_up();
  room[1] = RoomBeside::kNow;
  ask(1);
  come_up_beside(1);
  tick(seconds(5));
  room[2] = RoomBeside::kTaken;
  const auto wants = ask(2);
  tick();
  EXPECT_TRUE(beside[1].winds_down);
  EXPECT_TRUE(beside[1].alive) << "a request runs";
  const auto late = ask(1);
  EXPECT_EQ(beside[1].running.size(), 1U) << "it waits for the model's next turn";
  for (int i = 0; i < 5; ++i) tick(seconds(10));
  EXPECT_EQ(world.loaded.size(), 1U) << "the current model stays";
  finish(beside[1]);
  tick();
  EXPECT_FALSE(beside[1].alive);
  EXPECT_EQ(unloaded, (std::vector<std::uint32_t>{1}));
  room[1] = room[2] = RoomBeside::kSoon;  // the workers of the other one end
  tick();
  EXPECT_FALSE(beside[2].alive);
  room[2] = RoomBeside::kNow;
  room[1] = RoomBeside::kTaken;
  come_up_beside(2);
  EXPECT_EQ(beside[2].running.size(), 1U);
  finish(beside[2]);
  EXPECT_EQ(wants->tokens, 1);
  tick(seconds(2));  // its turn is over, and the request for the first one still waits
  EXPECT_FALSE(beside[2].alive);
  room[1] = RoomBeside::kNow;
  come_up_beside(1);
  finish(beside[1]);
  EXPECT_EQ(late->tokens, 1);
}

TEST_F(ModelSwitchTest, AModelKeepsItsPlaceBesideWhenTheOtherRequestIsGone) {
  come_up();
  room[1] = RoomBeside::kNow;
  ask(1);
  come_up_beside(1);
  tick(seconds(5));
  room[2] = RoomBeside::kTaken;
  const auto wants = ask(2);
  tick();
  const auto late = ask(1);
  models.cancel(wants->id);
  tick();
  EXPECT_FALSE(beside[1].winds_down);
  EXPECT_EQ(beside[1].running.size(), 2U) << "it takes requests again";
  finish(beside[1]);
  EXPECT_EQ(late->tokens, 1);
}

TEST_F(ModelSwitchTest, AModelThatDoesNotFitBesideTakesTheCurrentOnesPlace) {
  come_up();
  room[1] = RoomBeside::kNow;
  ask(1);
  come_up_beside(1);
  finish(beside[1]);
  tick(seconds(5));
  const auto large = ask(2);
  tick();
  EXPECT_EQ(world.loaded.size(), 1U);
  tick();
  EXPECT_FALSE(beside[1].alive) << "the next one may need all memory";
  EXPECT_EQ(world.loaded, (std::vector<std::uint32_t>{0, 2}));
  const auto again = ask(1);
  tick();
  EXPECT_FALSE(beside[1].alive) << "what loads has its memory first";
  come_up();
  finish_all();
  EXPECT_EQ(large->tokens, 1);
  come_up_beside(1);
  finish(beside[1]);
  EXPECT_EQ(again->tokens, 1);
  EXPECT_EQ(world.model, 2U);
}

TEST_F(ModelSwitchTest, WhatCannotBeLoadedBesideHasATurn) {
  come_up();
  room[1] = room[2] = RoomBeside::kNow;
  no_port = true;
  const auto first = ask(1);
  tick(seconds(5));
  tick();
  EXPECT_EQ(world.model, 1U);
  come_up();
  finish_all();
  EXPECT_EQ(first->tokens, 1);

  no_port = false;
  const auto second = ask(2);
  tick();
  ASSERT_TRUE(beside[2].alive);
  beside[2].may_come = false;
  tick();
  tick(ModelSwitch::kIdlePatience);
  EXPECT_FALSE(beside[2].alive);
  EXPECT_EQ(second->error, "");
  tick();
  tick();
  EXPECT_EQ(world.model, 2U);
  come_up();
  finish_all();
  EXPECT_EQ(second->tokens, 1);
}

TEST_F(ModelSwitchTest, NoMoreAreLoadedThanWasAsked) {
  come_up();
  room[1] = room[2] = room[3] = RoomBeside::kNow;
  for (const std::uint32_t model : {1U, 2U}) {
    ask(model);
    come_up_beside(model);
    finish(beside[model]);
  }
  EXPECT_EQ(models.status().nodes.size(), most_loaded);
  tick();
  ask(1);
  finish(beside[1]);  // it was idle for a shorter time
  tick(seconds(5));
  const auto third = ask(3);
  tick();
  EXPECT_EQ(unloaded, (std::vector<std::uint32_t>{2}));
  come_up_beside(3);
  finish(beside[3]);
  EXPECT_EQ(third->tokens, 1);
  EXPECT_EQ(models.status().nodes.size(), most_loaded);
}

// The current model answers a long request, and another one waits for its place.
TEST_F(ModelSwitchTest, NothingIsLoadedBesideAModelThatGivesWay) {
  come_up();
  const auto busy = ask(0);
  tick(seconds(5));
  const auto large = ask(2);
  tick();
  ASSERT_TRUE(world.winds_down);
  room[1] = RoomBeside::kNow;
  const auto small = ask(1);
  for (int i = 0; i < 100; ++i) tick(seconds(1));
  EXPECT_LE(beside[1].loaded.size(), 1U) << "it is loaded and unloaded again and again";
  finish_all();
  for (int i = 0; i < 3; ++i) tick();
  EXPECT_EQ(world.loaded, (std::vector<std::uint32_t>{0, 2}));
  come_up();
  finish_all();
  EXPECT_EQ(large->tokens, 1);
  come_up_beside(1);
  finish(beside[1]);
  EXPECT_EQ(small->tokens, 1);
}

TEST_F(ModelSwitchTest, RoomThatIsMadeForOneModelIsNotTakenByALaterRequest) {
  come_up();
  room[1] = RoomBeside::kNow;
  ask(1);
  come_up_beside(1);
  finish(beside[1]);
  tick(seconds(5));
  room[2] = RoomBeside::kTaken;
  const auto large = ask(2);
  tick();
  EXPECT_FALSE(beside[1].alive);
  const auto again = ask(1);
  room[2] = RoomBeside::kSoon;  // the workers of the small one end
  tick();
  EXPECT_FALSE(beside[1].alive) << "the older request's model has the room";
  room[1] = RoomBeside::kTaken;
  room[2] = RoomBeside::kNow;
  come_up_beside(2);
  finish(beside[2]);
  EXPECT_EQ(large->tokens, 1);
  tick(seconds(5));
  EXPECT_FALSE(beside[2].alive);
  room[1] = RoomBeside::kNow;
  come_up_beside(1);
  finish(beside[1]);
  EXPECT_EQ(again->tokens, 1);
}

TEST_F(ModelSwitchTest, AModelThatAnswersIsNotIdle) {
  come_up();
  room[1] = room[2] = RoomBeside::kNow;
  ask(1);
  come_up_beside(1);
  tick(seconds(5));
  ask(2);
  come_up_beside(2);
  finish(beside[2]);
  tick(seconds(5));
  room[3] = RoomBeside::kTaken;
  const auto third = ask(3);
  tick();
  EXPECT_TRUE(beside[1].alive) << "its request is the oldest, and runs";
  EXPECT_FALSE(beside[1].winds_down);
  EXPECT_FALSE(beside[2].alive);
  room[3] = RoomBeside::kNow;
  come_up_beside(3);
  finish(beside[3]);
  finish(beside[1]);
  EXPECT_EQ(third->tokens, 1);
}

TEST_F(ModelSwitchTest, TheCurrentModelGivesWayWhenItWasIdleLongest) {
  come_up();
  room[1] = RoomBeside::kNow;
  ask(1);
  come_up_beside(1);
  tick(seconds(5));
  room[2] = RoomBeside::kTaken;
  in_place = {2};
  const auto wants = ask(2);
  tick();
  EXPECT_EQ(world.loaded, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_TRUE(beside[1].alive) << "it answers";
  EXPECT_FALSE(beside[1].winds_down);
  come_up();
  finish_all();
  EXPECT_EQ(wants->tokens, 1);
  finish(beside[1]);
  EXPECT_EQ(state(0), "unloaded");
  EXPECT_EQ(state(1), "ready");
  EXPECT_EQ(state(2), "ready");
  tick(seconds(2));
  room[0] = RoomBeside::kTaken;
  in_place = {0};
  ask(2);
  tick();
  ask(0);
  tick();
  EXPECT_FALSE(beside[1].alive) << "the current model answers, and the other one was idle";
  EXPECT_EQ(world.model, 2U);
  finish_all();
}

TEST_F(ModelSwitchTest, AModelThatLoadsInPlaceAndIsNotWantedGivesWay) {
  come_up();
  room[1] = RoomBeside::kNow;
  ask(1);
  come_up_beside(1);
  finish(beside[1]);
  tick(seconds(5));
  ask(1);
  finish(beside[1]);
  room[2] = RoomBeside::kTaken;
  in_place = {2};
  const auto leaves = ask(2);
  tick();
  ASSERT_EQ(world.model, 2U);
  models.cancel(leaves->id);
  const auto large = ask(3);  // needs all
  for (int i = 0; i < 3; ++i) tick();
  EXPECT_FALSE(beside[1].alive);
  EXPECT_EQ(world.model, 3U);
  come_up();
  finish_all();
  EXPECT_EQ(large->tokens, 1);
}

TEST_F(ModelSwitchTest, AModelWhoseFileIsGoneIsRefusedBeforeAnythingIsUnloaded) {
  come_up();
  room[1] = RoomBeside::kNow;
  gone = {1, 2};
  tick(seconds(5));
  for (const std::uint32_t model : {1U, 2U}) {
    ask(model);
    ASSERT_FALSE(answer.sequences.ok());
    EXPECT_EQ(answer.sequences.error().code, ErrorCode::kUnavailable);
  }
  EXPECT_EQ(answer.sequences.error().message,
            "the model 'other' cannot be loaded: there is no file");
  tick();
  EXPECT_EQ(world.loaded.size(), 1U);
  EXPECT_TRUE(beside[1].loaded.empty());
}

TEST_F(ModelSwitchTest, TheStatusSaysWhatAModelBesideMisses) {
  come_up();
  room[1] = RoomBeside::kNow;
  const auto client = ask(1);
  tick();
  ASSERT_TRUE(beside[1].alive);
  EXPECT_EQ(state(1), "loading");
  EXPECT_EQ(models.status().models[1].why, "no workers");
  clock.advance(seconds(1));
  beside[1].ready = true;
  tick();
  EXPECT_EQ(models.status().models[1].why, "");
  finish(beside[1]);
}

// Its worker ends while it loads, and is started again, so that the signs change.
TEST_F(ModelSwitchTest, ALoadThatBeginsAgainAndAgainIsNoProgress) {
  come_up();
  tick(seconds(5));
  const auto doomed = ask(1);
  tick();
  ASSERT_EQ(world.model, 1U);
  world.may_come = false;
  for (int i = 0; i < 100 && doomed->error.empty(); ++i) {
    world.missing = i % 2 == 0 ? "no workers" : "a worker loads";
    tick(seconds(5));
  }
  EXPECT_NE(doomed->error, "");
  come_up();
}

}  // namespace
}  // namespace hearth::coordinator
