// Models whose local layers have heads of another size and number than the others.
#include "model/spec_local.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/unit/model/small_file.h"

namespace hearth::model {
namespace {

using NewKeys = std::map<std::string, AddKey>;
const std::vector<bool> kPattern = {true, true, false, true, true, false};

// Of 6 layers, the third and the sixth global.
ModelSpec gemma4_spec(std::uint32_t experts = 0) {
  ModelSpec spec = family_spec("gemma4");
  spec.layers = 6;
  spec.global_every = 3;
  spec.sliding_window = 16;
  spec.head_dim = 64;
  spec.rotary_dim = 64;
  spec.kv_heads = 1;
  spec.local_head_dim = 32;
  spec.local_kv_heads = 2;
  spec.shares_keys = {false, false, true, false, false, true};
  spec.has_scale = {true, true, true, true, false, true};
  spec.experts = experts;
  if (experts > 0) spec.shared_feed_forward = 96;
  if (experts > 0) spec.feed_forward = 64;
  spec.fused_experts = true;
  return spec;
}

Model gemma4(const NewKeys& more = {}, const ModelSpec& spec = gemma4_spec()) {
  NewKeys keys = {{"attention.sliding_window", u32(16)},
                  {"attention.sliding_window_pattern", array(kPattern)},
                  {"attention.head_count_kv", array(std::vector<std::uint32_t>{2, 2, 1, 2, 2, 1})},
                  {"attention.key_length", u32(64)},
                  {"attention.value_length", u32(64)},
                  {"rope.dimension_count", u32(64)},
                  {"attention.key_length_swa", u32(32)},
                  {"attention.value_length_swa", u32(32)},
                  {"rope.dimension_count_swa", u32(32)}};
  if (spec.experts > 0) {
    keys["expert_count"] = u32(spec.experts);
    keys["expert_used_count"] = u32(2);
    keys["expert_feed_forward_length"] = u32(64);
  }
  for (const auto& [key, add] : more) keys[key] = add;
  return model_with(spec, keys);
}

TEST(Spec, Gemma4HasTwoKindsOfHeads) {
  const auto spec = gemma4().read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  for (std::uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(spec->is_local(i), kPattern[i]);
    EXPECT_EQ(spec->head_dim_of(i), kPattern[i] ? 32U : 64U);
    EXPECT_EQ(spec->kv_heads_of(i), kPattern[i] ? 2U : 1U);
    EXPECT_EQ(spec->shares_keys_in(i), !kPattern[i]);
    EXPECT_EQ(spec->has_scale_in(i), i != 4);
    EXPECT_EQ(spec->kv_layout(i).head_dim, spec->head_dim_of(i));
  }
  EXPECT_EQ(spec->widest_queries(), 256U);
  EXPECT_EQ(spec->widest_keys(), 64U);
  EXPECT_EQ(spec->largest_group(), 4U);
  EXPECT_EQ(spec->score_scale(7), 1.0F);
  EXPECT_EQ(spec->embedding_scale(), std::sqrt(128.0F));
  EXPECT_EQ(spec->logit_cap, 30.0F);
  EXPECT_EQ(spec->rope_frequencies().size(), 32U);
  EXPECT_EQ(spec->local_rope_frequencies().size(), 16U);
  EXPECT_LT(spec->rope_frequencies()[16], spec->local_rope_frequencies()[8]);  // base 1e6, not 1e4
  for (const float cap : {0.0F, 20.0F}) {
    EXPECT_EQ(gemma4({{"final_logit_softcapping", value(cap)}}).read()->logit_cap, cap);
  }
}

TEST(Spec, Gemma4MayHaveOneNumberOfKvHeads) {
  ModelSpec shape = gemma4_spec();
  shape.kv_heads = 2;
  shape.shares_keys.clear();
  const auto spec = gemma4({{"attention.head_count_kv", u32(2)}}, shape).read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->kv_heads_of(0), 2U);
  EXPECT_EQ(spec->kv_heads_of(2), 2U);
  EXPECT_FALSE(spec->shares_keys_in(2));
}

TEST(Spec, PairsOfGemma4ThatDoNotTurn) {
  ModelSpec shape = gemma4_spec();
  shape.rope_factors.resize(32);
  Model model = gemma4({}, shape);
  model.rope_factor = 1e30F;
  const auto spec = model.read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->rope_frequencies()[0], 1.0 / static_cast<double>(1e30F));
  EXPECT_EQ(spec->local_rope_frequencies()[0], 1.0);
  model.rope_factor = 1.3e30F;
  expect_refusal(refusal_of(model), "it must be from 1/65536 to 2^100");
}

TEST(Spec, Gemma4HasAFeedForwardBesideItsExperts) {
  const auto spec = gemma4({}, gemma4_spec(4)).read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->experts, 4U);
  EXPECT_EQ(spec->feed_forward, 64U);
  EXPECT_EQ(spec->shared_feed_forward, 96U);
  EXPECT_TRUE(spec->routing.to_one);
  EXPECT_TRUE(spec->fused_experts);
  ModelSpec apart = gemma4_spec(4);
  apart.fused_experts = false;
  EXPECT_FALSE(gemma4({}, apart).read()->fused_experts);
  Model model = gemma4({}, gemma4_spec(4));
  model.tensors.erase("blk.3.ffn_down_exps.scale");
  expect_refusal(refusal_of(model), "'blk.3.ffn_down_exps.scale' of shape [4] is missing");
}

TEST(Spec, LastLayersOfGemma4MayReadTheKeysOfOthers) {
  ModelSpec shape = gemma4_spec();
  shape.sharing_layers = 2;
  shape.layer_input = 64;
  shape.dense_layers = 4;
  shape.dense_feed_forward = 64;
  shape.shares_keys[5] = false;
  const NewKeys keys = {
      {"attention.shared_kv_layers", u32(2)},
      {"embedding_length_per_layer_input", u32(64)},
      {"feed_forward_length", array(std::vector<std::int32_t>{64, 64, 64, 64, 96, 96})}};
  Model model = gemma4(keys, shape);
  // Converters may keep what such a layer does not compute.
  model.tensors["blk.5.attn_k.weight"] = {TensorType::kQ8_0, {128, 64}};
  const auto spec = model.read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_TRUE(spec->is_whole());
  EXPECT_FALSE(gemma4().read()->is_whole());
  const std::vector<std::uint32_t> sources = {0, 1, 2, 3, 3, 2};
  for (std::uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(spec->kv_source(i), sources[i]) << i;
    EXPECT_EQ(spec->feed_forward_of(i), i < 4 ? 64U : 96U) << i;
    EXPECT_EQ(spec->kv_layout(i).page_bytes() > 0, i < 4) << i;
  }
  model.tensors["blk.3.attn_k_b.weight"] = {TensorType::kQ8_0, {128, 64}};
  expect_refusal(refusal_of(model), "'blk.3.attn_k_b.weight' has no place");
}

TEST(SpecRefusal, HeadsOfGemma4) {
  const auto with = [](const std::string& key, const AddKey& add) {
    return refusal_of(gemma4({{key, add}}));
  };
  const auto heads = [&](std::vector<std::int32_t> items) {
    return with("attention.head_count_kv", array(std::move(items)));
  };
  expect_refusal(heads({2, 2, 1, 2, 2}), "must be a number or an array of 6 whole numbers");
  expect_refusal(heads({2, 2, 1, 2, 1, 1}), "changes at layer 4; served is one number");
  expect_refusal(heads({2, 2, 1, 2, 2, 0}), "is out of range in layer 5; it must be from 1 to 4");
  expect_refusal(heads({2, 2, -1, 2, 2, 1}), "is out of range in layer 2");
  expect_refusal(heads({3, 3, 1, 3, 3, 1}), "is 4; it must be a multiple of the 3 key and value");
  const std::string pattern = "attention.sliding_window_pattern";
  expect_refusal(with(pattern, u32(3)), "must be an array of 6 truth values");
  expect_refusal(with(pattern, array(std::vector<bool>{true, false})), "array of 6 truth values");
  expect_refusal(with(pattern, array(std::vector<bool>{true, true, false, true, false, false})),
                 "breaks its pattern at layer 4");
  expect_refusal(with("attention.sliding_window", u32(0)), "is 0 or missing; local layers");
  expect_refusal(with("attention.key_length", u32(48)), "must be a multiple of 32");
  expect_refusal(with("attention.key_length_swa", nullptr), "key_length_swa' is missing");
  expect_refusal(with("attention.value_length_swa", u32(64)), "only the head's full length of 32");
  expect_refusal(with("rope.dimension_count", u32(16)), "only the head's full length of 64");
  EXPECT_EQ(with("attention.shared_kv_layers", u32(0)), "");
  expect_refusal(with("attention.shared_kv_layers", u32(6)), "it must be from 0 to 5");
  expect_refusal(with("attention.shared_kv_layers", u32(4)), "none is of the kind of layer 2");
  const std::string input = "embedding_length_per_layer_input";
  expect_refusal(with(input, u32(48)), "must be a multiple of 32");
  expect_refusal(with(input, u32(64)), "'per_layer_token_embd.weight' of shape [384, 50]");
  expect_refusal(
      with("feed_forward_length", array(std::vector<std::uint32_t>{96, 64, 96, 96, 96, 96})),
      "changes at layer 1");
}

}  // namespace
}  // namespace hearth::model
