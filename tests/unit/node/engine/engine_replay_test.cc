#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "node/engine/kv_cache.h"
#include "tests/unit/node/engine/kept_rows.h"

namespace hearth::node {
namespace {

using EngineReplayTest = KeptRowsTest;

TEST_F(EngineReplayTest, WhatWasComputedIsSaidAgain) {
  auto engine = load({0, 2}, kRoom);
  StepBatch first = rows_of(kA, 1, 0, 40);
  const StepResult computed = step(*engine, first);
  EXPECT_EQ(computed.replayed, 0U);
  engine->keep();
  EXPECT_EQ(engine->kv_pages_used(), 0U) << "nothing is open";
  StepBatch again = rows_of(kA, 1, 0, 50);
  const StepResult replayed = step(*engine, again);
  EXPECT_EQ(replayed.replayed, 40U);
  EXPECT_TRUE(
      std::equal(first.activations.begin(), first.activations.end(), again.activations.begin()));
  auto fresh = load({0, 2}, 0);
  StepBatch wanted = rows_of(kA, 1, 0, 50);
  const StepResult reference = step(*fresh, wanted);
  EXPECT_EQ(again.activations, wanted.activations);
  EXPECT_EQ(replayed.hashes, reference.hashes);
  EXPECT_EQ(engine->kv_hashes(kA).value(), fresh->kv_hashes(kA).value());
}

TEST_F(EngineReplayTest, ASecondLossBeforeAllCameAgainKeepsTheRest) {
  auto engine = load({0, 2}, kRoom);
  StepBatch batch = rows_of(kA, 1, 0, 40);
  step(*engine, batch);
  engine->keep();
  batch = rows_of(kA, 1, 0, 10);
  EXPECT_EQ(step(*engine, batch).replayed, 10U);
  engine->keep();
  engine->keep();
  batch = rows_of(kA, 1, 0, 60);
  EXPECT_EQ(step(*engine, batch).replayed, 40U);
}

// Rows whose scores are wanted are computed again by the last stage, and say the same.
TEST_F(EngineReplayTest, ScoresComeAgainAfterALoss) {
  auto engine = load({0, 4}, kRoom);
  const auto scored = [](Position end) {
    StepBatch batch = rows_of(kA, 1, 0, end);
    batch.opens[0].prompt_tokens = 40;
    for (const BatchRow& row : rows_of(kA, 1, 0, 40).rows) {
      batch.opens[0].scored.push_back(row.token);
    }
    return batch;
  };
  StepBatch first = scored(25);
  const std::vector<SampledToken> before = step(*engine, first).scores;
  ASSERT_EQ(before.size(), 25U);
  engine->keep();
  StepBatch again = scored(40);
  const StepResult all = step(*engine, again);
  ASSERT_EQ(all.scores.size(), 39U) << "the last row scores nothing";
  EXPECT_TRUE(std::equal(before.begin(), before.end(), all.scores.begin()));
  EXPECT_EQ(all.replayed, 0U);
}

// So is the row whose embedding is wanted, and says the same.
TEST_F(EngineReplayTest, AnEmbeddingComesAgainAfterALoss) {
  auto engine = load({0, 4}, kRoom);
  const auto embedded = [](Position end) {
    StepBatch batch = rows_of(kA, 1, 0, end, end == 40);
    batch.opens[0].prompt_tokens = 40;
    batch.opens[0].embedding = 48;
    return batch;
  };
  StepBatch part = embedded(25);
  EXPECT_TRUE(step(*engine, part).embeddings.empty()) << "the last position gives it";
  engine->keep();
  StepBatch whole = embedded(40);
  const std::vector<PromptEmbedding> first = step(*engine, whole).embeddings;
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].values.size(), 48U);
  engine->keep();
  whole = embedded(40);
  const StepResult again = step(*engine, whole);
  EXPECT_EQ(again.replayed, 39U);
  EXPECT_EQ(again.embeddings, first);
}

// The last stage says no row again that it draws a token from, and draws the same.
TEST_F(EngineReplayTest, TheLastStageDrawsTheSame) {
  auto before = load({0, 3}, 0);
  auto engine = load({3, 4}, kRoom);
  const auto run = [&](Position end) {
    before->reset();
    StepBatch batch = rows_of(kA, 1, 0, end, true);
    step(*before, batch);
    return step(*engine, batch);
  };
  const StepResult computed = run(40);
  engine->keep();
  const StepResult replayed = run(40);
  EXPECT_EQ(replayed.replayed, 39U);
  EXPECT_EQ(replayed.tokens, computed.tokens);
  EXPECT_EQ(replayed.hashes, computed.hashes);
}

// A request that names another's sequence gets the results of its own rows.
TEST_F(EngineReplayTest, OtherRowsUnderTheSameIdAreComputed) {
  auto engine = load({0, 2}, kRoom);
  StepBatch batch = rows_of(kA, 1, 0, 40);
  step(*engine, batch);
  engine->keep();
  batch = rows_of(kA, 1, 0, 40);
  batch.rows[20].token = 299;
  StepBatch wanted = batch;
  EXPECT_EQ(step(*engine, batch).replayed, 20U);
  auto fresh = load({0, 2}, 0);
  step(*fresh, wanted);
  EXPECT_EQ(batch.activations, wanted.activations);
  EXPECT_EQ(engine->kv_hashes(kA).value(), fresh->kv_hashes(kA).value());
}

TEST_F(EngineReplayTest, ResetForgets) {
  auto engine = load({0, 2}, kRoom);
  StepBatch batch = rows_of(kA, 1, 0, 40);
  step(*engine, batch);
  engine->keep();
  engine->reset();
  batch = rows_of(kA, 1, 0, 40);
  EXPECT_EQ(step(*engine, batch).replayed, 0U);
}

TEST_F(EngineReplayTest, WithoutRoomNothingIsKept) {
  auto engine = load({0, 2}, 0);
  StepBatch batch = rows_of(kA, 1, 0, 40);
  step(*engine, batch);
  engine->keep();
  batch = rows_of(kA, 1, 0, 40);
  EXPECT_EQ(step(*engine, batch).replayed, 0U);
}

// Pages of sequences that may never come again are everybody's.
TEST_F(EngineReplayTest, KeptPagesAreFree) {
  const std::size_t page = 64 << 10;
  auto engine = load({0, 2}, kRoom, page);
  const Position all = engine->kv_pages() * 32;
  ASSERT_GE(engine->kv_pages(), 2U);
  StepBatch batch = rows_of(kA, 1, 0, 33);
  step(*engine, batch);
  engine->keep();
  for (Position at = 0; at < std::min(all, spec_.context); at += 32) {
    batch = rows_of(kB, 2, at, at + 32);
    EXPECT_TRUE(engine->can_begin(batch));
    step(*engine, batch);
    EXPECT_TRUE(std::none_of(batch.rows.begin(), batch.rows.end(),
                             [](const BatchRow& row) { return row.failed(); }));
  }
  engine->keep();
  batch = rows_of(kA, 1, 0, 33);
  step(*engine, batch);
  StepBatch wanted = rows_of(kA, 1, 0, 33);
  auto fresh = load({0, 2}, 0);
  step(*fresh, wanted);
  EXPECT_EQ(batch.activations, wanted.activations);
}

// Three stages that keep and three that never do, over the same steps: sequences that come again
// whole, in part or as another, cancellations, truncations, too few pages to keep all, too little
// room for all rows; in every boundary the same bits.
TEST_F(EngineReplayTest, RandomEpochsGiveTheSameBits) {
  const std::array<LayerRange, 3> stages{LayerRange{0, 1}, LayerRange{1, 3}, LayerRange{3, 4}};
  std::uint64_t replayed = 0;
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t end) {
      return static_cast<std::uint32_t>(random() % end);
    };
    std::vector<std::unique_ptr<Engine>> kept;
    std::vector<std::unique_ptr<Engine>> plain;
    for (const LayerRange& layers : stages) {
      const std::size_t budget = 16 * KvCache::page_bytes(spec_.kv_layouts(layers));
      kept.push_back(load(layers, 20'000 + 20'000 * below(4), budget));
      plain.push_back(load(layers, 0, budget));
    }
    std::map<std::uint64_t, Position> open;  // and how far each is
    std::map<std::uint64_t, std::uint32_t> content;
    for (std::uint32_t turn = 0; turn < 120; ++turn) {
      if (below(8) == 0) {
        open.clear();
        for (auto& engine : plain) engine->reset();
        const std::uint32_t lost = below(4);  // the machine of this stage, or of none
        for (std::uint32_t i = 0; i < 3; ++i) i == lost ? kept[i]->reset() : kept[i]->keep();
      }
      const std::uint64_t id = 1 + below(8);
      if (open.size() == 4 && !open.contains(id)) continue;  // 16 pages suffice for these
      const Position begin = open.contains(id) ? open[id] : 0;
      if (begin == 0 && below(6) == 0) ++content[id];
      const Position end = std::min<Position>(begin + 1 + below(40), 120);
      StepBatch batch;
      if (begin == end || below(12) == 0) {
        if (!open.contains(id)) continue;
        batch.releases = {SequenceId(id)};
        open.erase(id);
      } else {
        batch = rows_of(SequenceId(id), content[id] * 10 + static_cast<std::uint32_t>(id), begin,
                        end, below(2) == 0);
        if (begin > 8 && below(6) == 0) {  // the newest of them once more
          batch = rows_of(SequenceId(id), content[id] * 10 + static_cast<std::uint32_t>(id),
                          begin - 5, end);
          batch.truncates.push_back({SequenceId(id), begin - 5});
        }
        open[id] = end;
      }
      StepBatch same = batch;
      for (std::uint32_t i = 0; i < 3; ++i) {
        const StepResult again = step(*kept[i], batch);
        const StepResult wanted = step(*plain[i], same);
        ASSERT_EQ(batch.activations, same.activations) << "seed " << seed << ", stage " << i;
        ASSERT_EQ(batch.rows, same.rows) << "seed " << seed << ", stage " << i;
        ASSERT_EQ(again.tokens, wanted.tokens);
        ASSERT_EQ(again.hashes, wanted.hashes);
        ASSERT_GE(kept[i]->kv_pages_used(), plain[i]->kv_pages_used());
        replayed += again.replayed;
      }
    }
  }
  EXPECT_GT(replayed, 3'000U);
}

}  // namespace
}  // namespace hearth::node
