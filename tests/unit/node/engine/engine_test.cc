#include "node/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "model/synthetic.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace hearth::node {
namespace {

constexpr SequenceId kFirst{1};
constexpr SequenceId kSecond{2};

class EngineTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { bytes_ = new Bytes(model::synthetic_model_bytes({}).value()); }

  void SetUp() override {
    file_ = model::GgufFile::parse(*bytes_, "tiny").value();
    spec_ = model::ModelSpec::read(*file_).value();
  }

  Result<std::unique_ptr<Engine>> load(LayerRange layers, std::size_t budget = 16 << 20) {
    EngineOptions options;
    options.layers = layers;
    options.kv_budget_bytes = budget;
    options.batch_rows = 64;
    return Engine::load(file_, spec_, options);
  }

  // A step that opens `id` and brings its whole prompt.
  StepBatch prompt(SequenceId id, std::uint32_t tokens) {
    StepBatch batch;
    batch.opens.push_back({id, tokens, true, {}});
    batch.opens[0].sampling.temperature = 0.0F;
    for (std::uint32_t i = 0; i < tokens; ++i) {
      batch.rows.push_back({id, i, static_cast<TokenId>(3 + i % 100),
                            i + 1 == tokens ? BatchRow::kSample : std::uint8_t{0}});
    }
    return batch;
  }

  static Bytes* bytes_;
  std::shared_ptr<const model::GgufFile> file_;
  model::ModelSpec spec_;
};
Bytes* EngineTest::bytes_ = nullptr;

TEST_F(EngineTest, ComputesReportsAndReleases) {
  auto engine = load({0, spec_.layers}).value();
  EXPECT_TRUE(engine->is_first() && engine->is_last());
  EXPECT_GT(engine->weight_bytes(), 0U);
  StepBatch batch = prompt(kFirst, 40);
  StepResult result;
  ASSERT_TRUE(engine->step(batch, result).ok());
  ASSERT_EQ(result.tokens.size(), 1U);
  EXPECT_EQ(result.tokens[0].sequence, kFirst);
  EXPECT_EQ(result.tokens[0].position, 40U);
  EXPECT_EQ(result.tokens[0].finish, FinishReason::kNone);
  EXPECT_EQ(result.hashes.size(), 40U);
  EXPECT_TRUE(batch.activations.empty());
  EXPECT_EQ(engine->kv_pages_used(), 2U);
  StepBatch end;
  end.releases = {kFirst};
  ASSERT_TRUE(engine->step(end, result).ok());
  EXPECT_EQ(result.released, std::vector<SequenceId>{kFirst});
  EXPECT_EQ(engine->kv_pages_used(), 0U);
}

// On the processor, which has nothing to do beside a step, the next one waits.
TEST_F(EngineTest, AStepIsBegunAndFinished) {
  auto engine = load({0, spec_.layers}).value();
  StepBatch batch = prompt(kFirst, 40);
  const StepBatch given = batch;
  ASSERT_TRUE(engine->can_begin(batch));
  ASSERT_TRUE(engine->begin(batch).ok());
  StepBatch end;
  end.releases = {kFirst};
  EXPECT_FALSE(engine->can_begin(end));
  EXPECT_TRUE(engine->ready());
  StepResult result;
  ASSERT_TRUE(engine->finish(batch, result).ok());
  EXPECT_EQ(batch, given);
  EXPECT_EQ(result.tokens.size(), 1U);
  ASSERT_TRUE(engine->begin(end).ok());
  EXPECT_EQ(engine->kv_pages_used(), 0U) << "free once the release has begun";
  ASSERT_TRUE(engine->finish(end, result).ok());
  EXPECT_EQ(result.released, std::vector<SequenceId>{kFirst});
  StepBatch bad;
  bad.releases = {kSecond};
  EXPECT_FALSE(engine->begin(bad).ok());
  EXPECT_EQ(bad.releases, std::vector<SequenceId>{kSecond}) << "a refused batch stays";
  EXPECT_TRUE(engine->can_begin(given)) << "and nothing is under way";
}

#if defined(__SSE__)
// A library may change the float mode of a thread at any time; a step looks, wherever it runs.
TEST_F(EngineTest, AStepOnAThreadOfAnotherFloatModeIsRefused) {
  auto engine = load({0, spec_.layers}).value();
  for (const unsigned mode : {0x8000U, 0x0040U, 0x2000U, 0x4000U, 0x6000U}) {
    Status status = ok_status();
    std::thread([&] {
      _mm_setcsr(_mm_getcsr() | mode);
      StepBatch batch = prompt(kFirst, 4);
      StepResult result;
      status = engine->step(batch, result);
    }).join();
    ASSERT_FALSE(status.ok()) << mode;
    EXPECT_EQ(status.error().code, ErrorCode::kNumeric);
  }
  StepBatch batch = prompt(kFirst, 4);
  StepResult result;
  EXPECT_TRUE(engine->step(batch, result).ok());
}
#endif

TEST_F(EngineTest, ResetGivesEverythingBack) {
  auto engine = load({0, 2}).value();
  StepBatch batch = prompt(kFirst, 40);
  StepResult result;
  ASSERT_TRUE(engine->step(batch, result).ok());
  EXPECT_EQ(batch.activations.size(), 40U * spec_.hidden * 2);
  engine->reset();
  EXPECT_EQ(engine->kv_pages_used(), 0U);
  batch = prompt(kFirst, 5);
  EXPECT_TRUE(engine->step(batch, result).ok());
}

// Positions 3 and 39 of the first sequence: the one in the prompt samples nothing, the last does.
struct SomeLogits final : LogitsObserver {
  bool wants(SequenceId sequence, Position position) const override {
    return sequence == kFirst && (position == 3 || position == 39);
  }
  void on_logits(SequenceId, Position position, std::span<const float> logits) override {
    seen[position == 3 ? 0 : 1].assign(logits.begin(), logits.end());
  }
  std::vector<float> seen[2];
};

TEST_F(EngineTest, AnObserverSeesTheLogitsItWantsAndChangesNothing) {
  SomeLogits observer;
  EngineOptions options;
  options.layers = {0, spec_.layers};
  options.kv_budget_bytes = 16 << 20;
  options.batch_rows = 64;
  options.logits = &observer;
  auto watched = Engine::load(file_, spec_, options).value();
  auto engine = load(options.layers).value();
  StepResult result;
  StepResult wanted;
  StepBatch batch = prompt(kFirst, 40);
  StepBatch same = batch;
  ASSERT_TRUE(watched->step(batch, result).ok());
  ASSERT_TRUE(engine->step(same, wanted).ok());
  EXPECT_EQ(result.tokens, wanted.tokens);
  EXPECT_EQ(result.hashes, wanted.hashes);
  ASSERT_EQ(observer.seen[1].size(), spec_.vocabulary);
  const auto best = std::max_element(observer.seen[1].begin(), observer.seen[1].end());
  EXPECT_EQ(best - observer.seen[1].begin(), result.tokens[0].token);
  // The same position as the last one of a prompt.
  const std::vector<float> inside = observer.seen[0];
  ASSERT_EQ(inside.size(), spec_.vocabulary);
  watched->reset();
  batch = prompt(kFirst, 4);
  ASSERT_TRUE(watched->step(batch, result).ok());
  EXPECT_EQ(observer.seen[0], inside);
}

TEST_F(EngineTest, WhatCameInIsGivenBackAndNotCopied) {
  auto first = load({0, 1}).value();
  auto rest = load({1, spec_.layers}).value();
  StepResult result;
  StepBatch batch = prompt(kFirst, 20);
  ASSERT_TRUE(first->step(batch, result).ok());
  EXPECT_TRUE(result.input.empty());
  const Bytes between = batch.activations;
  const std::byte* bytes = batch.activations.data();
  batch.boundary = 1;
  ASSERT_TRUE(rest->step(batch, result).ok());
  EXPECT_EQ(result.input, between);
  EXPECT_EQ(result.input.data(), bytes);
  EXPECT_TRUE(batch.activations.empty());
}

TEST_F(EngineTest, StagesLoadOnlyTheirShare) {
  const std::size_t whole = load({0, spec_.layers}).value()->weight_bytes();
  const std::size_t middle = load({1, 2}).value()->weight_bytes();
  const std::size_t first = load({0, 1}).value()->weight_bytes();
  EXPECT_LT(middle * 3, whole);
  EXPECT_GT(first, middle);
}

TEST_F(EngineTest, RefusesABatchThatBreaksTheContractAndChangesNothing) {
  auto engine = load({0, spec_.layers}).value();
  StepResult result;
  StepBatch good = prompt(kFirst, 10);
  ASSERT_TRUE(engine->step(good, result).ok());
  const std::uint32_t used = engine->kv_pages_used();
  const std::vector<std::function<void(StepBatch&)>> breakages = {
      [](StepBatch& b) {
        b.rows.push_back({kSecond, 0, 5, 0});
      },  // never opened
      [](StepBatch& b) {
        b.rows.push_back({kFirst, 11, 5, 0});
      },  // a gap
      [](StepBatch& b) {
        b.rows.push_back({kFirst, 9, 5, 0});
      },  // seen before
      [](StepBatch& b) {
        b.rows.push_back({kFirst, 10, -1, 0});
      },  // token
      [](StepBatch& b) {
        b.rows.push_back({kFirst, 10, 400, 0});
      },  // token
      [](StepBatch& b) {
        b.rows = {{kFirst, 10, 5, 0}, {kFirst, 12, 5, 0}};
      },                                                // a gap inside
      [](StepBatch& b) { b.activations.resize(256); },  // first stage
      [](StepBatch& b) {
        b.opens.push_back({kFirst, 5, false, {}});
      },  // open already
      [](StepBatch& b) {
        b.opens = {{kSecond, 5, false, {}}, {kSecond, 5, false, {}}};
      },
      [](StepBatch& b) {
        b.opens.push_back({kSecond, 0, false, {}});
      },  // no prompt
      [](StepBatch& b) {
        b.opens.push_back({kSecond, 513, false, {}});
      },                                             // over the context
      [](StepBatch& b) { b.releases = {kSecond}; },  // never opened
      [](StepBatch& b) {
        b.releases = {kFirst, kFirst};
      },                  // twice
      [](StepBatch& b) {  // sampled too early
        b.opens.push_back({kSecond, 5, false, {}});
        b.rows.push_back({kSecond, 0, 5, BatchRow::kSample});
      },
      [](StepBatch& b) {  // rows of a sequence apart
        b.opens.push_back({kSecond, 5, false, {}});
        b.rows = {{kSecond, 0, 5, 0}, {kFirst, 10, 5, 0}, {kSecond, 1, 5, 0}};
      },
      [](StepBatch& b) {  // too many rows
        for (Position i = 0; i < 65; ++i) b.rows.push_back({kFirst, 10 + i, 5, 0});
      },
  };
  for (std::size_t i = 0; i < breakages.size(); ++i) {
    StepBatch batch;
    breakages[i](batch);
    const Status status = engine->step(batch, result);
    ASSERT_FALSE(status.ok()) << i;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidInput) << i;
    EXPECT_EQ(engine->kv_pages_used(), used) << i;
  }
  StepBatch next;
  next.rows = {{kFirst, 10, 5, BatchRow::kSample}};
  ASSERT_TRUE(engine->step(next, result).ok());
  EXPECT_EQ(result.tokens.size(), 1U);
}

TEST_F(EngineTest, PagesThatRunOutFailTheirSequenceAlone) {
  auto one = load({0, spec_.layers}).value();
  const std::size_t page = (std::size_t{16} << 20) / one->kv_pages();
  auto engine = load({0, spec_.layers}, page * 2).value();
  ASSERT_LE(engine->kv_pages(), 3U);
  StepResult result;
  StepBatch batch = prompt(kFirst, 20);
  StepBatch other = prompt(kSecond, 44);
  other.rows.resize(44);
  batch.opens.push_back(other.opens[0]);
  batch.opens[1].prompt_tokens = 100;
  other.rows.back().flags = 0;
  batch.rows.insert(batch.rows.end(), other.rows.begin(), other.rows.end());
  ASSERT_TRUE(engine->step(batch, result).ok());
  ASSERT_EQ(result.tokens.size(), 1U);
  EXPECT_EQ(result.tokens[0].sequence, kFirst);
  EXPECT_EQ(result.tokens[0].finish, FinishReason::kNone);
  batch = {};
  for (Position i = 44; i < 100; ++i) batch.rows.push_back({kSecond, i, 5, 0});
  batch.rows.back().flags = BatchRow::kSample;
  batch.rows.push_back({kFirst, 20, 5, BatchRow::kSample});
  ASSERT_TRUE(engine->step(batch, result).ok());
  ASSERT_EQ(result.tokens.size(), 2U);
  EXPECT_EQ(result.tokens[0].finish, FinishReason::kError);
  EXPECT_EQ(result.tokens[0].error, ErrorCode::kNoCapacity);
  EXPECT_EQ(result.tokens[1].finish, FinishReason::kNone);
  batch = {};
  batch.releases = {kFirst, kSecond};
  ASSERT_TRUE(engine->step(batch, result).ok());
  EXPECT_EQ(engine->kv_pages_used(), 0U);
}

TEST_F(EngineTest, TheReasonOfAFailureTravelsWithTheRow) {
  auto one = load({0, 1}).value();
  const std::size_t page = (std::size_t{16} << 20) / one->kv_pages();
  auto first = load({0, 1}, page).value();
  auto middle = load({1, 2}).value();
  auto last = load({2, spec_.layers}).value();
  StepResult result;
  StepBatch batch = prompt(kFirst, first->kv_pages() * 32 + 1);
  ASSERT_LE(batch.rows.size(), 64U);
  ASSERT_TRUE(first->step(batch, result).ok());
  EXPECT_EQ(batch.rows.back().reason(), ErrorCode::kNoCapacity);
  ASSERT_TRUE(middle->step(batch, result).ok());
  ASSERT_TRUE(last->step(batch, result).ok());
  ASSERT_EQ(result.tokens.size(), 1U);
  EXPECT_EQ(result.tokens[0].finish, FinishReason::kError);
  EXPECT_EQ(result.tokens[0].error, ErrorCode::kNoCapacity);
}

TEST_F(EngineTest, RowsThatLeaveTheRangeEndInAnErrorAndTouchNoOtherRow) {
  auto first = load({0, 1}).value();
  auto last = load({1, spec_.layers}).value();
  StepResult result;
  StepBatch batch = prompt(kFirst, 8);
  const StepBatch other = prompt(kSecond, 8);
  batch.opens.push_back(other.opens[0]);
  batch.rows.insert(batch.rows.end(), other.rows.begin(), other.rows.end());
  ASSERT_TRUE(first->step(batch, result).ok());
  const StepBatch clean = batch;
  ASSERT_TRUE(last->step(batch, result).ok());
  const std::vector<SampledToken> expected = result.tokens;
  last->reset();
  batch = clean;
  const std::uint16_t infinity = 0x7C00;
  std::memcpy(batch.activations.data() + 3 * spec_.hidden * 2, &infinity, 2);
  ASSERT_TRUE(last->step(batch, result).ok());
  ASSERT_EQ(result.tokens.size(), 2U);
  EXPECT_EQ(result.tokens[0].finish, FinishReason::kError);
  EXPECT_EQ(result.tokens[0].error, ErrorCode::kNumeric);
  EXPECT_EQ(result.tokens[1], expected[1]);
  EXPECT_EQ(batch.rows[2].flags, 0);
  for (int i = 3; i < 8; ++i) EXPECT_NE(batch.rows[i].flags & BatchRow::kFailed, 0) << i;
  EXPECT_EQ(batch.rows[8].flags, 0);
}

TEST_F(EngineTest, RefusesOptionsThatCannotWork) {
  EXPECT_FALSE(load({2, 2}).ok());
  EXPECT_FALSE(load({0, spec_.layers + 1}).ok());
  EXPECT_EQ(load({0, 1}, 100).error().code, ErrorCode::kNoCapacity);
}

TEST_F(EngineTest, EndsByStopTokenByLengthAndByContext) {
  auto engine = load({0, spec_.layers}).value();
  StepResult result;
  StepBatch batch = prompt(kFirst, 4);
  batch.opens[0].sampling.max_tokens = 1;
  ASSERT_TRUE(engine->step(batch, result).ok());
  EXPECT_EQ(result.tokens[0].finish, FinishReason::kLength);
  const TokenId token = result.tokens[0].token;
  engine->reset();
  batch = prompt(kFirst, 4);
  batch.opens[0].sampling.stop_tokens = {token};
  batch.opens[0].sampling.max_tokens = 1;
  ASSERT_TRUE(engine->step(batch, result).ok());
  EXPECT_EQ(result.tokens[0].finish, FinishReason::kStop);
  engine->reset();
  StepBatch whole = prompt(kFirst, spec_.context - 1);
  whole.opens[0].sampling.max_tokens = 1000;
  for (std::size_t at = 0; at < whole.rows.size(); at += 64) {
    batch = {};
    if (at == 0) batch.opens = whole.opens;
    const std::size_t end = std::min(at + 64, whole.rows.size());
    batch.rows.assign(whole.rows.begin() + static_cast<std::ptrdiff_t>(at),
                      whole.rows.begin() + static_cast<std::ptrdiff_t>(end));
    ASSERT_TRUE(engine->step(batch, result).ok());
  }
  EXPECT_EQ(result.tokens[0].finish, FinishReason::kLength);
}

}  // namespace
}  // namespace hearth::node
