// What a batcher sends behind a drawn token, and what it makes of the answer.
#include <gtest/gtest.h>

#include <string>

#include "base/limits.h"
#include "node/runner/batcher.h"

namespace hearth::node {
namespace {

constexpr Epoch kDraftEpoch{7};
constexpr SequenceId kOne{1};
constexpr Duration kDraftMs = std::chrono::milliseconds(1);

// A stream that draws the tokens of `text`, by position.
class Drafting : public ::testing::Test {
 protected:
  static BatcherOptions options() { return {kDraftEpoch, 512, 128, 2, limits::kDraftRows}; }

  static SubmitMessage submit_of(SequenceId id, std::vector<TokenId> prompt,
                                 std::uint32_t max_tokens) {
    SubmitMessage message;
    message.epoch = kDraftEpoch;
    message.open.sequence = id;
    message.open.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
    message.open.sampling.max_tokens = max_tokens;
    message.prompt = std::move(prompt);
    return message;
  }

  // As the last stage answers it.
  StepTokens answer_of(const StepBatch& batch) const {
    StepTokens tokens{batch.epoch, batch.step, {}, batch.releases};
    bool dropped = false;
    for (std::size_t i = 0; i < batch.rows.size(); ++i) {
      const BatchRow& row = batch.rows[i];
      if (!row.draft()) dropped = false;
      if (row.draft() && row.token != text.at(row.position)) dropped = true;
      if (!row.sampled() || dropped) continue;
      SampledToken token;
      token.sequence = row.sequence;
      token.position = row.position + 1;
      token.token = text.at(token.position);
      if (token.position == end) {
        token.finish = FinishReason::kStop;
        dropped = true;
      }
      tokens.tokens.push_back(token);
    }
    return tokens;
  }

  void answer(Batcher& batcher, const StepBatch& batch, Duration took = 10 * kDraftMs) const {
    const Status taken = batcher.on_tokens(answer_of(batch), took);
    ASSERT_TRUE(taken.ok()) << taken.error().message;
  }

  static std::vector<Position> drafts_of(const StepBatch& batch) {
    std::vector<Position> out;
    for (const BatchRow& row : batch.rows) {
      if (row.draft()) out.push_back(row.position);
    }
    return out;
  }

  std::vector<TokenId> text;
  Position end = 0;  // the position of the stop token; 0: none
};

std::vector<TokenId> repeated(std::uint32_t period, std::uint32_t length) {
  std::vector<TokenId> out;
  for (std::uint32_t i = 0; i < length; ++i) out.push_back(static_cast<TokenId>(10 + i % period));
  return out;
}

TEST_F(Drafting, SendsWhatFollowedAndGoesOnBehindIt) {
  text = repeated(20, 400);
  Batcher batcher(options());
  ASSERT_TRUE(batcher.submit(submit_of(kOne, {text.begin(), text.begin() + 50}, 300)).ok());
  answer(batcher, *batcher.next());
  const auto batch = batcher.next();
  ASSERT_TRUE(batch.has_value());
  const std::size_t drafts = drafts_of(*batch).size();
  ASSERT_GT(drafts, 2U);
  ASSERT_EQ(batch->rows.size(), drafts + 1);
  for (std::size_t i = 0; i < batch->rows.size(); ++i) {
    EXPECT_EQ(batch->rows[i].position, 50 + i);
    EXPECT_EQ(batch->rows[i].token, text[50 + i]);
    EXPECT_EQ(batch->rows[i].flags, BatchRow::kSample | (i == 0 ? 0 : BatchRow::kDraft));
  }
  answer(batcher, *batch);
  const auto next = batcher.next();
  EXPECT_TRUE(next->truncates.empty());
  EXPECT_EQ(next->rows[0].position, 51 + drafts);
  EXPECT_FALSE(batcher.next().has_value()) << "one step of a sequence at a time";
}

TEST_F(Drafting, TruncatesWhatWasWrong) {
  text = repeated(20, 400);
  for (Position i = 53; i < 400; ++i) text[i] = static_cast<TokenId>(1000 + i);
  Batcher batcher(options());
  const std::vector<TokenId> prompt = repeated(20, 50);
  ASSERT_TRUE(batcher.submit(submit_of(kOne, prompt, 300)).ok());
  answer(batcher, *batcher.next());
  const auto batch = batcher.next();
  ASSERT_GT(drafts_of(*batch).size(), 3U);
  answer(batcher, *batch);
  const auto next = batcher.next();
  ASSERT_EQ(next->truncates.size(), 1U);
  EXPECT_EQ(next->truncates[0], (SequenceTruncate{kOne, 53}));
  EXPECT_EQ(next->rows[0].position, 53U);
  EXPECT_EQ(next->rows[0].token, 1053);
  answer(batcher, *next);
  EXPECT_TRUE(batcher.next()->truncates.empty()) << "it is truncated once";
}

TEST_F(Drafting, AnEndInsideTheDraftsTruncatesWithTheRelease) {
  text = repeated(20, 400);
  end = 53;
  Batcher batcher(options());
  ASSERT_TRUE(batcher.submit(submit_of(kOne, repeated(20, 50), 300)).ok());
  answer(batcher, *batcher.next());
  answer(batcher, *batcher.next());
  EXPECT_EQ(batcher.sequences(), 0U);
  const auto last = batcher.next();
  ASSERT_EQ(last->releases.size(), 1U);
  ASSERT_EQ(last->truncates.size(), 1U);
  EXPECT_EQ(last->truncates[0], (SequenceTruncate{kOne, 53}));
  EXPECT_TRUE(last->rows.empty());
}

TEST_F(Drafting, NothingIsDraftedBehindTheLastTokenThatIsWanted) {
  text = repeated(20, 400);
  for (const std::uint32_t most : {1U, 2U, 3U, 6U}) {
    Batcher batcher(options());
    ASSERT_TRUE(batcher.submit(submit_of(kOne, repeated(20, 50), most)).ok());
    end = 50 + most - 1;
    Position rows = 0;
    while (const auto batch = batcher.next()) {
      for (const BatchRow& row : batch->rows) rows = std::max(rows, row.position + 1);
      answer(batcher, *batch);
    }
    EXPECT_EQ(rows, 50 + most - 1) << "the last token is never read";
  }
}

// A stage claims a window as soon as it is full.
TEST_F(Drafting, TheLastRowOfAWindowIsNoDraft) {
  constexpr Position kWindow = limits::kWindowPositions;
  text = repeated(20, kWindow + 200);
  Batcher batcher(options());
  ASSERT_TRUE(batcher.submit(submit_of(kOne, repeated(20, kWindow - 40), 200)).ok());
  std::uint32_t drafted = 0;
  Position seen = 0;
  while (seen < kWindow + 60) {
    const auto batch = batcher.next();
    ASSERT_TRUE(batch.has_value());
    for (const BatchRow& row : batch->rows) seen = std::max(seen, row.position);
    for (const Position draft : drafts_of(*batch)) {
      EXPECT_NE(draft, kWindow - 1);
      ++drafted;
    }
    answer(batcher, *batch);
  }
  EXPECT_GT(drafted, 20U);
}

TEST_F(Drafting, AStepWithAPromptHasNoDrafts) {
  text = repeated(20, 400);
  BatcherOptions one_at_a_time = options();
  one_at_a_time.batches_in_flight = 1;
  Batcher batcher(one_at_a_time);
  ASSERT_TRUE(batcher.submit(submit_of(kOne, repeated(20, 50), 300)).ok());
  answer(batcher, *batcher.next());
  ASSERT_TRUE(batcher.submit(submit_of(SequenceId(2), repeated(20, 50), 300)).ok());
  const auto both = batcher.next();
  EXPECT_EQ(both->rows.size(), 51U);
  EXPECT_TRUE(drafts_of(*both).empty());
  answer(batcher, *both);
  EXPECT_FALSE(drafts_of(*batcher.next()).empty());
}

TEST_F(Drafting, NoneWhereTheyAreTurnedOff) {
  text = repeated(20, 400);
  for (const bool by_request : {true, false}) {
    BatcherOptions off = options();
    if (!by_request) off.draft_rows = 0;
    Batcher batcher(off);
    SubmitMessage submit = submit_of(kOne, repeated(20, 50), 40);
    submit.open.drafts = !by_request;
    ASSERT_TRUE(batcher.submit(std::move(submit)).ok());
    end = 89;
    while (const auto batch = batcher.next()) {
      EXPECT_TRUE(drafts_of(*batch).empty());
      answer(batcher, *batch);
    }
  }
}

TEST_F(Drafting, WhatAGrammarForcesIsDrafted) {
  text = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  Batcher batcher(options());
  ASSERT_TRUE(batcher.submit(submit_of(kOne, {1, 2, 3}, 9)).ok());
  StepTokens tokens = answer_of(*batcher.next());
  tokens.drafts.push_back({kOne, {}, {5, 6, 70, 8}});
  ASSERT_TRUE(batcher.on_tokens(tokens, 10 * kDraftMs).ok());
  const auto batch = batcher.next();
  ASSERT_GE(drafts_of(*batch).size(), 3U);
  EXPECT_EQ(batch->rows[1].token, 5);
  EXPECT_EQ(batch->rows[1].flags, BatchRow::kSample | BatchRow::kDraft | BatchRow::kForced);
  answer(batcher, *batch);
  const auto next = batcher.next();
  ASSERT_EQ(next->truncates.size(), 1U);
  EXPECT_EQ(next->truncates[0].length, 6U);
}

TEST_F(Drafting, AStopTokenIsNotDrafted) {
  text = repeated(20, 400);
  Batcher batcher(options());
  SubmitMessage submit = submit_of(kOne, repeated(20, 50), 300);
  submit.open.sampling.stop_tokens = {text[54]};
  ASSERT_TRUE(batcher.submit(std::move(submit)).ok());
  answer(batcher, *batcher.next());
  EXPECT_EQ(drafts_of(*batcher.next()), (std::vector<Position>{51, 52, 53}));
}

TEST_F(Drafting, ACancelledSequenceIsTruncatedBeforeItsRelease) {
  text = repeated(20, 400);
  text[53] = 999;
  Batcher batcher(options());
  ASSERT_TRUE(batcher.submit(submit_of(kOne, repeated(20, 50), 300)).ok());
  answer(batcher, *batcher.next());
  const auto batch = batcher.next();
  ASSERT_GT(drafts_of(*batch).size(), 3U);
  batcher.cancel(kOne);
  batcher.cancel(kOne);
  EXPECT_FALSE(batcher.next().has_value()) << "what was right is not known yet";
  answer(batcher, *batch);
  EXPECT_EQ(batcher.sequences(), 0U);
  const auto last = batcher.next();
  EXPECT_EQ(last->releases, std::vector{kOne});
  ASSERT_EQ(last->truncates.size(), 1U);
  EXPECT_EQ(last->truncates[0].length, 53U);
}

TEST_F(Drafting, RefusesAnswersThatDoNotFollowTheDrafts) {
  text = repeated(20, 400);
  text[53] = 999;
  const auto refused = [&](const auto& change) {
    Batcher batcher(options());
    EXPECT_TRUE(batcher.submit(submit_of(kOne, repeated(20, 50), 300)).ok());
    answer(batcher, *batcher.next());
    StepTokens tokens = answer_of(*batcher.next());
    EXPECT_EQ(tokens.tokens.size(), 3U);
    change(tokens.tokens);
    const Status taken = batcher.on_tokens(tokens);
    return taken.ok() ? std::string("taken") : taken.error().message;
  };
  using Tokens = std::vector<SampledToken>;
  EXPECT_EQ(refused([](Tokens&) {}), "taken");
  EXPECT_EQ(refused([](Tokens& all) { all.pop_back(); }), "taken") << "it costs speed alone";
  EXPECT_NE(refused([](Tokens& all) { all.clear(); }).find("lacks the token"), std::string::npos);
  EXPECT_NE(refused([](Tokens& all) { all[1].token = 5; }).find("was not drawn"),
            std::string::npos);
  EXPECT_NE(refused([](Tokens& all) { all[0].finish = FinishReason::kStop; }).find("not drawn"),
            std::string::npos);
  EXPECT_NE(refused([](Tokens& all) {
              all.push_back(all.back());
              ++all.back().position;
            }).find("was not drawn"),
            std::string::npos);
  EXPECT_NE(refused([](Tokens& all) { all.erase(all.begin()); }).find("did not sample"),
            std::string::npos);
}

// A stream whose tokens never repeat has no drafts, so it takes the steps of a plain one; one whose
// beginnings repeat with other tokens behind them soon has few.
TEST_F(Drafting, UnpredictableTextsAreNotDrafted) {
  for (Position i = 0; i < 900; ++i) {
    text.push_back(static_cast<TokenId>(i % 3 == 2 ? 1000 + i : i % 3));
  }
  Batcher batcher(options());
  ASSERT_TRUE(batcher.submit(submit_of(kOne, {text.begin(), text.begin() + 50}, 800)).ok());
  end = 849;
  std::uint32_t wrong = 0;
  while (const auto batch = batcher.next()) {
    const auto drafts = drafts_of(*batch);
    const auto steps = static_cast<std::uint32_t>(batch->rows.size());
    answer(batcher, *batch, (90 + 10 * steps) * kDraftMs);
    for (const Position draft : drafts) wrong += draft % 3 == 2 ? 1 : 0;
  }
  EXPECT_LT(wrong, 40U);
}

}  // namespace
}  // namespace hearth::node
