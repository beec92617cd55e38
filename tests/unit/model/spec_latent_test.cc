// What the keys and tensors of latent attention mean.
#include <gtest/gtest.h>

#include <cmath>

#include "model/spec.h"
#include "tests/unit/model/small_file.h"

namespace hearth::model {
namespace {

using NewKeys = std::map<std::string, AddKey>;

ModelSpec deepseek2_spec() {
  ModelSpec spec = family_spec("deepseek2");
  spec.experts = 4;
  spec.experts_used = 2;
  spec.dense_layers = 1;
  spec.dense_feed_forward = 96;
  spec.shared_feed_forward = 96;
  spec.selection_bias = true;
  spec.kv_heads = 1;
  spec.head_dim = 96;
  spec.latent = Latent{64, 128, 32, 64, 32};
  return spec;
}

Model deepseek2(const NewKeys& more = {}, const ModelSpec& spec = deepseek2_spec()) {
  NewKeys keys{{"expert_count", u32(4)},
               {"expert_used_count", u32(2)},
               {"expert_feed_forward_length", u32(96)},
               {"expert_shared_count", u32(1)},
               {"leading_dense_block_count", u32(1)},
               {"attention.head_count_kv", u32(1)},
               {"attention.q_lora_rank", u32(64)},
               {"attention.kv_lora_rank", u32(128)},
               {"attention.key_length", u32(160)},
               {"attention.value_length", u32(128)},
               {"attention.key_length_mla", u32(96)},
               {"attention.value_length_mla", u32(32)},
               {"rope.dimension_count", u32(32)}};
  for (const auto& [key, add] : more) keys[key] = add;
  return model_with(spec, keys);
}

TEST(Spec, LatentAttentionKeepsOneRowForAllHeads) {
  const auto spec = deepseek2().read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  ASSERT_TRUE(spec->latent.has_value());
  EXPECT_EQ(spec->latent->query_rank, 64U);
  EXPECT_EQ(spec->latent->width, 128U);
  EXPECT_EQ(spec->latent->turned, 32U);
  EXPECT_EQ(spec->latent->plain, 64U);
  EXPECT_EQ(spec->latent->value, 32U);
  EXPECT_EQ(spec->head_dim, 96U);
  EXPECT_EQ(spec->rope_frequencies().size(), 16U);
  EXPECT_EQ(spec->kv_layout(0).slot_bytes(), 160U + 160 / 32 * 4);
  EXPECT_EQ(spec->score_scale(99), 1.0F / std::sqrt(96.0F));
}

TEST(Spec, QueriesOfLatentAttentionMayHaveOneMatrix) {
  ModelSpec shape = deepseek2_spec();
  shape.latent->query_rank = 0;
  for (const AddKey& none : {AddKey(), u32(0)}) {
    const auto spec = deepseek2({{"attention.q_lora_rank", none}}, shape).read();
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    EXPECT_EQ(spec->latent->query_rank, 0U);
  }
  expect_refusal(refusal_of(deepseek2({}, shape)),
                 "'blk.0.attn_q_a.weight' of shape [128, 64] is missing");
}

TEST(Spec, YarnOfLatentAttentionStretchesTheScoresAlone) {
  const NewKeys yarn{{"rope.scaling.type", value(std::string("yarn"))},
                     {"rope.scaling.factor", value(40.0F)},
                     {"rope.scaling.original_context_length", u32(64)},
                     {"rope.scaling.yarn_log_multiplier", value(0.1F)}};
  const auto spec = deepseek2(yarn).read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  const double stretch = 1.0 + 0.1 * std::log(40.0);
  EXPECT_EQ(spec->rope_magnitude, 1.0);
  EXPECT_NEAR(spec->score_scale(0), stretch * stretch / std::sqrt(96.0), 1e-7);
  NewKeys more = yarn;
  more["rope.scaling.attn_factor"] = value(0.5F);
  const auto scaled = deepseek2(more).read();
  ASSERT_TRUE(scaled.ok()) << scaled.error().message;
  EXPECT_EQ(scaled->rope_magnitude, 0.5);
  EXPECT_NEAR(scaled->score_scale(0), stretch * stretch / 4 / std::sqrt(96.0), 1e-7);
  more["rope.scaling.attn_factor"] = value(60'000.0F);
  expect_refusal(refusal_of(deepseek2(more)), "in all; it must be at most 512");
  for (const AddKey& none : {AddKey(), value(0.0F)}) {
    more["rope.scaling.yarn_log_multiplier"] = none;
    expect_refusal(refusal_of(deepseek2(more)), "yarn_log_multiplier' is 0 or missing");
  }
}

TEST(SpecRefusal, WidthsOfLatentAttention) {
  const auto refusal = [](const char* key, const AddKey& add) {
    return refusal_of(deepseek2({{key, add}}));
  };
  expect_refusal(refusal("attention.key_length_mla", nullptr), "made before April 2025");
  expect_refusal(refusal("attention.value_length_mla", nullptr), "is missing");
  expect_refusal(refusal("attention.kv_lora_rank", nullptr), "is missing");
  expect_refusal(refusal("rope.dimension_count", nullptr), "is missing");
  expect_refusal(refusal("attention.head_count_kv", u32(4)), "is 4; with the other widths");
  expect_refusal(refusal("attention.key_length", u32(96)), "is 96; with the other widths");
  expect_refusal(refusal("attention.value_length", u32(32)), "it must be 128");
  for (const char* key : {"attention.kv_lora_rank", "rope.dimension_count", "attention.q_lora_rank",
                          "attention.key_length_mla", "attention.value_length_mla"}) {
    expect_refusal(refusal(key, u32(40)), "is 40; it must be a multiple of 32");
    expect_refusal(refusal(key, u32(1U << 31)), "it must be from");
  }
  expect_refusal(refusal("attention.kv_lora_rank", u32(1024)), "above the limit of 1024");
  expect_refusal(refusal("attention.key_length_mla", u32(32)), "it must be above the 32");
  expect_refusal(refusal_of(deepseek2(
                     {{"attention.head_count", u32(512)}, {"attention.key_length_mla", u32(96)}})),
                 "times the 512 heads it is above the limit of 32768");
  expect_refusal(refusal("attention.temperature_scale", value(0.1F)), "only 0 (none) is served");
  Model shaped = deepseek2();
  shaped.tensors["blk.2.attn_k_b.weight"].dims = {64, 128, 3};
  expect_refusal(refusal_of(shaped), "has shape [64, 128, 3]; it must be [64, 128, 4]");
  Model unsplit = deepseek2();
  unsplit.tensors["blk.1.attn_kv_b.weight"] = {TensorType::kQ8_0, {128, 384}};
  expect_refusal(refusal_of(unsplit), "'blk.1.attn_kv_b.weight' has no place");
}

}  // namespace
}  // namespace hearth::model
