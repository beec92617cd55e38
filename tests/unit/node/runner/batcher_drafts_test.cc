// What a batcher sends behind a drawn token, and what it makes of the answer.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/limits.h"
#include "base/random.h"
#include "node/runner/batcher.h"

namespace hearth::node {
namespace {

constexpr Epoch kDraftEpoch{7};
constexpr SequenceId kOne{1};
constexpr Duration kDraftMs = std::chrono::milliseconds(1);

// A stream that draws the tokens of `text`, by position.
class Drafting : public ::testing::Test {
 protected:
  static BatcherOptions options() { return {kDraftEpoch, 512, 128, 1, limits::kDraftRows}; }

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
  EXPECT_FALSE(batcher.next().has_value()) << "one step at a time";
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
  Batcher batcher(options());
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
  EXPECT_NE(refused([](Tokens& all) { all[1].token = 5; }).find("rejected draft"),
            std::string::npos);
  EXPECT_NE(
      refused([](Tokens& all) { all[0].finish = FinishReason::kStop; }).find("rejected draft"),
      std::string::npos);
  EXPECT_NE(refused([](Tokens& all) {
              all.push_back(all.back());
              ++all.back().position;
            }).find("rejected draft"),
            std::string::npos);
  EXPECT_NE(refused([](Tokens& all) { all.erase(all.begin()); }).find("not the next position"),
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

// A lone stream on a pipeline whose last stage remembers what it drew between steps.
class FurtherDrafts : public Drafting {
 protected:
  static BatcherOptions several(std::uint32_t steps) {
    BatcherOptions out = options();
    out.batches_in_flight = steps;
    return out;
  }
  // As collect_tokens in node/engine/engine_step.cc.
  StepTokens draw(const StepBatch& batch) {
    StepTokens tokens{batch.epoch, batch.step, {}, batch.releases};
    for (const SequenceTruncate& truncate : batch.truncates) {
      EXPECT_LT(truncate.length, next_[truncate.sequence.value]) << "it drops rows";
      next_[truncate.sequence.value] = truncate.length;
    }
    for (const BatchRow& row : batch.rows) {
      EXPECT_EQ(row.position, next_[row.sequence.value]++);
      std::optional<Position>& drawn = drawn_[row.sequence.value];
      const bool right = !row.draft() || (drawn == row.position && row.token == text[*drawn]);
      drawn.reset();
      EXPECT_TRUE(row.draft() || row.token == text[row.position]) << "position " << row.position;
      if (!row.sampled() || !right) continue;
      SampledToken token;
      token.sequence = row.sequence;
      token.position = row.position + 1;
      token.token = text[token.position];
      if (token.position == end) token.finish = FinishReason::kStop;
      if (token.position != end) drawn = token.position;
      tokens.tokens.push_back(token);
    }
    return tokens;
  }
  std::map<std::uint64_t, Position> next_;
  std::map<std::uint64_t, std::optional<Position>> drawn_;
};

TEST_F(FurtherDrafts, FollowDraftsThatAreStillUnderWay) {
  text = repeated(20, 600);
  Batcher batcher(several(4));
  ASSERT_TRUE(batcher.submit(submit_of(kOne, repeated(20, 50), 500)).ok());
  ASSERT_TRUE(batcher.on_tokens(draw(*batcher.next()), 10 * kDraftMs).ok());
  std::deque<StepBatch> ring;
  std::size_t most = 0;
  Position next = 50;
  while (next < 400) {
    while (auto batch = batcher.next()) {
      ASSERT_FALSE(batch->rows.empty());
      EXPECT_TRUE(batch->truncates.empty());
      for (const BatchRow& row : batch->rows) {
        EXPECT_EQ(row.position, next++);
        EXPECT_EQ(row.draft(), row.position > 50);
      }
      ring.push_back(*std::move(batch));
    }
    most = std::max(most, ring.size());
    ASSERT_FALSE(ring.empty());
    const StepTokens drawn = draw(ring.front());
    EXPECT_EQ(drawn.tokens.size(), ring.front().rows.size());
    ring.pop_front();
    ASSERT_TRUE(batcher.on_tokens(drawn, kDraftMs).ok());
  }
  EXPECT_EQ(most, 4U) << "as many as may travel";
}

TEST_F(FurtherDrafts, AreVoidBehindAWrongOne) {
  text = repeated(20, 400);
  for (Position i = 53; i < 400; ++i) text[i] = static_cast<TokenId>(1000 + i);
  Batcher batcher(several(3));
  ASSERT_TRUE(batcher.submit(submit_of(kOne, repeated(20, 50), 300)).ok());
  ASSERT_TRUE(batcher.on_tokens(draw(*batcher.next()), 10 * kDraftMs).ok());
  std::vector<StepBatch> steps;
  while (auto batch = batcher.next()) steps.push_back(*std::move(batch));
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(draw(steps[0]).tokens.size(), 3U);
  drawn_.clear();
  next_[1] = 50;
  ASSERT_TRUE(batcher.on_tokens(draw(steps[0]), kDraftMs).ok());
  const auto correction = batcher.next();
  ASSERT_TRUE(correction.has_value());
  EXPECT_EQ(correction->truncates, (std::vector<SequenceTruncate>{{kOne, 53}}));
  EXPECT_EQ(correction->rows.front().token, 1053);
  EXPECT_FALSE(correction->rows.front().draft());
  for (std::size_t i = 1; i < 3; ++i) {
    const StepTokens none = draw(steps[i]);
    EXPECT_TRUE(none.tokens.empty());
    StepTokens wrong = none;
    wrong.tokens.emplace_back().sequence = kOne;
    wrong.tokens.back().position = steps[i].rows[0].position + 1;
    EXPECT_FALSE(batcher.on_tokens(wrong, kDraftMs).ok()) << "nothing can be drawn there";
    ASSERT_TRUE(batcher.on_tokens(none, kDraftMs).ok());
  }
  const StepTokens right = draw(*correction);
  ASSERT_EQ(right.tokens.size(), 1U);
  EXPECT_EQ(right.tokens[0].token, 1054);
  ASSERT_TRUE(batcher.on_tokens(right, kDraftMs).ok());
}

TEST_F(FurtherDrafts, AnEndVoidsThemToo) {
  text = repeated(20, 400);
  end = 53;
  Batcher batcher(several(3));
  ASSERT_TRUE(batcher.submit(submit_of(kOne, repeated(20, 50), 300)).ok());
  ASSERT_TRUE(batcher.on_tokens(draw(*batcher.next()), 10 * kDraftMs).ok());
  std::vector<StepBatch> steps;
  while (auto batch = batcher.next()) steps.push_back(*std::move(batch));
  ASSERT_EQ(steps.size(), 3U);
  ASSERT_TRUE(batcher.on_tokens(draw(steps[0]), kDraftMs).ok());
  EXPECT_EQ(batcher.sequences(), 0U);
  ASSERT_TRUE(batcher.on_tokens(draw(steps[1]), kDraftMs).ok());
  ASSERT_TRUE(batcher.on_tokens(draw(steps[2]), kDraftMs).ok());
  const auto last = batcher.next();
  EXPECT_EQ(last->releases, std::vector{kOne});
  EXPECT_EQ(last->truncates, (std::vector<SequenceTruncate>{{kOne, 53}}));
}

// Oracles of every quality, several streams, cancels at any time, answers at any time: each stream
// gets its text, and each ends with the rows of its answer and no others.
TEST_F(FurtherDrafts, EveryStreamGetsItsTextWhateverIsDrafted) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    next_.clear();
    drawn_.clear();
    text.clear();
    for (int i = 0; i < 600; ++i) text.push_back(static_cast<TokenId>(random.next() % 50));
    end = 60 + static_cast<Position>(random.next() % 200);
    BatcherOptions with = several(1 + static_cast<std::uint32_t>(random.next() % 6));
    const std::uint64_t quality = random.next() % 101;
    with.draft = [&](const SequenceOpen&, Position position) {
      std::vector<TokenId> drafts;
      const std::uint64_t count = random.next() % 80;
      for (std::uint64_t i = 0; i < count; ++i) {
        const bool right = random.next() % 100 < quality;
        drafts.push_back(right ? text[position + i] : static_cast<TokenId>(100));
      }
      return drafts;
    };
    Batcher batcher(with);
    const std::uint64_t streams = 1 + random.next() % 3;
    std::map<std::uint64_t, Position> told;
    std::set<std::uint64_t> cancelled;
    for (std::uint64_t id = 1; id <= streams; ++id) {
      const auto prompt = static_cast<Position>(1 + random.next() % 50);
      told[id] = prompt - 1;
      ASSERT_TRUE(
          batcher.submit(submit_of(SequenceId(id), {text.begin(), text.begin() + prompt}, 400))
              .ok());
    }
    std::deque<StepBatch> ring;
    std::map<std::uint64_t, Position> released;
    for (int event = 0; event < 20'000 && (batcher.sequences() > 0 || !ring.empty()); ++event) {
      if (random.next() % 400 == 0) {
        const std::uint64_t id = 1 + random.next() % streams;
        batcher.cancel(SequenceId(id));
        cancelled.insert(id);
      }
      if (random.next() % 2 == 0) {
        if (auto batch = batcher.next()) ring.push_back(*std::move(batch));
        continue;
      }
      if (ring.empty()) continue;
      const StepTokens tokens = draw(ring.front());
      for (const SequenceId id : ring.front().releases) released[id.value] = next_[id.value];
      ring.pop_front();
      for (const SampledToken& token : tokens.tokens) {
        ASSERT_EQ(token.position, ++told[token.sequence.value]);
      }
      const Status taken = batcher.on_tokens(tokens, kDraftMs);
      ASSERT_TRUE(taken.ok()) << taken.error().message;
    }
    ASSERT_EQ(batcher.sequences(), 0U);
    while (auto batch = batcher.next()) {
      draw(*batch);
      for (const SequenceId id : batch->releases) released[id.value] = next_[id.value];
      ASSERT_TRUE(batcher.on_tokens({batch->epoch, batch->step, {}, batch->releases}).ok());
    }
    for (std::uint64_t id = 1; id <= streams; ++id) {
      EXPECT_TRUE(cancelled.contains(id) || told[id] == end) << told[id];
      EXPECT_LE(released.at(id), told[id] + (cancelled.contains(id) ? 1 : 0));
    }
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace hearth::node
