// Sequences that keep a state beside keys and values: the layers of gated delta nets.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/limits.h"
#include "kernels/canonical.h"
#include "model/synthetic.h"
#include "node/engine/engine.h"
#include "node/engine/stage_memory.h"

namespace hearth::node {
namespace {

constexpr LayerRange kAll{0, 4};

class EngineStateTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    model::SyntheticOptions options;
    options.family = "qwen35";
    options.head_dim = 64;
    bytes_ = new Bytes(model::synthetic_model_bytes(options).value());
  }

  void SetUp() override {
    file_ = model::GgufFile::parse(*bytes_, "tiny").value();
    spec_ = model::ModelSpec::read(*file_).value();
  }

  EngineOptions options(LayerRange layers, std::uint32_t sequences) const {
    EngineOptions options;
    options.layers = layers;
    options.kv_budget_bytes = 16 << 20;
    options.batch_rows = 64;
    options.sequences = sequences;
    options.replay_bytes = 1 << 20;
    return options;
  }

  std::unique_ptr<Engine> load(std::uint32_t sequences, LayerRange layers = kAll) {
    return Engine::load(file_, spec_, options(layers, sequences)).value();
  }

  // Rows [begin, end) of a prompt of `tokens`; the first of them open the sequence.
  static StepBatch rows(std::uint64_t id, Position begin, Position end, std::uint32_t tokens) {
    StepBatch batch;
    if (begin == 0) {
      batch.opens.push_back({SequenceId(id), tokens, true, {}});
      batch.opens[0].sampling.temperature = 0.0F;
      batch.opens[0].scope = Hash256{};
    }
    for (Position i = begin; i < end; ++i) {
      const auto token = static_cast<TokenId>(3 + (7 * i + 3) % 100);
      batch.rows.push_back(
          {SequenceId(id), i, token, i + 1 == tokens ? BatchRow::kSample : std::uint8_t{0}});
    }
    return batch;
  }

  static StepResult step(Engine& engine, StepBatch batch) {
    StepResult result;
    EXPECT_TRUE(engine.step(batch, result).ok());
    return result;
  }

  static Bytes* bytes_;
  std::shared_ptr<const model::GgufFile> file_;
  model::ModelSpec spec_;
};
Bytes* EngineStateTest::bytes_ = nullptr;

TEST_F(EngineStateTest, CutsOfAPromptLeaveTheSameStates) {
  auto whole = load(1);
  const StepResult once = step(*whole, rows(1, 0, 50, 50));
  const auto kept = whole->kv_hashes(SequenceId(1)).value();
  ASSERT_EQ(kept.size(), 4U);
  for (const std::vector<Position>& cuts :
       {std::vector<Position>{1, 2, 3, 4, 5, 50}, {3, 50}, {32, 33, 50}, {49, 50}}) {
    auto engine = load(2);
    step(*engine, rows(9, 0, 40, 40));  // of another sequence, which changes nothing
    StepResult last;
    Position begin = 0;
    for (const Position end : cuts) {
      last = step(*engine, rows(1, begin, end, 50));
      begin = end;
    }
    EXPECT_EQ(engine->kv_hashes(SequenceId(1)).value(), kept);
    ASSERT_EQ(last.tokens.size(), 1U);
    EXPECT_EQ(last.tokens[0].token, once.tokens[0].token);
    EXPECT_EQ(last.hashes.back().out, once.hashes.back().out);
  }
}

// Neither pages nor states of ended sequences serve another; the stages of a new pipeline, which
// take the same sequence again, compute it again.
TEST_F(EngineStateTest, NothingIsKeptOfEndedSequences) {
  auto engine = load(1);
  step(*engine, rows(1, 0, 40, 40));
  const auto first = engine->kv_hashes(SequenceId(1)).value();
  StepBatch release;
  release.releases.push_back(SequenceId(1));
  EXPECT_EQ(step(*engine, release).kv_pages_kept, 0U);
  const StepResult again = step(*engine, rows(2, 0, 40, 40));
  EXPECT_EQ(again.replayed, 0U);
  EXPECT_TRUE(again.cached.empty());
  EXPECT_EQ(engine->kv_hashes(SequenceId(2)).value(), first) << "the state began anew";
  engine->keep();
  EXPECT_EQ(step(*engine, rows(2, 0, 20, 40)).replayed, 0U);
  step(*engine, rows(2, 20, 40, 40));
  EXPECT_EQ(engine->kv_hashes(SequenceId(2)).value(), first);
}

// The pipeline of two stages loses its second one after some tokens. The first stage keeps nothing,
// another stage takes the place, and both take the prompt and the answer so far again, cut
// otherwise.
TEST_F(EngineStateTest, AReplacedStageGoesOnWithTheSameTokens) {
  constexpr std::uint32_t kPrompt = 37;
  const auto through = [](Engine& one, Engine& two, StepBatch batch) {
    StepResult result;
    EXPECT_TRUE(one.step(batch, result).ok());
    EXPECT_TRUE(two.step(batch, result).ok());
    return result.tokens;
  };
  const auto row_of = [](const SampledToken& token) {
    StepBatch batch;
    batch.rows.push_back({SequenceId(1), token.position, token.token, BatchRow::kSample});
    return batch;
  };
  auto first = load(2, {0, 2});
  auto second = load(2, {2, 4});
  std::vector<SampledToken> answer = through(*first, *second, rows(1, 0, kPrompt, kPrompt));
  while (answer.size() < 6) {
    answer.push_back(through(*first, *second, row_of(answer.back())).at(0));
  }
  first->keep();
  auto other = load(1, {2, 4});
  for (const auto& [begin, end] : {std::pair<Position, Position>{0, 5}, {5, 33}}) {
    EXPECT_TRUE(through(*first, *other, rows(1, begin, end, kPrompt)).empty());
  }
  StepBatch rest = rows(1, 33, kPrompt, kPrompt);
  rest.rows.back().flags = 0;
  for (std::size_t i = 0; i + 1 < answer.size(); ++i) {
    rest.rows.push_back({SequenceId(1), answer[i].position, answer[i].token, 0});
  }
  rest.rows.back().flags = BatchRow::kSample;
  const auto again = through(*first, *other, std::move(rest));
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].token, answer.back().token);
  EXPECT_EQ(again[0].position, answer.back().position);
  EXPECT_EQ(through(*first, *other, row_of(again[0])).at(0).position, answer.back().position + 1);
}

TEST_F(EngineStateTest, ASequenceWithoutAStateFailsAndOthersGoOn) {
  auto engine = load(1);
  EXPECT_EQ(engine->sequences(), 1U);
  EXPECT_GT(engine->kv_pages(), 1U);
  step(*engine, rows(1, 0, 10, 20));
  const StepResult refused = step(*engine, rows(2, 0, 5, 5));
  ASSERT_EQ(refused.tokens.size(), 1U);
  EXPECT_EQ(refused.tokens[0].finish, FinishReason::kError);
  EXPECT_EQ(refused.tokens[0].error, ErrorCode::kNoCapacity);
  EXPECT_EQ(step(*engine, rows(1, 10, 20, 20)).tokens[0].finish, FinishReason::kNone);
  StepBatch release;
  release.releases = {SequenceId(1), SequenceId(2)};
  step(*engine, release);
  EXPECT_EQ(step(*engine, rows(3, 0, 5, 5)).tokens[0].finish, FinishReason::kNone);
}

TEST_F(EngineStateTest, NoSequenceGoesBack) {
  auto engine = load(2);
  step(*engine, rows(1, 0, 8, 8));
  StepBatch truncate;
  truncate.truncates.push_back({SequenceId(1), 8});
  StepResult result;
  const Status back = engine->step(truncate, result);
  ASSERT_FALSE(back.ok());
  EXPECT_NE(back.error().message.find("keep a state, which cannot go back"), std::string::npos);
  StepBatch draft;
  draft.rows.push_back({SequenceId(1), 8, 5, BatchRow::kSample});
  draft.rows.push_back({SequenceId(1), 9, 5, BatchRow::kSample | BatchRow::kDraft});
  const Status drafted = engine->step(draft, result);
  ASSERT_FALSE(drafted.ok());
  EXPECT_NE(drafted.error().message.find("a draft, of a model"), std::string::npos);
}

TEST_F(EngineStateTest, AStageCountsWhatItsOwnLayersKeep) {
  const StageMemory states = stage_memory(*file_, spec_, options({0, 3}, 0)).value();
  EXPECT_EQ(states.page, 0U) << "no layer of it has attention";
  EXPECT_EQ(states.state, 3 * spec_.state_values() * sizeof(float));
  EXPECT_EQ(states.states, 64U);
  const StageMemory pages = stage_memory(*file_, spec_, options({3, 4}, 0)).value();
  EXPECT_EQ(pages.state, 0U);
  EXPECT_GT(pages.page, 0U);
  EXPECT_EQ(load(0, {3, 4})->sequences(), limits::kRunningSequences);
  EXPECT_EQ(load(0, {0, 3})->sequences(), 64U);
  EngineOptions scarce = options(kAll, 0);
  const StageMemory both = stage_memory(*file_, spec_, scarce).value();
  scarce.kv_budget_bytes = both.page + both.state;
  const StageMemory least = stage_memory(*file_, spec_, scarce).value();
  EXPECT_EQ(least.pages, 1U);
  EXPECT_EQ(least.states, 1U);
  scarce.kv_budget_bytes -= 1;
  const auto refused = stage_memory(*file_, spec_, scarce);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("the state of one sequence"), std::string::npos);
}

TEST_F(EngineStateTest, TheBudgetOfSomeSequencesHoldsThem) {
  for (const LayerRange layers : {kAll, LayerRange{0, 1}, LayerRange{3, 4}, LayerRange{1, 4}}) {
    EngineOptions asked = options(layers, 3);
    asked.kv_budget_bytes = kv_budget_of(spec_, layers, 5, 3);
    const StageMemory memory = stage_memory(*file_, spec_, asked).value();
    EXPECT_GE(memory.pages, 5U) << text_of(layers);
    EXPECT_EQ(memory.states, layers.size() == 1 && layers.begin == 3 ? 0U : 3U) << text_of(layers);
    EXPECT_LE(memory.page * memory.pages + memory.state * memory.states, asked.kv_budget_bytes);
  }
}

// A stage may have states and the head together, or one of them alone.
TEST_F(EngineStateTest, NoStageHasMoreBuffersThanTheMostThatIsSaid) {
  const std::uint64_t most = most_buffer_bytes(spec_, options({2, 3}, 1));
  std::uint64_t found = 0;
  for (const LayerRange layers : {LayerRange{3, 4}, LayerRange{0, 3}, LayerRange{2, 4}, kAll}) {
    found = std::max(found, stage_memory(*file_, spec_, options(layers, 1)).value().buffers);
  }
  EXPECT_EQ(found, most);
  EXPECT_GT(most, stage_memory(*file_, spec_, options({3, 4}, 1)).value().buffers);
}

// As placement counts on: one sequence of the usual length has pages before another state is taken.
TEST_F(EngineStateTest, StatesLeaveThePagesOfOneSequence) {
  spec_.context = limits::kDefaultMaxTokens;
  EngineOptions asked = options(kAll, 0);
  const StageMemory roomy = stage_memory(*file_, spec_, asked).value();
  EXPECT_EQ(roomy.pages_least, limits::kDefaultMaxTokens / kernels::kPageTokens);
  asked.kv_budget_bytes = roomy.kv_least();
  const StageMemory tight = stage_memory(*file_, spec_, asked).value();
  EXPECT_EQ(tight.states, 1U);
  EXPECT_EQ(tight.pages, roomy.pages_least);
}

// Memory below what is asked for takes states first, down to one, then pages.
TEST_F(EngineStateTest, ScarceMemoryLeavesFewerStates) {
  const StageMemory memory = stage_memory(*file_, spec_, options(kAll, 8)).value();
  ASSERT_EQ(memory.states, 8U);
  const KvShare least = kv_within(memory, memory.least());
  EXPECT_EQ(least.states, 1U);
  EXPECT_EQ(least.pages, memory.pages_least);
  const KvShare more = kv_within(memory, memory.least() + 2 * memory.state);
  EXPECT_EQ(more.states, 3U);
  EXPECT_LE(more.bytes(memory), memory.kv_least() + 2 * memory.state);
  EXPECT_EQ(kv_within(memory, std::uint64_t{1} << 40).states, 8U);
}

}  // namespace
}  // namespace hearth::node
