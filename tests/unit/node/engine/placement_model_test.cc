#include "node/engine/placement_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/canonical.h"
#include "model/synthetic.h"
#include "node/engine/stage_memory.h"
#include "node/engine/weights.h"

namespace hearth::node {
namespace {

// What the parts say together is what a stage of any range takes.
void check_ranges(const model::SyntheticOptions& options) {
  const auto bytes = model::synthetic_model_bytes(options);
  ASSERT_TRUE(bytes.ok());
  const auto file = model::GgufFile::parse(*bytes, "synthetic");
  ASSERT_TRUE(file.ok());
  const auto spec = model::ModelSpec::read(**file);
  ASSERT_TRUE(spec.ok());
  const auto model = placement_model(**file, *spec);
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_EQ(model->layer_bytes.size(), spec->layers);
  for (std::uint32_t begin = 0; begin < spec->layers; ++begin) {
    for (std::uint32_t end = begin + 1; end <= spec->layers; ++end) {
      if (begin == 0 && end == spec->layers) continue;  // a tied head is there only once
      std::uint64_t sum = std::accumulate(model->layer_bytes.begin() + begin,
                                          model->layer_bytes.begin() + end, std::uint64_t{0});
      if (begin == 0) sum += model->embedding_bytes;
      if (end == spec->layers) sum += model->head_bytes;
      const auto stage = StageWeights::bytes_of(**file, *spec, {begin, end});
      ASSERT_TRUE(stage.ok());
      EXPECT_EQ(sum, *stage) << begin << " to " << end;
    }
  }
  EXPECT_EQ(model->activation_bytes, spec->hidden * 2 + 24U);
  EXPECT_GT(model->kv_of({0, spec->layers}).position, 0U);
}

TEST(PlacementModel, AddsUpToWhatAStageTakes) {
  model::SyntheticOptions options;
  check_ranges(options);
  options.tied_output = false;
  options.layers = 3;
  check_ranges(options);
}

TEST(PlacementModel, LayersOfAMixtureDiffer) {
  model::SyntheticOptions options;
  options.layers = 8;
  options.hidden = 256;
  options.feed_forward = 512;
  ASSERT_TRUE(model::set_weight_types(options, "Q4_K_M").ok());
  check_ranges(options);
}

TEST(PlacementModel, ARowReadsTheExpertsThatItUses) {
  model::SyntheticOptions options;
  options.family = "qwen3moe";
  check_ranges(options);
  const Bytes bytes = model::synthetic_model_bytes(options).value();
  const auto file = model::GgufFile::parse(bytes, "synthetic").value();
  const auto spec = model::ModelSpec::read(*file).value();
  const auto model = placement_model(*file, spec).value();
  ASSERT_EQ(model.layer_read_bytes.size(), spec.layers);
  EXPECT_LT(model.layer_read_bytes[1], model.layer_bytes[1] / 2);
  EXPECT_EQ(&model.read_bytes(), &model.layer_read_bytes);
}

// What sequences keep in every range of layers is what a stage of them counts.
void check_kv(const model::GgufFile& file, const model::ModelSpec& spec,
              const placement::Model& model) {
  for (std::uint32_t begin = 0; begin < spec.layers; ++begin) {
    for (std::uint32_t end = begin + 1; end <= spec.layers; ++end) {
      EngineOptions engine;
      engine.layers = {begin, end};
      engine.kv_budget_bytes = 64 << 20;
      engine.batch_rows = 1;
      const StageMemory stage = stage_memory(file, spec, engine).value();
      const placement::KvBytes kv = model.kv_of({begin, end});
      EXPECT_EQ(kv.position * kernels::kPageTokens, stage.page) << begin << " to " << end;
      EXPECT_EQ(kv.state, stage.state) << begin << " to " << end;
    }
  }
}

TEST(PlacementModel, ALayerHasPagesOrAState) {
  model::SyntheticOptions options;
  options.family = "qwen35";
  options.head_dim = 64;
  check_ranges(options);
  const Bytes bytes = model::synthetic_model_bytes(options).value();
  const auto file = model::GgufFile::parse(bytes, "synthetic").value();
  const auto spec = model::ModelSpec::read(*file).value();
  const auto model = placement_model(*file, spec).value();
  ASSERT_TRUE(spec.keeps_state());
  check_kv(*file, spec, model);
}

TEST(PlacementModel, LayersOfTwoKindsOfHeadsKeepWhatTheyKeep) {
  model::SyntheticOptions options;
  options.family = "gemma4";
  options.layers = 6;
  options.experts = 4;
  check_ranges(options);
  options.global_kv_heads = 4;
  const Bytes bytes = model::synthetic_model_bytes(options).value();
  const auto file = model::GgufFile::parse(bytes, "synthetic").value();
  const auto spec = model::ModelSpec::read(*file).value();
  const auto model = placement_model(*file, spec).value();
  ASSERT_EQ(model.layer_kv.size(), 6U);
  const placement::KvBytes local = model.layer_kv[0];
  EXPECT_EQ(local.state, 0U);
  EXPECT_GT(model.layer_kv[5].position, 3 * local.position);  // twice as many heads, twice as wide
  EXPECT_EQ(std::ranges::count(model.layer_kv, local), 5);
  check_kv(*file, spec, model);
}

}  // namespace
}  // namespace hearth::node
