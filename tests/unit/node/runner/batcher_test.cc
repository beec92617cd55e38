#include "node/runner/batcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "base/random.h"
#include "kernels/canonical.h"

namespace hearth::node {
namespace {

constexpr Epoch kFirstEpoch{7};

SubmitMessage batcher_submit(std::uint64_t id, std::uint32_t prompt_tokens) {
  SubmitMessage message;
  message.epoch = kFirstEpoch;
  message.open.sequence = SequenceId(id);
  message.open.prompt_tokens = prompt_tokens;
  for (std::uint32_t i = 0; i < prompt_tokens; ++i) {
    message.prompt.push_back(static_cast<TokenId>(id * 1000 + i));
  }
  return message;
}

StepTokens answer_of(const StepBatch& batch, FinishReason finish = FinishReason::kNone) {
  StepTokens tokens{batch.epoch, batch.step, {}, batch.releases};
  for (const BatchRow& row : batch.rows) {
    if ((row.flags & BatchRow::kSample) == 0) continue;
    SampledToken token;
    token.sequence = row.sequence;
    token.position = row.position + 1;
    token.token = static_cast<TokenId>(row.position);
    token.finish = finish;
    tokens.tokens.push_back(token);
  }
  return tokens;
}

std::vector<Position> positions_of(const StepBatch& batch, std::uint64_t id) {
  std::vector<Position> positions;
  for (const BatchRow& row : batch.rows) {
    if (row.sequence == SequenceId(id)) positions.push_back(row.position);
  }
  return positions;
}

TEST(Batcher, SendsPromptChunksBackToBackAndSamplesOnlyTheirLastRow) {
  Batcher batcher({kFirstEpoch, 512, 4, 3});
  ASSERT_TRUE(batcher.submit(batcher_submit(1, 10)).ok());
  for (std::uint32_t chunk = 0; chunk < 3; ++chunk) {
    const auto batch = batcher.next();
    ASSERT_TRUE(batch.has_value());
    EXPECT_EQ(batch->step.value, chunk);
    EXPECT_EQ(batch->epoch, kFirstEpoch);
    EXPECT_EQ(batch->opens.size(), chunk == 0 ? 1U : 0U);
    for (const BatchRow& row : batch->rows) {
      EXPECT_EQ(row.token, 1000 + static_cast<TokenId>(row.position));
      EXPECT_EQ(row.flags, row.position == 9 ? BatchRow::kSample : 0);
    }
    EXPECT_EQ(positions_of(*batch, 1).front(), chunk * 4);
    EXPECT_EQ(positions_of(*batch, 1).back(), std::min(chunk * 4 + 3, 9U));
  }
  EXPECT_EQ(batcher.steps_in_flight(), 3U);
  EXPECT_FALSE(batcher.next().has_value());
}

TEST(Batcher, DecodesFromItsOwnTokensUntilTheEndAndThenReleases) {
  Batcher batcher({kFirstEpoch, 512, 128, 2});
  ASSERT_TRUE(batcher.submit(batcher_submit(1, 3)).ok());
  auto batch = batcher.next();
  ASSERT_TRUE(batcher.on_tokens(answer_of(*batch)).ok());
  batch = batcher.next();
  ASSERT_EQ(batch->rows.size(), 1U);
  EXPECT_EQ(batch->rows[0].position, 3U);
  EXPECT_EQ(batch->rows[0].token, 2);
  EXPECT_EQ(batch->rows[0].flags, BatchRow::kSample);
  EXPECT_FALSE(batcher.next().has_value());  // its token is still on the way
  ASSERT_TRUE(batcher.on_tokens(answer_of(*batch, FinishReason::kStop)).ok());
  EXPECT_EQ(batcher.sequences(), 0U);
  batch = batcher.next();
  ASSERT_TRUE(batch.has_value());
  EXPECT_TRUE(batch->rows.empty());
  EXPECT_EQ(batch->releases, std::vector<SequenceId>{SequenceId(1)});
  ASSERT_TRUE(batcher.on_tokens(answer_of(*batch)).ok());
  EXPECT_FALSE(batcher.next().has_value());
}

// What was generated before goes in like a prompt, in chunks, and one token is sampled behind it.
TEST(Batcher, GoesOnBehindTheTokensThatASequenceHasAlready) {
  Batcher batcher({kFirstEpoch, 512, 4, 4});
  SubmitMessage message = batcher_submit(1, 3);
  for (TokenId token = 1003; token < 1009; ++token) message.prompt.push_back(token);
  ASSERT_TRUE(batcher.submit(message).ok());
  std::optional<StepBatch> last;
  for (Position next = 0; next < 9;) {
    last = batcher.next();
    ASSERT_TRUE(last.has_value());
    for (const BatchRow& row : last->rows) {
      EXPECT_EQ(row.position, next);
      EXPECT_EQ(row.token, 1000 + static_cast<TokenId>(next++));
      EXPECT_EQ(row.flags, row.position == 8 ? BatchRow::kSample : 0);
    }
  }
  for (std::uint64_t step = 0; step < last->step.value; ++step) {
    ASSERT_TRUE(batcher.on_tokens({kFirstEpoch, StepId(step), {}, {}}).ok());
  }
  ASSERT_TRUE(batcher.on_tokens(answer_of(*last)).ok());
  const auto decoded = batcher.next();
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(positions_of(*decoded, 1), std::vector<Position>{9});
}

// The hash of a row that was sampled holds its token, so it is sampled again and said again.
TEST(Batcher, WhereHashesAreWantedWhatWasSampledIsSampledAgain) {
  Batcher batcher({kFirstEpoch, 512, 16, 2});
  SubmitMessage message = batcher_submit(1, 3);
  message.open.report_hashes = true;
  message.prompt.insert(message.prompt.end(), {7, 8});
  ASSERT_TRUE(batcher.submit(message).ok());
  const auto batch = batcher.next();
  ASSERT_EQ(batch->rows.size(), 5U);
  for (const BatchRow& row : batch->rows) {
    EXPECT_EQ(row.flags, row.position >= 2 ? BatchRow::kSample : 0) << row.position;
  }
  ASSERT_TRUE(batcher.on_tokens(answer_of(*batch)).ok());
  const auto decoded = batcher.next();
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(positions_of(*decoded, 1), std::vector<Position>{5}) << "one row, for one new token";
  EXPECT_FALSE(batcher.next().has_value());
}

TEST(Batcher, RefusesASequenceThatHasAllItsTokensOrNotItsPrompt) {
  Batcher batcher({kFirstEpoch, 512, 4, 4});
  SubmitMessage whole = batcher_submit(1, 3);
  whole.open.sampling.max_tokens = 2;
  whole.prompt.insert(whole.prompt.end(), {7, 8});
  EXPECT_FALSE(batcher.submit(whole).ok());
  whole.prompt.resize(2);
  EXPECT_FALSE(batcher.submit(whole).ok());
  whole.prompt = {1, 2, 3, 4};
  EXPECT_TRUE(batcher.submit(whole).ok());
}

TEST(Batcher, ReleasesTravelWithTheNextRowsAndWaitForAFreeStep) {
  Batcher batcher({kFirstEpoch, 512, 128, 1});
  ASSERT_TRUE(batcher.submit(batcher_submit(1, 1)).ok());
  const auto first = batcher.next();
  batcher.cancel(SequenceId(1));
  EXPECT_FALSE(batcher.next().has_value());
  ASSERT_TRUE(batcher.submit(batcher_submit(2, 1)).ok());
  ASSERT_TRUE(
      batcher.on_tokens(answer_of(*first)).ok());  // a token that no request waits for any more
  const auto second = batcher.next();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->rows.size(), 1U);
  EXPECT_EQ(second->releases, std::vector<SequenceId>{SequenceId(1)});
}

TEST(Batcher, ACancelledSequenceThatNeverStartedIsOpenedAndReleasedAtOnce) {
  Batcher batcher({kFirstEpoch, 512, 128, 1});
  ASSERT_TRUE(batcher.submit(batcher_submit(1, 5)).ok());
  batcher.cancel(SequenceId(1));
  batcher.cancel(SequenceId(1));
  batcher.cancel(SequenceId(99));
  EXPECT_EQ(batcher.sequences(), 0U);
  const auto batch = batcher.next();
  ASSERT_TRUE(batch.has_value());
  EXPECT_TRUE(batch->rows.empty());
  ASSERT_EQ(batch->opens.size(), 1U);
  EXPECT_EQ(batch->opens[0].sequence, SequenceId(1));
  EXPECT_EQ(batch->releases, std::vector<SequenceId>{SequenceId(1)});
}

TEST(Batcher, ACancelInsideAPromptStopsItsChunks) {
  Batcher batcher({kFirstEpoch, 512, 2, 4});
  ASSERT_TRUE(batcher.submit(batcher_submit(1, 100)).ok());
  ASSERT_TRUE(batcher.next().has_value());
  ASSERT_TRUE(batcher.next().has_value());
  batcher.cancel(SequenceId(1));
  const auto batch = batcher.next();
  ASSERT_TRUE(batch.has_value());
  EXPECT_TRUE(batch->rows.empty());
  EXPECT_TRUE(batch->opens.empty());
  EXPECT_EQ(batch->releases, std::vector<SequenceId>{SequenceId(1)});
  EXPECT_FALSE(batcher.next().has_value());
}

TEST(Batcher, ALongPromptDelaysNoDecodeRow) {
  Batcher batcher({kFirstEpoch, 32, 16, 2});
  ASSERT_TRUE(batcher.submit(batcher_submit(1, 4)).ok());
  auto batch = batcher.next();
  ASSERT_TRUE(batcher.on_tokens(answer_of(*batch)).ok());
  ASSERT_TRUE(batcher.submit(batcher_submit(2, 10'000)).ok());
  std::deque<StepBatch> ring;
  for (int i = 0; i < 100; ++i) {
    while (auto next = batcher.next()) ring.push_back(std::move(*next));
    ASSERT_FALSE(ring.empty());
    const bool decodes = !positions_of(ring.front(), 1).empty();
    ASSERT_TRUE(batcher.on_tokens(answer_of(ring.front())).ok());
    ring.pop_front();
    if (!decodes) continue;
    auto next = batcher.next();  // the very next step carries the next row, and prompt rows too
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(positions_of(*next, 1).size(), 1U);
    EXPECT_EQ(positions_of(*next, 2).size(), 16U);
    ring.push_back(std::move(*next));
  }
}

// One step travels at a time, and every row of a prompt costs a millisecond.
TEST(Batcher, PromptsLeaveAnAnswerTheTimeThatTheTargetNames) {
  BatcherOptions options{kFirstEpoch, 512, 128, 1};
  options.itl_target = std::chrono::milliseconds(60);
  Batcher batcher(options);
  ASSERT_TRUE(batcher.submit(batcher_submit(1, 4)).ok());
  ASSERT_TRUE(batcher.on_tokens(answer_of(*batcher.next()), std::chrono::milliseconds(14)).ok());
  ASSERT_TRUE(batcher.submit(batcher_submit(2, 10'000)).ok());
  std::size_t rows = 0;
  for (int i = 0; i < 60; ++i) {
    const auto batch = batcher.next();
    ASSERT_TRUE(batch.has_value());
    ASSERT_EQ(positions_of(*batch, 1).size(), 1U);
    rows = positions_of(*batch, 2).size();
    EXPECT_EQ(rows % kernels::kPageTokens, 0U);
    const std::chrono::milliseconds took(10 + rows);
    ASSERT_TRUE(batcher.on_tokens(answer_of(*batch), took).ok());
  }
  EXPECT_EQ(rows, 32U);
  // No sequence waits for a token any more: the prompt has whole steps again.
  batcher.cancel(SequenceId(1));
  const auto batch = batcher.next();
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(positions_of(*batch, 2).size(), 128U);
}

// Four steps may travel. What all prompt rows under way cost is what an answer waits for.
TEST(Batcher, PromptsStayOutOfSomeStepsWhereTheTargetIsShort) {
  BatcherOptions options{kFirstEpoch, 512, 128, 4};
  options.itl_target = std::chrono::milliseconds(60);
  Batcher batcher(options);
  for (std::uint64_t id = 1; id <= 8; ++id) {
    ASSERT_TRUE(batcher.submit(batcher_submit(id, 4)).ok());
  }
  ASSERT_TRUE(batcher.on_tokens(answer_of(*batcher.next())).ok());
  ASSERT_TRUE(batcher.submit(batcher_submit(9, 30'000)).ok());
  std::deque<StepBatch> ring;
  std::size_t with_prompts = 0;
  for (int i = 0; i < 600; ++i) {
    while (auto next = batcher.next()) ring.push_back(std::move(*next));
    ASSERT_FALSE(ring.empty());
    with_prompts = std::ranges::count_if(
        ring, [](const StepBatch& batch) { return !positions_of(batch, 9).empty(); });
    ASSERT_GT(with_prompts, 0U) << "the prompt stands still";
    const std::size_t rows = positions_of(ring.front(), 9).size();
    EXPECT_EQ(rows % kernels::kPageTokens, 0U);
    ASSERT_TRUE(
        batcher.on_tokens(answer_of(ring.front()), std::chrono::milliseconds(5 + rows)).ok());
    ring.pop_front();
  }
  EXPECT_EQ(with_prompts, 1U);
}

TEST(Batcher, TheOldestPromptAndTheShortestTakeTurns) {
  Batcher batcher({kFirstEpoch, 512, 32, 64});
  ASSERT_TRUE(batcher.submit(batcher_submit(1, 640)).ok());
  ASSERT_TRUE(batcher.submit(batcher_submit(2, 320)).ok());
  ASSERT_TRUE(batcher.submit(batcher_submit(3, 64)).ok());
  std::vector<std::uint64_t> order;
  for (int i = 0; i < 8; ++i) {
    const auto batch = batcher.next();
    ASSERT_TRUE(batch.has_value());
    ASSERT_EQ(batch->rows.size(), 32U);
    order.push_back(batch->rows.front().sequence.value);
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 3, 1, 3, 1, 2, 1, 2}));
}

TEST(Batcher, SharesDecodeRowsEvenlyOverTheStepsInFlight) {
  Batcher batcher({kFirstEpoch, 512, 512, 4});
  for (std::uint64_t id = 1; id <= 14; ++id)
    ASSERT_TRUE(batcher.submit(batcher_submit(id, 3)).ok());
  std::deque<StepBatch> ring;
  std::map<std::uint64_t, int> rows_of;
  std::vector<std::size_t> sizes;
  for (int i = 0; i < 400; ++i) {
    while (auto next = batcher.next()) ring.push_back(std::move(*next));
    ASSERT_LE(ring.size(), 4U);
    if (i >= 8) sizes.push_back(ring.back().rows.size());
    if (i >= 8) {
      for (const BatchRow& row : ring.front().rows) ++rows_of[row.sequence.value];
    }
    ASSERT_TRUE(batcher.on_tokens(answer_of(ring.front())).ok());
    ring.pop_front();
  }
  for (const std::size_t size : sizes) {
    EXPECT_GE(size, 2U);
    EXPECT_LE(size, 4U);
  }
  ASSERT_EQ(rows_of.size(), 14U);  // no request starves, and none gets ahead
  const auto [least, most] =
      std::minmax_element(rows_of.begin(), rows_of.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; });
  EXPECT_LE(most->second - least->second, 1);
}

TEST(Batcher, FillsPromptRowsOldestFirstWithinItsBounds) {
  Batcher batcher({kFirstEpoch, 10, 8, 1});
  ASSERT_TRUE(batcher.submit(batcher_submit(1, 5)).ok());
  ASSERT_TRUE(batcher.submit(batcher_submit(2, 5)).ok());
  ASSERT_TRUE(batcher.submit(batcher_submit(3, 5)).ok());
  const auto batch = batcher.next();
  EXPECT_EQ(positions_of(*batch, 1).size(), 5U);
  EXPECT_EQ(positions_of(*batch, 2).size(), 3U);
  EXPECT_TRUE(positions_of(*batch, 3).empty());
  EXPECT_EQ(batch->opens.size(), 2U);
}

// Each stage sees the rows of a KV page together, except where there is less room than a page.
TEST(Batcher, CutsPromptsAtTheEndsOfPages) {
  Batcher batcher({kFirstEpoch, 512, 100, 8});
  ASSERT_TRUE(batcher.submit(batcher_submit(1, 130)).ok());
  ASSERT_TRUE(batcher.submit(batcher_submit(2, 90)).ok());
  auto batch = batcher.next();
  EXPECT_EQ(positions_of(*batch, 1).size(), 96U);
  EXPECT_TRUE(positions_of(*batch, 2).empty());
  EXPECT_EQ(batch->opens.size(), 1U);
  batch = batcher.next();
  EXPECT_EQ(positions_of(*batch, 1).size(), 34U) << "the prompt ends";
  EXPECT_EQ(positions_of(*batch, 2).size(), 64U);
  batch = batcher.next();
  EXPECT_EQ(positions_of(*batch, 2).size(), 26U);
  EXPECT_EQ(batch->rows.back().flags, BatchRow::kSample);
}

TEST(Batcher, APromptGoesOnWhereLessThanAPageIsLeftToIt) {
  Batcher batcher({kFirstEpoch, 40, 40, 100});
  for (std::uint64_t id = 1; id <= 30; ++id) {
    ASSERT_TRUE(batcher.submit(batcher_submit(id, 1)).ok());
  }
  const auto first = batcher.next();
  ASSERT_EQ(first->rows.size(), 30U);
  ASSERT_TRUE(batcher.submit(batcher_submit(50, 100)).ok());
  std::size_t rows = 0;
  for (auto batch = batcher.next(); batch; batch = batcher.next()) {
    rows += positions_of(*batch, 50).size();
    if (rows == 100) break;
  }
  EXPECT_EQ(rows, 100U);
}

TEST(Batcher, RefusesWhatBreaksTheContract) {
  Batcher batcher({kFirstEpoch, 512, 128, 2});
  EXPECT_EQ(batcher.submit({Epoch(8), {SequenceId(1), 1, false, {}}, {5}}).error().code,
            ErrorCode::kInvalidInput);
  EXPECT_FALSE(batcher.submit({kFirstEpoch, {SequenceId(1), 0, false, {}}, {}}).ok());
  EXPECT_FALSE(batcher.submit({kFirstEpoch, {SequenceId(1), 2, false, {}}, {5}}).ok());
  ASSERT_TRUE(batcher.submit(batcher_submit(5, 2)).ok());
  EXPECT_FALSE(batcher.submit(batcher_submit(5, 2)).ok());
  ASSERT_TRUE(batcher.submit(batcher_submit(3, 2)).ok());
  ASSERT_TRUE(batcher.submit(batcher_submit(4, 2)).ok());
  for (std::uint64_t id = 3; id <= 5; ++id)
    EXPECT_FALSE(batcher.submit(batcher_submit(id, 2)).ok());

  const auto batch = batcher.next();
  const StepTokens good = answer_of(*batch);
  StepTokens bad = good;
  bad.epoch = Epoch(6);
  EXPECT_FALSE(batcher.on_tokens(bad).ok());
  bad = good;
  bad.step = StepId(9);
  EXPECT_FALSE(batcher.on_tokens(bad).ok());
  bad = good;
  bad.tokens[1].position = 7;
  EXPECT_FALSE(batcher.on_tokens(bad).ok());
  bad = good;
  bad.tokens[1].sequence = SequenceId(77);
  EXPECT_FALSE(batcher.on_tokens(bad).ok());
  bad = good;
  bad.tokens[1] = bad.tokens[0];
  EXPECT_FALSE(batcher.on_tokens(bad).ok());
  bad = good;
  bad.tokens.pop_back();
  EXPECT_FALSE(batcher.on_tokens(bad).ok());
  EXPECT_EQ(batcher.steps_in_flight(), 1U);
  bad = good;
  std::reverse(bad.tokens.begin(), bad.tokens.end());
  EXPECT_TRUE(batcher.on_tokens(bad).ok());
  EXPECT_FALSE(batcher.on_tokens(good).ok());  // answered already
}

// Random submits, cancels and answers; what reaches the ring keeps its promises whatever happens.
// Pipelines that run side by side share one count of ids, so that each of them sees gaps.
TEST(Batcher, RemembersTheNewestIdsAndNotEveryGap) {
  Batcher batcher({kFirstEpoch, 512, 128, 2});
  ASSERT_TRUE(batcher.submit(batcher_submit(1, 2)).ok());  // runs all the time
  for (std::uint64_t id = 3; id < 60'001; id += 2) {
    ASSERT_TRUE(batcher.submit(batcher_submit(id, 1)).ok());
    batcher.cancel(SequenceId(id));
    if (id % 200 != 1) continue;
    for (auto batch = batcher.next(); batch; batch = batcher.next()) {
      ASSERT_TRUE(batcher.on_tokens(answer_of(*batch)).ok());
      if (!batch->rows.empty() && batch->releases.empty()) break;
    }
  }
  EXPECT_FALSE(batcher.submit(batcher_submit(59'999, 1)).ok());
  EXPECT_FALSE(batcher.submit(batcher_submit(52'001, 1)).ok());
  EXPECT_FALSE(batcher.submit(batcher_submit(1, 2)).ok()) << "forgotten, but it runs";
  EXPECT_TRUE(batcher.submit(batcher_submit(3, 1)).ok()) << "forgotten";
}

TEST(Batcher, KeepsTheContractOfTheRingUnderRandomEvents) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SeededRandom random(seed);
    const auto in_flight = static_cast<std::uint32_t>(random.next() % 5 + 1);
    Batcher batcher({kFirstEpoch, 24, 9, in_flight});
    std::deque<StepBatch> ring;
    std::map<std::uint64_t, Position> open;  // sequence -> next position on the ring
    std::set<std::uint64_t> released;
    std::uint64_t submitted = 0;
    for (int i = 0; i < 600 || !ring.empty() || batcher.sequences() > 0; ++i) {
      const std::uint64_t event = random.next() % 4;
      if (event == 0 && i < 600) {
        ++submitted;
        ASSERT_TRUE(batcher.submit(batcher_submit(submitted, 1 + random.next() % 40)).ok());
      } else if (event == 1 && submitted > 0 && random.next() % 4 == 0) {
        batcher.cancel(SequenceId(1 + random.next() % submitted));
      } else if (event == 2 && !ring.empty()) {
        StepTokens tokens = answer_of(ring.front());
        for (SampledToken& token : tokens.tokens) {
          if (random.next() % 8 == 0) token.finish = FinishReason::kLength;
        }
        ASSERT_TRUE(batcher.on_tokens(tokens).ok());
        ring.pop_front();
      }
      while (auto batch = batcher.next()) {
        ASSERT_LE(batch->rows.size(), 24U);
        for (const SequenceOpen& one : batch->opens) {
          ASSERT_TRUE(open.emplace(one.sequence.value, 0).second);
          ASSERT_FALSE(released.contains(one.sequence.value));
        }
        for (const BatchRow& row : batch->rows) {
          ASSERT_TRUE(open.contains(row.sequence.value));
          ASSERT_EQ(row.position, open[row.sequence.value]++);
        }
        for (const SequenceId id : batch->releases) {
          ASSERT_EQ(open.erase(id.value), 1U);
          ASSERT_TRUE(released.insert(id.value).second);
        }
        ring.push_back(std::move(*batch));
        ASSERT_LE(ring.size(), in_flight);
      }
    }
    while (auto batch = batcher.next()) {
      for (const SequenceOpen& one : batch->opens) open.emplace(one.sequence.value, 0);
      for (const SequenceId id : batch->releases) {
        open.erase(id.value);
        released.insert(id.value);
      }
      ASSERT_TRUE(batcher.on_tokens(answer_of(*batch)).ok());
    }
    EXPECT_TRUE(open.empty());
    EXPECT_EQ(released.size(), submitted);
  }
}

}  // namespace
}  // namespace hearth::node
