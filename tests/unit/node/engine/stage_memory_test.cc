#include "node/engine/stage_memory.h"

#include <gtest/gtest.h>

#include <string>

#include "base/limits.h"
#include "model/synthetic.h"
#include "node/engine/weights.h"

namespace hearth::node {
namespace {

struct StageMemoryTest : ::testing::Test {
  Bytes bytes = model::synthetic_model_bytes({}).value();
  std::shared_ptr<const model::GgufFile> file = model::GgufFile::parse(bytes, "tiny").value();
  model::ModelSpec spec = model::ModelSpec::read(*file).value();

  EngineOptions options(LayerRange layers) const {
    EngineOptions made;
    made.layers = layers;
    made.kv_budget_bytes = 64 << 20;
    made.batch_rows = 16;
    return made;
  }
};

std::size_t exponents(const kernels::PackedMatrix& matrix) {
  return std::size_t{matrix.rows()} * sizeof(std::int32_t);
}

TEST_F(StageMemoryTest, WeightsAreCountedAsTheyWillBe) {
  for (const LayerRange layers :
       {LayerRange{0, 4}, LayerRange{0, 1}, LayerRange{1, 3}, LayerRange{3, 4}}) {
    const StageWeights loaded = StageWeights::load(*file, spec, layers).value();
    std::size_t extra = exponents(loaded.embedding) + exponents(loaded.head);
    for (const LayerWeights& layer : loaded.layers) {
      for (const auto* matrix : {&layer.query, &layer.key, &layer.value, &layer.attention_output,
                                 &layer.gate, &layer.up, &layer.down}) {
        extra += exponents(*matrix);
      }
    }
    EXPECT_EQ(StageWeights::bytes_of(*file, spec, layers).value(), loaded.bytes() + extra);
  }
}

TEST_F(StageMemoryTest, ExpertsAreCountedAsTheyWillBe) {
  for (const char* family : {"qwen2moe", "qwen3moe", "granitemoe", "glm4moe", "deepseek2", "gemma4",
                             "gpt-oss", "llama4", "qwen3next", "qwen35moe"}) {
    model::SyntheticOptions made;
    made.family = family;
    made.experts = 12;
    made.experts_used = 3;
    bytes = model::synthetic_model_bytes(made).value();
    file = model::GgufFile::parse(bytes, family).value();
    spec = model::ModelSpec::read(*file).value();
    const StageWeights loaded = StageWeights::load(*file, spec, {1, 2}).value();
    const LayerWeights& layer = loaded.layers[0];
    EXPECT_EQ(layer.gate.rows() + layer.up.rows(), 12 * 2 * spec.feed_forward);
    EXPECT_EQ(layer.down.rows(), 12 * spec.hidden);
    std::size_t extra = 0;
    for (const auto* matrix :
         {&layer.query,         &layer.key,         &layer.value,       &layer.attention_output,
          &layer.gate,          &layer.up,          &layer.down,        &layer.router,
          &layer.shared_router, &layer.shared_gate, &layer.shared_up,   &layer.shared_down,
          &layer.query_down,    &layer.latent,      &layer.latent_keys, &layer.latent_values,
          &layer.delta_input,   &layer.delta_gate,  &layer.delta_beta,  &layer.delta_alpha}) {
      extra += exponents(*matrix);
    }
    const std::uint64_t held = StageWeights::bytes_of(*file, spec, {1, 2}).value();
    EXPECT_EQ(held, loaded.bytes() + extra);
    // A row reads three of the twelve experts, and all else.
    std::uint64_t experts = 0;
    for (const auto* matrix : {&layer.gate, &layer.up, &layer.down}) {
      experts += matrix->bytes() + exponents(*matrix);
    }
    for (const auto* biases : {&layer.gate_bias, &layer.up_bias, &layer.down_bias}) {
      experts += biases->size() * sizeof(float);
    }
    const std::uint64_t read = StageWeights::layer_read_bytes_of(*file, spec, 1).value();
    EXPECT_EQ(read, held - experts / 12 * 9);
  }
}

TEST_F(StageMemoryTest, PartsOfAMatrixAreCountedAsTheyWillBe) {
  for (const char* family : {"glm4", "phi3", "olmo2"}) {
    model::SyntheticOptions made;
    made.family = family;
    bytes = model::synthetic_model_bytes(made).value();
    file = model::GgufFile::parse(bytes, family).value();
    spec = model::ModelSpec::read(*file).value();
    const StageWeights loaded = StageWeights::load(*file, spec, {1, 2}).value();
    const LayerWeights& layer = loaded.layers[0];
    EXPECT_EQ(layer.query.rows(), spec.heads * spec.head_dim);
    EXPECT_EQ(layer.value.rows(), spec.kv_heads * spec.head_dim);
    EXPECT_EQ(layer.gate.rows(), spec.feed_forward);
    EXPECT_EQ(layer.up.rows(), spec.feed_forward);
    std::size_t extra = 0;
    for (const auto* matrix : {&layer.query, &layer.key, &layer.value, &layer.attention_output,
                               &layer.gate, &layer.up, &layer.down}) {
      extra += exponents(*matrix);
    }
    EXPECT_EQ(StageWeights::bytes_of(*file, spec, {1, 2}).value(), loaded.bytes() + extra);
  }
}

TEST_F(StageMemoryTest, AModelThatIsNotSplitIsCountedAsAWholeAlone) {
  model::SyntheticOptions made;
  made.family = "gemma4";
  made.layers = 8;
  made.layer_input = 32;
  made.sharing_layers = 2;
  bytes = model::synthetic_model_bytes(made).value();
  file = model::GgufFile::parse(bytes, "whole").value();
  spec = model::ModelSpec::read(*file).value();
  const StageWeights loaded = StageWeights::load(*file, spec, {0, 8}).value();
  EXPECT_EQ(loaded.input_table.cols(), 8U * 32);
  EXPECT_EQ(loaded.layers[7].key.rows(), 0U);
  EXPECT_EQ(loaded.layers[7].gate.rows(), 2 * loaded.layers[0].gate.rows());
  EXPECT_GT(stage_memory(*file, spec, options({0, 8}))->weights, loaded.bytes());
  for (const LayerRange layers : {LayerRange{0, 7}, LayerRange{1, 8}, LayerRange{7, 8}}) {
    const auto refused = stage_memory(*file, spec, options(layers));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(refused.error().message.find("one stage must hold every layer of this model"),
              std::string::npos);
  }
}

TEST_F(StageMemoryTest, ADenseRowReadsAllThatALayerHolds) {
  EXPECT_EQ(StageWeights::layer_read_bytes_of(*file, spec, 1).value(),
            StageWeights::layer_bytes_of(*file, spec, 1).value());
}

TEST_F(StageMemoryTest, TheLeastIsTheExactBoundaryAndTheErrorHasTheFigures) {
  const EngineOptions asked = options({0, 4});
  const StageMemory memory = stage_memory(*file, spec, asked).value();
  EXPECT_EQ(memory.pages_least, spec.context / kernels::kPageTokens);
  const std::uint64_t least = memory.least() + kProcessBytes;
  EXPECT_TRUE(check_memory({memory}, least).ok());
  const Status refused = check_memory({memory}, least - 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoCapacity);
  for (const char* word :
       {"needs ", "weights ", "KV of one sequence ", "buffers ", "process ", "has ", "--memory"}) {
    EXPECT_NE(refused.error().message.find(word), std::string::npos) << refused.error().message;
  }
  EXPECT_FALSE(check_memory({memory, memory}, least).ok()) << "stages of one process add up";
}

TEST_F(StageMemoryTest, AnEngineIsRefusedBelowItAndGetsThePagesThatFitAboveIt) {
  EngineOptions asked = options({0, 4});
  const StageMemory memory = stage_memory(*file, spec, asked).value();
  asked.memory_bytes = memory.least() + kProcessBytes - 1;
  const auto refused = Engine::load(file, spec, asked);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoCapacity);
  asked.memory_bytes += 1;
  EXPECT_EQ(Engine::load(file, spec, asked).value()->kv_pages(), memory.pages_least);
  asked.memory_bytes += 3 * memory.page;
  EXPECT_EQ(Engine::load(file, spec, asked).value()->kv_pages(), memory.pages_least + 3);
  asked.memory_bytes = 0;
  EXPECT_EQ(Engine::load(file, spec, asked).value()->kv_pages(), memory.pages);
}

TEST_F(StageMemoryTest, AKvBudgetUnderOnePageIsNamed) {
  EngineOptions asked = options({0, 4});
  asked.kv_budget_bytes = 1;
  const auto refused = stage_memory(*file, spec, asked);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("holds no page"), std::string::npos);
}

}  // namespace
}  // namespace hearth::node
