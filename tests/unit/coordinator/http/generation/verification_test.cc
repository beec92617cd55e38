#include "coordinator/http/generation/verification.h"

#include <gtest/gtest.h>

#include <deque>
#include <utility>

#include "coordinator/http/generation/generation.h"
#include "tests/unit/coordinator/http/generation/played.h"
#include "tests/unit/coordinator/http/routes/served_model.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator::http {
namespace {

using Kind = AuditOutcome::Kind;

class Ledger final : public LedgerView {
 public:
  std::string fault() const override { return ""; }
};

PipelineStatus pipeline(std::uint64_t epoch, std::vector<std::string> nodes, ledger::Level level,
                        std::vector<Epoch> twins) {
  PipelineStatus out;
  out.epoch = Epoch(epoch);
  out.state = "serving";
  out.nodes = std::move(nodes);
  out.kv_pages = 1000;
  out.kv_page_tokens = 16;
  out.level = level;
  out.twins = std::move(twins);
  return out;
}

SwarmStatus two_alike() {
  SwarmStatus swarm;
  swarm.ready = true;
  swarm.audits = AuditStatus{};
  swarm.audits->mode = AuditMode::kSpot;
  swarm.pipelines = {pipeline(1, {"a"}, ledger::Level::kRegular, {Epoch(2)}),
                     pipeline(2, {"b"}, ledger::Level::kProbation, {Epoch(1)})};
  return swarm;
}

// One stream of two tokens, or one answer, of a swarm of two pipelines.
struct VerifiedAnswer : ::testing::Test {
  VerifiedAnswer() {
    HttpOptions options;
    options.ledger = &ledger;
    api = std::make_shared<Api>(
        std::move(options), with_syntax(tiny_model().served), port, clock, random,
        [this](ThreadGate::Task task) { tasks.push_back(std::move(task)); },
        [](ThreadGate::Task) {});
    api->later = [this](Duration time, ThreadGate::Task task) { bounds.emplace_back(time, task); };
    port.swarm = two_alike();
  }
  void pump() {
    while (!tasks.empty()) {
      const ThreadGate::Task task = std::move(tasks.front());
      tasks.pop_front();
      task();
    }
  }
  static ServedModel with_syntax(ServedModel served) {
    served.syntax = std::make_shared<model::ChatSyntax>();
    return served;
  }
  void ask(bool stream, Verify verify = Verify::kFull, bool chat = false) {
    GenerationInput input;
    input.request.chat = chat;
    input.request.stream = stream;
    input.request.policy.verify = verify;
    input.request.return_token_ids = true;
    input.request.ignore_eos = true;
    input.prompts = {std::vector<TokenId>(3, 70)};
    HttpRequest http;
    http.arrived = clock.now();
    Generation::start(api, client, http, std::move(input));
    pump();
  }
  void compute() {
    port.submitted[0].done(SequenceId(1));
    generate();
  }
  void generate() {
    port.submitted[0].events->on_admitted();
    for (std::uint32_t i = 0; i < 2; ++i) {
      SampledToken token;
      token.sequence = SequenceId(1);
      token.position = 3 + i;
      token.token = static_cast<TokenId>(70 + i);
      token.finish = i == 1 ? FinishReason::kLength : FinishReason::kNone;
      port.submitted[0].events->on_token(token);
    }
    pump();
  }
  void audit(Kind kind, std::vector<TokenId> right = {}, bool awaits = false, bool cut = false) {
    AuditOutcome outcome;
    outcome.is_cut = cut;
    outcome.kind = kind;
    outcome.awaits_verdict = awaits;
    outcome.windows = {{12, 0, 0, 1}};
    outcome.entry = 13;
    outcome.stage = 1;
    outcome.answer = std::move(right);
    outcome.why = "no auditor came";
    port.submitted[0].events->on_audit(outcome);
    pump();
  }
  // The `hearth` of the events that have no choice.
  std::vector<Json> said() {
    std::vector<Json> out;
    for (const Json& event : client->events()) {
      if (event.contains("hearth") && event["choices"].empty()) out.push_back(event["hearth"]);
    }
    return out;
  }
  Json answer() const { return Json::parse(client->response->body); }

  hearth::testing::FakeClock clock;
  SeededRandom random{1};
  PlayedPort port;
  Ledger ledger;
  std::deque<ThreadGate::Task> tasks;
  std::vector<std::pair<Duration, ThreadGate::Task>> bounds;
  std::shared_ptr<PlayedClient> client = std::make_shared<PlayedClient>();
  std::shared_ptr<Api> api;
};

TEST_F(VerifiedAnswer, AStreamEndsWhenAllItsWindowsWereComputedAgain) {
  ask(true);
  ASSERT_EQ(port.submitted.size(), 1u);
  EXPECT_EQ(port.submitted[0].request.policy.verify, Verify::kFull);
  compute();
  EXPECT_FALSE(client->done());
  const std::string told = client->content();
  EXPECT_FALSE(told.empty()) << "nothing is held back";
  audit(Kind::kAgreed);
  ASSERT_TRUE(client->done());
  EXPECT_EQ(client->content(), told);
  ASSERT_EQ(said().size(), 1u);
  EXPECT_EQ(said()[0]["verified"], Json::parse(R"({"asked": "full", "state": "verified",
      "windows": [{"choice": 0, "stage": 0, "window": 0, "entry": 12, "others": 1}]})"));
  audit(Kind::kDisputed);  // nothing more is said
}

TEST_F(VerifiedAnswer, TheRightAnswerOfAChatIsReadAsTheFalseOneWas) {
  const auto right = tiny_model().served.tokenizer->encode("<think>Hm.</think>Yes",
                                                           model::SpecialTokens::kText, false);
  ASSERT_TRUE(right.ok());
  ask(true, Verify::kFull, true);
  compute();
  audit(Kind::kFalse, *right);
  ASSERT_TRUE(client->done());
  const Json corrected = said().back()["corrected"];
  ASSERT_EQ(corrected.size(), 1u);
  EXPECT_EQ(corrected[0]["reasoning_content"], "Hm.");
  EXPECT_EQ(corrected[0]["text"], "Yes");
}

TEST_F(VerifiedAnswer, OneThatIsNoStreamComesWithItsReport) {
  ask(false);
  compute();
  EXPECT_FALSE(client->response);
  audit(Kind::kAgreed);
  ASSERT_TRUE(client->response);
  EXPECT_EQ(answer()["hearth"]["verified"]["state"], "verified");
}

TEST_F(VerifiedAnswer, ADisputeIsSaidAndTheVerdictWaitedFor) {
  ask(true);
  compute();
  audit(Kind::kDisputed, {}, true);
  EXPECT_FALSE(client->done());
  ASSERT_EQ(said().size(), 1u);
  EXPECT_EQ(said()[0]["verified"]["state"], "disputed");
  EXPECT_EQ(said()[0]["verified"]["disputed"],
            Json::parse(R"([{"choice": 0, "stage": 1, "window": 0, "entry": 13}])"));
  audit(Kind::kFalse, {70, 75, 76});
  ASSERT_TRUE(client->done());
  const Json last = said().back();
  EXPECT_EQ(last["verified"]["state"], "retracted");
  EXPECT_EQ(last["retracted"], Json::parse(R"([{"choice": 0, "from_token": 1, "stage": 1,
                                                "window": 0, "entry": 13}])"));
  ASSERT_EQ(last["corrected"].size(), 1u);
  EXPECT_EQ(last["corrected"][0]["token_ids"], Json::parse("[70, 75, 76]"));
  EXPECT_EQ(last["corrected"][0]["finish_reason"], "length");
}

TEST_F(VerifiedAnswer, ADisputeThatNobodyJudgesIsItsEnd) {
  ask(false);
  compute();
  audit(Kind::kDisputed);
  ASSERT_TRUE(client->response);
  EXPECT_EQ(answer()["hearth"]["verified"]["state"], "disputed");
  EXPECT_EQ(answer()["choices"][0]["token_ids"], Json::parse("[70, 71]"));
}

TEST_F(VerifiedAnswer, OneThatIsNoStreamIsTheRightOneAndSaysSo) {
  ask(false);
  compute();
  audit(Kind::kFalse, {70, 75, 76});
  ASSERT_TRUE(client->response);
  EXPECT_EQ(answer()["choices"][0]["token_ids"], Json::parse("[70, 75, 76]"));
  EXPECT_EQ(answer()["hearth"]["verified"]["state"], "retracted");
  EXPECT_EQ(answer()["hearth"]["retracted"][0]["entry"], 13);
}

TEST_F(VerifiedAnswer, AFalseWindowOfRightTokensChangesNoText) {
  ask(false);
  compute();
  audit(Kind::kFalse, {70, 71});
  EXPECT_EQ(answer()["choices"][0]["token_ids"], Json::parse("[70, 71]"));
  EXPECT_EQ(answer()["hearth"]["retracted"][0]["from_token"], nullptr);
  EXPECT_TRUE(answer()["hearth"]["corrected"].empty());
}

// The server has no memory for the whole model, and knows the first right token alone.
TEST_F(VerifiedAnswer, AFalseAnswerThatCannotBeCorrectedSaysFromWhere) {
  ask(false);
  compute();
  audit(Kind::kFalse, {70, 75}, false, true);
  ASSERT_TRUE(client->response);
  EXPECT_EQ(answer()["choices"][0]["token_ids"], Json::parse("[70, 71]"));
  EXPECT_EQ(answer()["hearth"]["retracted"][0]["from_token"], 1);
  EXPECT_TRUE(answer()["hearth"]["corrected"].empty());
}

TEST_F(VerifiedAnswer, TheWaitHasABound) {
  ask(true);
  compute();
  ASSERT_EQ(bounds.size(), 1u);
  EXPECT_EQ(bounds[0].first, std::chrono::seconds(api->options.timeouts.verify));
  bounds[0].second();
  pump();
  ASSERT_TRUE(client->done());
  EXPECT_EQ(said().back()["verified"]["state"], "unverified");
  EXPECT_NE(said().back()["verified"]["why"].get<std::string>().find("60 seconds"),
            std::string::npos);
}

TEST_F(VerifiedAnswer, WhatCannotBeVerifiedIsSaidAtOnceAndNotWaitedFor) {
  port.swarm.pipelines.pop_back();
  ask(true);
  port.submitted[0].done(SequenceId(1));
  pump();
  ASSERT_EQ(said().size(), 1u) << "before any token";
  EXPECT_EQ(said()[0]["verified"]["state"], "unverified");
  EXPECT_NE(said()[0]["verified"]["why"].get<std::string>().find("no second pipeline"),
            std::string::npos);
  generate();
  EXPECT_TRUE(client->done());
}

TEST_F(VerifiedAnswer, WhoHadNoAuditIsToldWhy) {
  ask(false);
  compute();
  audit(Kind::kUnaudited);
  EXPECT_EQ(answer()["hearth"]["verified"]["state"], "unverified");
  EXPECT_EQ(answer()["hearth"]["verified"]["why"], "no auditor came");
}

TEST_F(VerifiedAnswer, SpotWaitsForNothingAndNoneSaysNothing) {
  ask(false, Verify::kSpot);
  compute();
  ASSERT_TRUE(client->response);
  EXPECT_EQ(answer()["hearth"]["verified"],
            Json::parse(R"({"asked": "spot", "state": "by_draw"})"));
  client = std::make_shared<PlayedClient>();
  port.submitted.clear();
  ask(false, Verify::kNone);
  compute();
  EXPECT_FALSE(answer()["hearth"].contains("verified"));
}

TEST_F(VerifiedAnswer, ARefusalForALevelHasItsOwnCode) {
  GenerationInput input;
  input.request.chat = false;
  input.request.policy.min_level = ledger::Level::kVeteran;
  input.prompts = {std::vector<TokenId>(3, 70)};
  Generation::start(api, client, HttpRequest(), std::move(input));
  pump();
  EXPECT_EQ(port.submitted.at(0).request.policy.min_level, ledger::Level::kVeteran);
  port.submitted[0].done(Error{ErrorCode::kRefused, "below level veteran"});
  pump();
  EXPECT_EQ(client->response->status, 403u);
  EXPECT_EQ(answer()["error"]["code"], "below_min_level");
}

}  // namespace
}  // namespace hearth::coordinator::http
