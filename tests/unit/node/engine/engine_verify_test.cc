// Several sampled rows of one sequence in one step, and the truncates that drop what was rejected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "model/synthetic.h"
#include "node/engine/engine.h"

namespace hearth::node {
namespace {

constexpr SequenceId kWhole{1};
constexpr SequenceId kOther{2};

class Verify : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { bytes_ = new Bytes(model::synthetic_model_bytes({}).value()); }

  void SetUp() override {
    file_ = model::GgufFile::parse(*bytes_, "tiny").value();
    spec_ = model::ModelSpec::read(*file_).value();
  }

  std::unique_ptr<Engine> load(LayerRange layers, std::size_t budget = 16 << 20) {
    EngineOptions options;
    options.layers = layers;
    options.kv_budget_bytes = budget;
    options.batch_rows = 64;
    return Engine::load(file_, spec_, options).value();
  }

  // A step that opens `id` and brings its whole prompt.
  StepBatch prompt(SequenceId id, std::uint32_t tokens) {
    StepBatch batch;
    batch.opens.push_back({id, tokens, true, {}});
    SamplingParams& sampling = batch.opens[0].sampling;
    sampling.seed = 5;
    sampling.frequency_penalty = 1.5F;
    sampling.repetition_penalty = 1.2F;
    sampling.max_tokens = 100;
    for (std::uint32_t i = 0; i < tokens; ++i) {
      batch.rows.push_back({id, i, static_cast<TokenId>(3 + i % 100),
                            i + 1 == tokens ? BatchRow::kSample : std::uint8_t{0}});
    }
    return batch;
  }

  static StepResult run(Engine& engine, StepBatch batch) {
    StepResult result;
    const Status status = engine.step(batch, result);
    EXPECT_TRUE(status.ok()) << status.error().message;
    return result;
  }

  static BatchRow row(Position position, TokenId token) {
    return {kWhole, position, token, BatchRow::kSample};
  }

  // Greedy on no account: every position draws. The tokens of positions 10 to 10 + count.
  std::vector<TokenId> plain(std::uint32_t count) {
    auto engine = load({0, spec_.layers});
    std::vector<TokenId> tokens = {run(*engine, prompt(kWhole, 10)).tokens.at(0).token};
    for (std::uint32_t i = 0; i < count; ++i) {
      StepBatch batch;
      batch.rows = {row(10 + i, tokens.back())};
      tokens.push_back(run(*engine, batch).tokens.at(0).token);
    }
    return tokens;
  }

  static Bytes* bytes_;
  std::shared_ptr<const model::GgufFile> file_;
  model::ModelSpec spec_;
};
Bytes* Verify::bytes_ = nullptr;

TEST_F(Verify, RowsOfOneStepSampleWhatStepsOfTheirOwnDo) {
  const std::vector<TokenId> wanted = plain(40);
  auto engine = load({0, spec_.layers});
  StepBatch batch = prompt(kWhole, 10);  // the answer is known: all of it at once
  for (Position i = 0; i < 40; ++i) batch.rows.push_back(row(10 + i, wanted[i]));
  const StepResult result = run(*engine, batch);
  ASSERT_EQ(result.tokens.size(), 41U);
  for (Position i = 0; i < 41; ++i) {
    EXPECT_EQ(result.tokens[i].position, 10 + i);
    EXPECT_EQ(result.tokens[i].token, wanted[i]) << i;
  }
}

TEST_F(Verify, WhatIsRejectedLeavesNoTrace) {
  const std::vector<TokenId> wanted = plain(40);
  auto engine = load({0, spec_.layers});
  run(*engine, prompt(kWhole, 10));
  for (Position at = 0; at < 40; ++at) {
    StepBatch batch;  // one right row, and five wrong ones behind it
    if (at > 0) batch.truncates = {{kWhole, 10 + at}};
    batch.rows = {row(10 + at, wanted[at])};
    for (Position i = 1; i < 6; ++i) {
      batch.rows.push_back(row(10 + at + i, (wanted[at] + static_cast<TokenId>(i)) % 300));
    }
    const StepResult result = run(*engine, batch);
    ASSERT_EQ(result.tokens.size(), 6U);
    EXPECT_EQ(result.tokens[0].token, wanted[at + 1]) << at;
  }
}

// Behind a draft that was not drawn nothing is said, and the counts say so.
TEST_F(Verify, DraftsAreAcceptedAsFarAsTheyAreDrawn) {
  const std::vector<TokenId> wanted = plain(40);
  auto engine = load({0, spec_.layers});
  run(*engine, prompt(kWhole, 10));
  for (std::uint32_t right = 0; right < 5; ++right) {
    StepBatch batch;
    if (right > 0) batch.truncates = {{kWhole, 10}};
    batch.rows = {row(10, wanted[0])};
    for (Position i = 1; i < 5; ++i) {
      const TokenId token = i <= right ? wanted[i] : (wanted[i] + 1) % 300;
      batch.rows.push_back(row(10 + i, token));
      batch.rows.back().flags |= BatchRow::kDraft;
      if (i > 2) batch.rows.back().flags |= BatchRow::kForced;
    }
    const StepResult result = run(*engine, batch);
    ASSERT_EQ(result.tokens.size(), right + 1);
    for (Position i = 0; i <= right; ++i) {
      EXPECT_EQ(result.tokens[i].position, 11 + i);
      EXPECT_EQ(result.tokens[i].token, wanted[i + 1]);
    }
    ASSERT_EQ(result.drafts.size(), 1U);
    EXPECT_EQ(result.drafts[0].sequence, kWhole);
    EXPECT_EQ(result.drafts[0].counts[0], (DraftCount{2, std::min(right, 2U)}));
    EXPECT_EQ(result.drafts[0].counts[1], (DraftCount{2, right - std::min(right, 2U)}));
  }
}

TEST_F(Verify, NothingIsDrawnBehindTheEnd) {
  const std::vector<TokenId> wanted = plain(10);
  for (const bool stop : {true, false}) {
    auto engine = load({0, spec_.layers});
    StepBatch batch = prompt(kWhole, 10);
    SamplingParams& sampling = batch.opens[0].sampling;
    if (stop) sampling.stop_tokens = {wanted[3]};
    if (!stop) sampling.max_tokens = 4;
    run(*engine, batch);
    batch = {};
    for (Position i = 0; i < (stop ? 6 : 4); ++i) {
      batch.rows.push_back(row(10 + i, wanted[i]));
      if (i > 0) batch.rows.back().flags |= BatchRow::kDraft;
    }
    const StepResult result = run(*engine, batch);
    std::size_t until = 1;  // the first time that the stop token comes
    while (stop && wanted[until] != wanted[3]) ++until;
    ASSERT_EQ(result.tokens.size(), stop ? until : 3U);
    EXPECT_EQ(result.tokens.back().finish, stop ? FinishReason::kStop : FinishReason::kLength);
  }
}

// Hashes of drafts wait until it is known that they stay.
TEST_F(Verify, HashesOfDroppedDraftsAreNeverReported) {
  const std::vector<TokenId> wanted = plain(10);
  auto engine = load({0, spec_.layers});
  EXPECT_EQ(run(*engine, prompt(kWhole, 10)).hashes.size(), 10U);
  StepBatch batch;
  batch.rows = {row(10, wanted[0]), row(11, wanted[1]), row(12, (wanted[2] + 1) % 300)};
  batch.rows[1].flags |= BatchRow::kDraft;
  batch.rows[2].flags |= BatchRow::kDraft;
  const auto positions = [](const StepResult& result) {
    std::vector<Position> all;
    for (const RowHash& hash : result.hashes) all.push_back(hash.position);
    return all;
  };
  EXPECT_EQ(positions(run(*engine, batch)), (std::vector<Position>{10}));
  batch = {};
  batch.truncates = {{kWhole, 12}};
  batch.rows = {row(12, wanted[2]), row(13, wanted[3]), row(14, wanted[4])};
  batch.rows[1].flags |= BatchRow::kDraft;
  batch.rows[2].flags |= BatchRow::kDraft;
  EXPECT_EQ(positions(run(*engine, batch)), (std::vector<Position>{11, 12}));
  batch = {};
  batch.truncates = {{kWhole, 14}};
  batch.releases = {kWhole};
  EXPECT_EQ(positions(run(*engine, batch)), (std::vector<Position>{13}));
}

TEST_F(Verify, WholePagesGoBackAtOnce) {
  auto engine = load({0, spec_.layers});
  StepBatch batch = prompt(kWhole, 10);
  for (Position i = 10; i < 64; ++i) batch.rows.push_back(row(i, 5));
  run(*engine, batch);
  batch = {};
  for (Position i = 64; i < 97; ++i) batch.rows.push_back(row(i, 5));
  run(*engine, batch);
  EXPECT_EQ(engine->kv_pages_used(), 4U);
  for (const auto& [length, pages] : {std::pair{97U, 4U}, {96U, 3U}, {65U, 3U}, {32U, 1U}}) {
    batch = {};
    batch.truncates = {{kWhole, length}};
    run(*engine, batch);
    EXPECT_EQ(engine->kv_pages_used(), pages) << length;
  }
  batch = {};
  batch.truncates = {{kWhole, 10}};
  batch.releases = {kWhole};
  run(*engine, batch);
  EXPECT_EQ(engine->kv_pages_used(), 0U);
}

TEST_F(Verify, ADraftWithoutAPageIsForgottenWithIt) {
  const std::vector<TokenId> wanted = plain(23);
  const std::size_t page = (std::size_t{16} << 20) / load({0, spec_.layers})->kv_pages();
  auto engine = load({0, spec_.layers}, page + page / 2);
  ASSERT_EQ(engine->kv_pages(), 1U);
  run(*engine, prompt(kWhole, 10));
  StepBatch batch;
  for (Position i = 0; i < 24; ++i) batch.rows.push_back(row(10 + i, wanted[i]));
  StepResult result = run(*engine, batch);
  ASSERT_EQ(result.tokens.size(), 24U);
  for (Position i = 0; i < 24; ++i) {
    const bool fits = i < 22;
    EXPECT_EQ(result.tokens[i].finish, fits ? FinishReason::kNone : FinishReason::kError) << i;
    EXPECT_EQ(result.tokens[i].error, fits ? ErrorCode::kNumeric : ErrorCode::kNoCapacity) << i;
    EXPECT_EQ(result.tokens[i].token, fits ? wanted[i + 1] : 0) << i;
  }
  batch = {};
  batch.truncates = {{kWhole, 31}};
  batch.rows = {row(31, wanted[21])};
  result = run(*engine, batch);
  EXPECT_EQ(result.tokens.at(0).finish, FinishReason::kNone);
  EXPECT_EQ(result.tokens.at(0).token, wanted[22]);
}

// A draft that leaves the numeric range fails itself and those behind it, on this stage and the
// next ones, and nothing once it is dropped.
TEST_F(Verify, ADraftThatLeavesTheRangeTouchesNothingBeforeIt) {
  const std::vector<TokenId> wanted = plain(6);
  auto first = load({0, 1});
  auto middle = load({1, 2});
  auto last = load({2, spec_.layers});
  const auto through = [&](StepBatch batch, std::optional<std::size_t> broken) {
    StepResult result;
    EXPECT_TRUE(first->step(batch, result).ok());
    const std::uint16_t infinity = 0x7C00;
    if (broken) {
      std::memcpy(batch.activations.data() + *broken * spec_.hidden * 2, &infinity, 2);
    }
    EXPECT_TRUE(middle->step(batch, result).ok());
    EXPECT_TRUE(last->step(batch, result).ok());
    return result.tokens;
  };
  through(prompt(kWhole, 10), {});
  StepBatch batch;
  for (Position i = 0; i < 4; ++i) batch.rows.push_back(row(10 + i, wanted[i]));
  const std::vector<SampledToken> tokens = through(batch, 2);
  ASSERT_EQ(tokens.size(), 4U);
  for (Position i = 0; i < 4; ++i) {
    EXPECT_EQ(tokens[i].finish, i < 2 ? FinishReason::kNone : FinishReason::kError) << i;
    EXPECT_EQ(tokens[i].token, i < 2 ? wanted[i + 1] : 0) << i;
    EXPECT_EQ(tokens[i].error, ErrorCode::kNumeric) << i;
  }
  batch = {};  // what failed stays: so does the failure
  batch.truncates = {{kWhole, 13}};
  batch.rows = {row(13, wanted[3])};
  EXPECT_EQ(through(batch, {}).at(0).finish, FinishReason::kError);
  batch = {};
  batch.truncates = {{kWhole, 12}};
  for (Position i = 2; i < 5; ++i) batch.rows.push_back(row(10 + i, wanted[i]));
  const std::vector<SampledToken> again = through(batch, {});
  ASSERT_EQ(again.size(), 3U);
  for (Position i = 0; i < 3; ++i) EXPECT_EQ(again[i].token, wanted[i + 3]) << i;
}

TEST_F(Verify, RefusedTruncatesChangeNothing) {
  const std::vector<TokenId> wanted = plain(2);
  auto engine = load({0, spec_.layers});
  run(*engine, prompt(kWhole, 10));
  StepBatch batch;
  batch.rows = {row(10, wanted[0])};
  run(*engine, batch);
  const std::vector<std::vector<SequenceTruncate>> wrong = {
      {{kOther, 5}}, {{kWhole, 12}},         {{kWhole, 9}},
      {{kWhole, 0}}, {{kWhole, 0xFFFFFFFF}}, {{kWhole, 10}, {kWhole, 10}}};
  for (const auto& truncates : wrong) {
    StepBatch bad;
    bad.truncates = truncates;
    StepResult result;
    const Status status = engine->step(bad, result);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(status.error().message.find("truncated to"), std::string::npos);
  }
  batch = {};
  batch.rows = {row(11, wanted[1])};
  EXPECT_EQ(run(*engine, batch).tokens.at(0).token, wanted[2]);
}

}  // namespace
}  // namespace hearth::node
