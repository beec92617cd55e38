// Engines of one process share its memory, so what one may not take alone they may not together.
#include <gtest/gtest.h>

#include "model/synthetic.h"
#include "node/engine/stage_memory.h"
#include "node/runner/local_runner.h"
#include "proto/split.h"

namespace hearth::node {
namespace {

TEST(LocalRunnerMemory, StagesOfOneProcessShareTheBudget) {
  const Bytes bytes = model::synthetic_model_bytes({}).value();
  const auto file = model::GgufFile::parse(bytes, "tiny").value();
  const model::ModelSpec spec = model::ModelSpec::read(*file).value();
  LocalOptions local;
  local.stages = 2;
  local.kv_budget_bytes = 64 << 20;
  local.batch_rows = 16;
  std::uint64_t least = kProcessBytes;
  for (const LayerRange layers : {LayerRange{0, 2}, LayerRange{2, 4}}) {
    EngineOptions each;
    each.layers = layers;
    each.batch_rows = 16;
    each.kv_budget_bytes = 32 << 20;
    least += stage_memory(*file, spec, each)->least();
  }
  local.memory_bytes = least;
  EXPECT_TRUE(LocalRunner::load(file, local).ok());
  local.memory_bytes = least - 1;
  const auto refused = LocalRunner::load(file, local);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoCapacity);
}

// The last layer of six has heads of another size, or the last of every two has pages and the other
// a state: each stage gets what its own layers need for the same pages and states.
TEST(LocalRunnerMemory, StagesOfUnequalLayersHaveThePagesOfOneStage) {
  for (const char* family : {"gemma4", "qwen35"}) {
    model::SyntheticOptions made;
    made.family = family;
    made.layers = 6;
    made.attention_every = 2;
    made.sliding_window = 32;
    made.head_dim = 64;
    const Bytes bytes = model::synthetic_model_bytes(made).value();
    const auto file = model::GgufFile::parse(bytes, "tiny").value();
    const model::ModelSpec spec = model::ModelSpec::read(*file).value();
    LocalOptions local;
    local.batch_rows = 16;
    local.sequences = 3;
    local.kv_budget_bytes = kv_budget_of(spec, {0, spec.layers}, 7, 3);
    for (const std::uint32_t stages : {1U, 2U, 6U}) {
      local.stages = stages;
      const auto runner = LocalRunner::load(file, local);
      ASSERT_TRUE(runner.ok()) << runner.error().message;
      SequenceOpen open;
      open.prompt_tokens = 8 * kernels::kPageTokens;
      open.sampling.max_tokens = 1;
      const Status refused = (*runner)->submit(open, {1}, {});
      ASSERT_FALSE(refused.ok());
      EXPECT_NE(refused.error().message.find("take 9 KV pages, 7 of 7 are free"), std::string::npos)
          << family << ", stages " << stages << ": " << refused.error().message;
    }
    local.kv_budget_bytes = kv_budget_of(spec, {0, spec.layers}, 1, 1) - 1;
    EXPECT_FALSE(LocalRunner::load(file, local).ok()) << family;
  }
}

// A stage needs the KV of 128 pages where its budget has room for them. A model of which the usual
// budget holds fewer still loads on a machine that holds no more.
TEST(LocalRunnerMemory, TheWholeContextRefusesNoLoad) {
  model::SyntheticOptions made;
  made.context = 512 * kernels::kPageTokens;
  const Bytes bytes = model::synthetic_model_bytes(made).value();
  const auto file = model::GgufFile::parse(bytes, "tiny").value();
  const model::ModelSpec spec = model::ModelSpec::read(*file).value();
  EngineOptions engine;
  engine.layers = {0, spec.layers};
  engine.batch_rows = 16;
  engine.kv_budget_bytes = kv_budget_of(spec, engine.layers, 3, 1);
  LocalOptions local;
  local.batch_rows = 16;
  local.kv_budget_bytes = engine.kv_budget_bytes;
  local.memory_bytes = kProcessBytes + stage_memory(*file, spec, engine)->least();
  for (const bool whole : {false, true}) {
    local.whole_context = whole;
    const auto runner = LocalRunner::load(file, local);
    EXPECT_TRUE(runner.ok()) << runner.error().message;
  }
  local.memory_bytes -= 1;
  EXPECT_FALSE(LocalRunner::load(file, local).ok());
}

// States have their room beside the pages: one sequence has one.
TEST(LocalRunnerMemory, TheWholeContextHasOneState) {
  model::SyntheticOptions made;
  made.family = "qwen35";
  made.layers = 4;
  made.attention_every = 2;
  made.context = 64 * kernels::kPageTokens;
  const Bytes bytes = model::synthetic_model_bytes(made).value();
  const auto file = model::GgufFile::parse(bytes, "tiny").value();
  const model::ModelSpec spec = model::ModelSpec::read(*file).value();
  LocalOptions local;
  local.batch_rows = 16;
  local.kv_budget_bytes = kv_budget_of(spec, {0, spec.layers}, 1, 1);
  local.whole_context = true;
  const auto runner = LocalRunner::load(file, local);
  ASSERT_TRUE(runner.ok()) << runner.error().message;
  SequenceOpen open;
  open.prompt_tokens = 64 * kernels::kPageTokens - 1;
  open.sampling.max_tokens = 1;
  const Status done =
      (*runner)->submit(open, std::vector<TokenId>(open.prompt_tokens, TokenId{1}), {});
  EXPECT_TRUE(done.ok()) << done.error().message;
}

// A KV budget of one page: one sequence of the whole context has room, and not a position more,
// while memory has it; else as much as it has.
TEST(LocalRunnerMemory, OneSequenceMayTakeTheWholeContext) {
  model::SyntheticOptions made;
  made.context = 512 * kernels::kPageTokens;
  const Bytes bytes = model::synthetic_model_bytes(made).value();
  const auto file = model::GgufFile::parse(bytes, "tiny").value();
  const model::ModelSpec spec = model::ModelSpec::read(*file).value();
  const auto refusal = [&](const LocalOptions& local, std::uint32_t pages) {
    auto runner = LocalRunner::load(file, local);
    if (!runner.ok()) return runner.error().message;
    SequenceOpen open;
    open.prompt_tokens = pages * kernels::kPageTokens - 1;
    open.sampling.max_tokens = 1;
    const Status done =
        (*runner)->submit(open, std::vector<TokenId>(open.prompt_tokens, TokenId{1}), {});
    return done.ok() ? "" : done.error().message;
  };
  for (const std::uint32_t stages : {1U, 2U}) {
    LocalOptions local;
    local.stages = stages;
    local.batch_rows = 16;
    local.kv_budget_bytes = kv_budget_of(spec, {0, spec.layers}, 1, 1);
    EXPECT_NE(refusal(local, 2).find("take 2 KV pages, 1 of 1 are free"), std::string::npos);
    local.whole_context = true;
    EXPECT_EQ(refusal(local, 512), "");
    std::uint64_t rest = kProcessBytes;
    for (const LayerRange layers : split_layers(spec.layers, stages)) {
      EngineOptions each;
      each.layers = layers;
      each.batch_rows = 16;
      rest += stage_memory(*file, spec, each)->least();
    }
    local.memory_bytes = rest;
    const std::string said = refusal(local, 512);
    EXPECT_NE(said.find("take 512 KV pages"), std::string::npos) << said;
    EXPECT_EQ(refusal(local, limits::kDefaultMaxTokens / kernels::kPageTokens), "");
  }
}

}  // namespace
}  // namespace hearth::node
