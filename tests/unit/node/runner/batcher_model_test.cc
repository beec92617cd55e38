// A batcher with a draft model: when it asks, which drafts it sends, and how little a model without
// gain costs. There is no clock: the test states the time of steps and drafts.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include "base/limits.h"
#include "base/random.h"
#include "node/runner/batcher.h"

namespace hearth::node {
namespace {

constexpr Epoch kModelEpoch{3};
constexpr SequenceId kLone{1};
constexpr SequenceId kGuest{2};
constexpr Duration kMicro = std::chrono::microseconds(1);

// A stream with a random text, and a draft model whose accuracy the test sets.
class WithDraftModel : public ::testing::Test {
 protected:
  WithDraftModel() {
    SeededRandom random(5);
    for (int i = 0; i < 9000; ++i) text.push_back(static_cast<TokenId>(random.next() % 1'000'000));
  }

  static BatcherOptions options() {
    BatcherOptions out{kModelEpoch, 512, 128, 2, limits::kDraftRows};
    out.draft_model = true;
    return out;
  }

  SubmitMessage submit_of(SequenceId id, Position prompt, std::uint32_t max_tokens) const {
    SubmitMessage message;
    message.epoch = kModelEpoch;
    message.open.sequence = id;
    message.open.prompt_tokens = prompt;
    message.open.sampling.max_tokens = max_tokens;
    message.prompt = {text.begin(), text.begin() + prompt};
    return message;
  }

  // The last stage's answer to a step: it ends at the first wrong draft of this step or of an
  // earlier one.
  StepTokens draw(const StepBatch& batch) {
    StepTokens tokens{batch.epoch, batch.step, {}, batch.releases};
    for (const BatchRow& row : batch.rows) {
      std::optional<Position>& drawn = drawn_[row.sequence.value];
      const bool right = !row.draft() || (drawn == row.position && row.token == text[*drawn]);
      drawn.reset();
      modelled += row.draft() && row.kind() == DraftKind::kModel ? 1 : 0;
      if (!row.sampled() || !right) continue;
      SampledToken token;
      token.sequence = row.sequence;
      token.position = row.position + 1;
      token.token = text[token.position];
      if (token.position == last) token.finish = FinishReason::kLength;
      if (token.position != last) drawn = token.position;
      tokens.tokens.push_back(token);
    }
    return tokens;
  }

  // Runs one step after the other until the batcher asks or has no work.
  std::optional<DraftAsk> run(Batcher& batcher, Duration row, Duration more_rows) {
    for (;;) {
      if (auto ask = batcher.next_ask()) return ask;
      while (auto batch = batcher.next()) ring_.push_back(*std::move(batch));
      if (ring_.empty()) return std::nullopt;
      const auto rows = static_cast<std::int64_t>(ring_.front().rows.size());
      const Duration took = row + std::max<std::int64_t>(0, rows - 1) * more_rows;
      spent += took;
      const Status taken = batcher.on_tokens(draw(ring_.front()), took);
      EXPECT_TRUE(taken.ok()) << taken.error().message;
      ring_.pop_front();
    }
  }

  // The first ask only reads; the stream goes on to the next one.
  std::optional<DraftAsk> run_to_drafts(Batcher& batcher) {
    const auto first = run(batcher, 10'000 * kMicro, 100 * kMicro);
    EXPECT_TRUE(first.has_value() && first->count == 0);
    if (first) batcher.on_drafts(answer_of(*first, 100));
    return run(batcher, 10'000 * kMicro, 100 * kMicro);
  }

  DraftAnswer answer_of(const DraftAsk& ask, std::uint64_t right_percent) {
    DraftAnswer answer;
    answer.sequence = ask.open.sequence;
    answer.read = static_cast<std::uint32_t>(ask.tokens.size());
    for (std::uint32_t i = 0; i < ask.count; ++i) {
      const bool right = random_.next() % 100 < right_percent;
      answer.drafts.push_back(right ? text[ask.tokens.size() + i] : 1'000'000);
    }
    return answer;
  }

  // The time of a whole answer, as a share of its time without a draft model.
  double share_of(std::uint64_t right_percent, Duration each, Duration row, Duration more_rows) {
    Batcher batcher(options());
    constexpr std::uint32_t kTokens = 8000;
    last = 20 + kTokens - 1;
    EXPECT_TRUE(batcher.submit(submit_of(kLone, 20, kTokens)).ok());
    spent = {};
    while (auto ask = run(batcher, row, more_rows)) {
      const Duration took = ask->count * each;
      spent += took;
      asked += ask->count;
      batcher.on_drafts(answer_of(*ask, right_percent), took, took);
    }
    EXPECT_EQ(batcher.sequences(), 0U);
    return std::chrono::duration<double>(spent) / std::chrono::duration<double>(kTokens * row);
  }

  // The same over `stages` with links of no length, in a time of its own: a stage takes its part of
  // `row` and computes one step after the other, and the model makes one draft after the other.
  double share_over(std::uint32_t stages, std::uint64_t right_percent, Duration each, Duration row,
                    std::optional<ModelDrafts::Plan> plan = {}) {
    BatcherOptions given = options();
    given.batches_in_flight = stages + 1;
    given.draft_model_plan = plan;
    Batcher batcher(given);
    constexpr std::uint32_t kTokens = 3000;
    last = 20 + kTokens - 1;
    EXPECT_TRUE(batcher.submit(submit_of(kLone, 20, kTokens)).ok());
    struct Step {
      StepBatch batch;
      Duration begun{}, ends{};
    };
    std::deque<Step> flying;
    std::vector<Duration> free(stages);
    std::optional<DraftAsk> ask;
    Duration now{}, answered{}, asked_at{}, drafted{};
    const auto start = [&] {
      for (;;) {
        if (auto next = batcher.next_ask()) {
          ask = std::move(next);
          asked_at = now;
          drafted = now + std::max<std::uint32_t>(1, ask->count) * each;
        }
        auto batch = batcher.next();
        if (!batch) return;
        Duration at = now;
        for (Duration& stage : free) at = stage = std::max(at, stage) + row / stages;
        flying.push_back({*std::move(batch), now, at});
      }
    };
    for (start(); batcher.sequences() > 0; start()) {
      if (ask && (flying.empty() || drafted < flying.front().ends)) {
        now = drafted;
        const Duration waited = ask->waited_for ? now - std::max(asked_at, answered) : Duration{};
        const DraftAsk given_out = *std::exchange(ask, std::nullopt);
        asked += given_out.count;
        batcher.on_drafts(answer_of(given_out, right_percent), now - asked_at, waited);
        if (waited > Duration{}) answered = now;
        continue;
      }
      EXPECT_FALSE(flying.empty()) << "nothing is under way";
      if (flying.empty()) return 0.0;
      const Step step = std::move(flying.front());
      flying.pop_front();
      now = step.ends;
      const Duration took = now - std::max(step.begun, answered);
      answered = now;
      const Status taken = batcher.on_tokens(draw(step.batch), took);
      EXPECT_TRUE(taken.ok()) << taken.error().message;
      if (!taken.ok()) return 0.0;
    }
    return std::chrono::duration<double>(now) / std::chrono::duration<double>(kTokens * row);
  }

  std::vector<TokenId> text;
  Position last = 0;
  Duration spent{};
  std::uint64_t modelled = 0;  // rows
  std::uint64_t asked = 0;     // drafts

 private:
  std::map<std::uint64_t, std::optional<Position>> drawn_;
  std::deque<StepBatch> ring_;
  SeededRandom random_{7};
};

TEST_F(WithDraftModel, AsksAfterPlainTokensAndSendsTheDrafts) {
  Batcher batcher(options());
  ASSERT_TRUE(batcher.submit(submit_of(kLone, 20, 500)).ok());
  const auto ask = run_to_drafts(batcher);
  ASSERT_TRUE(ask.has_value());
  EXPECT_EQ(ask->count, ModelDrafts::kProbe);
  EXPECT_GE(ask->tokens.size(), 20 + DraftTrial::kPlainTokens);
  EXPECT_TRUE(std::equal(ask->tokens.begin(), ask->tokens.end(), text.begin()));
  EXPECT_FALSE(batcher.next().has_value()) << "the stream waits for its drafts";
  batcher.on_drafts(answer_of(*ask, 100), 500 * kMicro, 500 * kMicro);
  const auto batch = batcher.next();
  ASSERT_TRUE(batch.has_value());
  ASSERT_EQ(batch->rows.size(), 1 + ModelDrafts::kProbe);
  EXPECT_EQ(batch->rows[0].flags, BatchRow::kSample);
  EXPECT_EQ(batch->rows[1].flags, BatchRow::kSample | BatchRow::kDraft | BatchRow::kModelled);
  ASSERT_TRUE(batcher.on_tokens(draw(*batch), 10'000 * kMicro).ok());
  const auto further = run(batcher, 10'000 * kMicro, 100 * kMicro);
  ASSERT_TRUE(further.has_value());
  EXPECT_GT(further->count, ModelDrafts::kProbe) << "it is right and costs little";
}

TEST_F(WithDraftModel, AModelThatGainsIsUsed) {
  EXPECT_LT(share_of(85, 500 * kMicro, 10'000 * kMicro, 200 * kMicro), 0.5);
  EXPECT_GT(modelled, 4000U);
}

TEST_F(WithDraftModel, AModelWithoutGainCostsLittle) {
  struct Case {
    std::uint64_t right;
    std::int64_t each, row, more_rows;
  };
  for (const Case& one :
       {Case{0, 1000, 10'000, 200}, Case{0, 50'000, 10'000, 200}, Case{60, 9000, 10'000, 5000},
        Case{90, 12'000, 10'000, 10'000}, Case{20, 3000, 10'000, 1000}}) {
    asked = 0;
    const double share =
        share_of(one.right, one.each * kMicro, one.row * kMicro, one.more_rows * kMicro);
    EXPECT_LT(share, 1.03) << one.right << " percent at " << one.each << " us";
    EXPECT_GE(asked, 3 * ModelDrafts::kProbe) << "it is tried again";
  }
}

TEST_F(WithDraftModel, ALongTextIsReadBesideTheSteps) {
  Batcher batcher(options());
  last = 8000;
  ASSERT_TRUE(batcher.submit(submit_of(kLone, 300, 4000)).ok());
  auto ask = run(batcher, 10'000 * kMicro, 100 * kMicro);
  ASSERT_TRUE(ask.has_value());
  EXPECT_EQ(ask->count, 0U);
  ASSERT_EQ(ask->tokens.size(), 300 + 1 + DraftTrial::kPlainTokens);
  const auto batch = batcher.next();
  ASSERT_TRUE(batch.has_value()) << "the stream does not wait for reading";
  ASSERT_TRUE(batcher.on_tokens(draw(*batch), 10'000 * kMicro).ok());
  EXPECT_FALSE(batcher.next_ask().has_value()) << "one ask is under way";
  DraftAnswer read{kLone, {}, 128, false};
  batcher.on_drafts(read);
  ask = run(batcher, 10'000 * kMicro, 100 * kMicro);
  EXPECT_EQ(ask->count, 0U);
  read.read = 300;
  batcher.on_drafts(read);
  ask = run(batcher, 10'000 * kMicro, 100 * kMicro);
  ASSERT_TRUE(ask.has_value());
  EXPECT_EQ(ask->count, ModelDrafts::kProbe);
}

// The first ask may load the model.
TEST_F(WithDraftModel, NoStepWaitsForTheFirstAsk) {
  Batcher batcher(options());
  ASSERT_TRUE(batcher.submit(submit_of(kLone, 20, 500)).ok());
  const auto ask = run(batcher, 10'000 * kMicro, 100 * kMicro);
  ASSERT_TRUE(ask.has_value());
  EXPECT_EQ(ask->count, 0U);
  EXPECT_FALSE(batcher.patience().has_value());
  EXPECT_TRUE(batcher.next().has_value());
}

TEST_F(WithDraftModel, AWaitThatEndsEarlyTakesNoDrafts) {
  Batcher batcher(options());
  ASSERT_TRUE(batcher.submit(submit_of(kLone, 20, 500)).ok());
  const auto ask = run_to_drafts(batcher);
  ASSERT_TRUE(ask.has_value());
  ASSERT_GT(ask->count, 0U);
  ASSERT_FALSE(batcher.next().has_value());
  ASSERT_TRUE(batcher.patience().has_value());
  EXPECT_GE(*batcher.patience(), 100'000 * kMicro);
  EXPECT_LE(*batcher.patience(), 200'000 * kMicro) << "16 tokens of 10 ms";
  batcher.stop_waiting(160'000 * kMicro);
  batcher.stop_waiting();
  EXPECT_FALSE(batcher.patience().has_value());
  const auto batch = batcher.next();
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->rows.size(), 1U);
  EXPECT_FALSE(batcher.next().has_value()) << "it is sent once";
  ASSERT_TRUE(batcher.on_tokens(draw(*batch), 10'000 * kMicro).ok());
  EXPECT_FALSE(batcher.next_ask().has_value()) << "one ask is under way";
  batcher.on_drafts(answer_of(*ask, 100));
  const auto after = batcher.next();
  ASSERT_TRUE(after.has_value());
  EXPECT_EQ(after->rows.size(), 1U) << "the late drafts are for an earlier token";
}

TEST_F(WithDraftModel, DraftsOfASequenceThatIsOverAreDropped) {
  Batcher batcher(options());
  ASSERT_TRUE(batcher.submit(submit_of(kLone, 20, 500)).ok());
  const auto ask = run_to_drafts(batcher);
  ASSERT_TRUE(ask.has_value());
  batcher.cancel(kLone);
  EXPECT_EQ(batcher.sequences(), 0U);
  ASSERT_TRUE(batcher.submit(submit_of(kGuest, 20, 500)).ok());
  batcher.on_drafts(answer_of(*ask, 100), 500 * kMicro, 500 * kMicro);
  const auto batch = batcher.next();
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->releases, std::vector{kLone});
  for (const BatchRow& row : batch->rows) EXPECT_EQ(row.sequence, kGuest);
}

TEST_F(WithDraftModel, NoneIsAskedBesideOthersNorWhereARequestWantsNone) {
  for (const bool alone : {false, true}) {
    Batcher batcher(options());
    last = 219;
    SubmitMessage first = submit_of(kLone, 20, 200);
    first.open.drafts = !alone;
    ASSERT_TRUE(batcher.submit(std::move(first)).ok());
    if (!alone) {
      ASSERT_TRUE(batcher.submit(submit_of(kGuest, 20, 200)).ok());
    }
    EXPECT_FALSE(run(batcher, 10'000 * kMicro, 100 * kMicro).has_value());
    EXPECT_EQ(batcher.sequences(), 0U);
  }
}

// Over four stages a step leaves without waiting, and its drafts follow while the model makes more.
TEST_F(WithDraftModel, DraftsFollowTheNewestTokenThroughIdleStages) {
  BatcherOptions given = options();
  given.batches_in_flight = 5;
  given.draft_model_plan = ModelDrafts::Plan{2, true};
  Batcher batcher(given);
  ASSERT_TRUE(batcher.submit(submit_of(kLone, 20, 500)).ok());
  const auto read = run(batcher, 10'000 * kMicro, {});
  ASSERT_TRUE(read.has_value() && read->count == 0);
  batcher.on_drafts(answer_of(*read, 100));
  const auto plain = batcher.next();
  ASSERT_TRUE(plain.has_value());
  ASSERT_TRUE(batcher.on_tokens(draw(*plain), 10'000 * kMicro).ok());
  // The newest token, then two and two drafts of a model that is right, then two wrong ones.
  std::deque<StepBatch> flying;
  const auto send = [&](std::size_t rows) {
    auto batch = batcher.next();
    ASSERT_TRUE(batch.has_value());
    EXPECT_EQ(batch->rows.size(), rows);
    flying.push_back(*std::move(batch));
  };
  send(1);
  EXPECT_EQ(flying.back().rows[0].flags, BatchRow::kSample);
  for (const std::uint64_t right : {100, 100, 0}) {
    const auto ask = batcher.next_ask();
    ASSERT_TRUE(ask.has_value());
    EXPECT_EQ(ask->count, 2U);
    EXPECT_FALSE(ask->waited_for);
    EXPECT_TRUE(std::equal(ask->tokens.begin(), ask->tokens.end(), text.begin()))
        << "it goes on behind its own drafts";
    EXPECT_FALSE(batcher.next().has_value()) << "nothing else is to be sent";
    batcher.on_drafts(answer_of(*ask, right));
    send(2);
    EXPECT_EQ(flying.back().rows[0].flags,
              BatchRow::kSample | BatchRow::kDraft | BatchRow::kModelled);
  }
  const auto late = batcher.next_ask();
  ASSERT_TRUE(late.has_value());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(batcher.on_tokens(draw(flying.front()), 10'000 * kMicro).ok());
    flying.pop_front();
  }
  // Its answer showed the next draft to be wrong: the token leaves at once, behind a truncation,
  // and the drafts that were on their way are not used.
  const Position newest = flying.front().rows[0].position;
  send(1);
  EXPECT_EQ(flying.back().rows[0].position, newest);
  EXPECT_EQ(flying.back().rows[0].token, text[newest]);
  ASSERT_EQ(flying.back().truncates.size(), 1U);
  EXPECT_FALSE(batcher.next_ask().has_value()) << "one ask is under way";
  batcher.on_drafts(answer_of(*late, 100));
  EXPECT_FALSE(batcher.next().has_value());
  const auto again = batcher.next_ask();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->tokens.size(), newest + 1);
}

// The figures are those of four cards with a 70B model and of a draft model that takes 5 ms a
// token.
TEST_F(WithDraftModel, APipelineIsFasterAheadOfItsDrafts) {
  const Duration row = 50'000 * kMicro;
  const double best = share_over(4, 69, 5'000 * kMicro, row);
  EXPECT_LT(best, 0.5);
  EXPECT_LT(best, 0.97 * share_over(4, 69, 5'000 * kMicro, row, ModelDrafts::Plan{3, false}));
  // A model that takes no time makes the drafts before the step leaves.
  EXPECT_LT(share_over(4, 69, 10 * kMicro, row), 0.4);
  EXPECT_LT(share_over(4, 5, 5'000 * kMicro, row), 1.03);
}

TEST_F(WithDraftModel, AModelThatCannotDraftIsAskedOnce) {
  Batcher batcher(options());
  last = 519;
  ASSERT_TRUE(batcher.submit(submit_of(kLone, 20, 500)).ok());
  const auto ask = run(batcher, 10'000 * kMicro, 100 * kMicro);
  ASSERT_TRUE(ask.has_value());
  batcher.on_drafts({kLone, {}, 0, true}, 500 * kMicro);
  EXPECT_FALSE(run(batcher, 10'000 * kMicro, 100 * kMicro).has_value());
  EXPECT_EQ(batcher.sequences(), 0U) << "the answer came without";
}

}  // namespace
}  // namespace hearth::node
