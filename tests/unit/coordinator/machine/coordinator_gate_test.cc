#include "coordinator/machine/coordinator_gate.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace hearth::coordinator {
namespace {

struct FakeCoordinator final : Coordinator {
  void on_timer() override {}
  SubmitAnswer submit(std::vector<Submission> submitted) override {
    SubmitAnswer answer;
    std::vector<SequenceId> ids;
    for (Submission& one : submitted) {
      if (one.request.prompt.empty()) {
        answer.sequences = Error::invalid("an empty prompt");
        return answer;
      }
      sequences.push_back(std::move(one.events));
      ids.emplace_back(sequences.size());
    }
    answer.sequences = std::move(ids);
    return answer;
  }
  void publish_roster(Bytes /*roster*/) override {}
  void publish_model(const Hash256& /*model*/) override {}
  Result<std::string> route(const std::string& /*from*/, const std::string& to) override {
    return to;
  }
  Status order(const std::string& /*node*/, const std::optional<Away>& /*away*/) override {
    return ok_status();
  }
  bool wind_down(bool /*wanted*/) override { return true; }
  void retire() override {}
  void cancel(SequenceId sequence) override { cancelled.push_back(sequence.value); }
  void stop(SequenceId sequence, Position position) override {
    stopped.emplace_back(sequence.value, position);
  }
  SwarmStatus status() const override {
    SwarmStatus status;
    status.running = 42;
    return status;
  }
  std::vector<std::shared_ptr<SequenceEvents>> sequences;
  std::vector<std::uint64_t> cancelled;
  std::vector<std::pair<std::uint64_t, Position>> stopped;
};

struct Seen final : SequenceEvents {
  void on_admitted() override { ++admitted; }
  void on_token(const SampledToken& token) override { tokens.push_back(token.token); }
  void on_hashes(std::vector<RowHash> hashes) override { hash_rows += hashes.size(); }
  void on_error(const Error& error) override { errors.push_back(error.message); }
  void on_loading(const LoadProgress& progress) override { loading.push_back(progress.model); }
  void on_cached(std::uint32_t positions) override { cached = positions; }
  void on_scores(std::vector<SampledToken> some) override { scores += some.size(); }
  void on_embedding(std::vector<float> values) override { embedding = std::move(values); }
  void on_drafts(const DraftCounts& counts) override { drafted += counts[0].drafted; }
  void on_audit(const AuditOutcome&) override { ++audits; }
  int admitted = 0;
  std::uint32_t cached = 0;
  std::size_t scores = 0;
  std::vector<float> embedding;
  std::uint32_t drafted = 0;
  int audits = 0;
  std::vector<std::string> loading;
  std::size_t hash_rows = 0;
  std::vector<TokenId> tokens;
  std::vector<std::string> errors;
};

class CoordinatorGateTest : public ::testing::Test {
 protected:
  Result<SequenceId> submit(const std::shared_ptr<Seen>& seen, std::vector<TokenId> prompt = {1}) {
    std::optional<SubmitAnswer> answer;
    gate_.submit({{GenerateRequest{std::move(prompt), {}, false}, seen}},
                 [&](SubmitAnswer given) { answer = std::move(given); });
    EXPECT_FALSE(answer) << "answered inside the call";
    run();
    if (!answer->sequences.ok()) return answer->sequences.error();
    return answer->sequences->front();
  }
  void run() {
    while (!posted_.empty()) {
      const auto work = std::move(posted_.front());
      posted_.pop_front();
      work();
    }
  }
  static SampledToken token(TokenId id, FinishReason finish = FinishReason::kNone) {
    SampledToken sampled;
    sampled.token = id;
    sampled.finish = finish;
    return sampled;
  }

  std::deque<std::function<void()>> posted_;
  FakeCoordinator coordinator_;
  CoordinatorGate gate_{coordinator_,
                        [this](std::function<void()> work) { posted_.push_back(std::move(work)); }};
};

TEST_F(CoordinatorGateTest, PassesEverythingOn) {
  const auto seen = std::make_shared<Seen>();
  ASSERT_TRUE(submit(seen));
  SequenceEvents& events = *coordinator_.sequences[0];
  events.on_loading({"small"});
  EXPECT_EQ(seen->loading, (std::vector<std::string>{"small"}));
  events.on_admitted();
  events.on_cached(32);
  events.on_scores(std::vector<SampledToken>(5));
  events.on_embedding({0.5F});
  events.on_drafts({{{4, 2}, {}}});
  events.on_token(token(7));
  events.on_hashes(std::vector<RowHash>(3));
  events.on_token(token(8, FinishReason::kStop));
  events.on_audit({});
  EXPECT_EQ(seen->admitted, 1);
  EXPECT_EQ(seen->cached, 32U);
  EXPECT_EQ(seen->scores, 5U);
  EXPECT_EQ(seen->embedding, std::vector<float>{0.5F});
  EXPECT_EQ(seen->drafted, 4U);
  EXPECT_EQ(seen->audits, 1);
  EXPECT_EQ(seen->tokens, (std::vector<TokenId>{7, 8}));
  EXPECT_EQ(seen->hash_rows, 3u);
  EXPECT_TRUE(seen->errors.empty());
  SwarmStatus status;
  gate_.status([&](SwarmStatus s) { status = std::move(s); });
  run();
  EXPECT_EQ(status.running, 42u);
}

TEST_F(CoordinatorGateTest, PassesARefusalOn) {
  const auto refused = submit(std::make_shared<Seen>(), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidInput);
}

TEST_F(CoordinatorGateTest, EndAllEndsExactlyWhatRuns) {
  const auto running = std::make_shared<Seen>();
  const auto finished = std::make_shared<Seen>();
  const auto failed = std::make_shared<Seen>();
  const auto cancelled = std::make_shared<Seen>();
  for (const auto& seen : {running, finished, failed, cancelled}) ASSERT_TRUE(submit(seen));
  coordinator_.sequences[1]->on_token(token(1, FinishReason::kLength));
  coordinator_.sequences[2]->on_error(Error::invalid("lost"));
  gate_.cancel(SequenceId(4));
  run();
  gate_.end_all({ErrorCode::kUnavailable, "over"});
  EXPECT_EQ(running->errors, (std::vector<std::string>{"over"}));
  EXPECT_TRUE(finished->errors.empty());
  EXPECT_EQ(failed->errors, (std::vector<std::string>{"lost"}));
  EXPECT_TRUE(cancelled->errors.empty());
  EXPECT_EQ(coordinator_.cancelled, (std::vector<std::uint64_t>{4, 1}));
}

TEST_F(CoordinatorGateTest, AStoppedSequenceIsForgottenWithItsHashes) {
  const auto seen = std::make_shared<Seen>();
  const auto unhashed = std::make_shared<Seen>();
  for (const auto& each : {seen, unhashed}) ASSERT_TRUE(submit(each));
  for (const std::uint64_t id : {1, 2}) gate_.stop(SequenceId(id), 7);
  run();
  EXPECT_EQ(coordinator_.stopped,
            (std::vector<std::pair<std::uint64_t, Position>>{{1, 7}, {2, 7}}));
  coordinator_.sequences[0]->on_hashes(std::vector<RowHash>(5));
  EXPECT_EQ(seen->hash_rows, 5u);
  gate_.end_all({ErrorCode::kUnavailable, "over"});
  EXPECT_TRUE(seen->errors.empty());
  EXPECT_EQ(unhashed->errors.size(), 1u) << "its hashes never came";
}

TEST_F(CoordinatorGateTest, NothingIsAcceptedAfterEndAll) {
  gate_.end_all({ErrorCode::kUnavailable, "over"});
  const auto refused = submit(std::make_shared<Seen>());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "over");
  EXPECT_TRUE(coordinator_.sequences.empty());
}

}  // namespace
}  // namespace hearth::coordinator
