// What the keys and tensors of the families with experts mean that differ from mixtral's.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/spec.h"
#include "tests/unit/model/small_file.h"

namespace hearth::model {
namespace {

using NewKeys = std::map<std::string, AddKey>;

NewKeys with(NewKeys keys, const NewKeys& more) {
  for (const auto& [key, add] : more) keys[key] = add;
  return keys;
}

// Four experts, of which a row uses two.
ModelSpec mixed_spec(const std::string& family) {
  ModelSpec spec = family_spec(family);
  spec.experts = 4;
  spec.experts_used = 2;
  return spec;
}

Model granitemoe(const NewKeys& keys = {}, std::uint32_t shared = 64) {
  ModelSpec spec = mixed_spec("granitemoe");
  spec.shared_feed_forward = shared;
  return model_with(spec, with({{"expert_count", u32(4)},
                                {"expert_used_count", u32(2)},
                                {"expert_shared_feed_forward_length", u32(64)},
                                {"embedding_scale", value(12.0F)},
                                {"logit_scale", value(8.0F)}},
                               keys));
}

TEST(Spec, GraniteMoeMayHaveASharedExpertWithoutAGate) {
  const auto spec = granitemoe().read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->experts, 4U);
  EXPECT_EQ(spec->feed_forward, 96U);
  EXPECT_EQ(spec->shared_feed_forward, 64U);
  EXPECT_EQ(spec->embedding_scale(), 12.0F);
  EXPECT_EQ(spec->logit_factor, 0.125F);
  for (const AddKey& none : {AddKey(), u32(0)}) {
    const auto alone = granitemoe({{"expert_shared_feed_forward_length", none}}, 0).read();
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    EXPECT_EQ(alone->shared_feed_forward, 0U);
  }
}

TEST(SpecRefusal, ExpertsOfGraniteMoe) {
  const auto refusal = [](const char* key, const AddKey& add) {
    return refusal_of(granitemoe({{key, add}}));
  };
  expect_refusal(refusal("expert_count", nullptr), "key 'granitemoe.expert_count' is missing");
  expect_refusal(refusal("expert_shared_feed_forward_length", u32(40)),
                 "key 'granitemoe.expert_shared_feed_forward_length' is 40; it must be a multiple");
  expect_refusal(refusal("expert_shared_feed_forward_length", u32(1U << 30)), "from 0 to 262144");
  expect_refusal(refusal("expert_shared_feed_forward_length", u32(96)),
                 "'blk.0.ffn_gate_shexp.weight' has shape [128, 64]; it must be [128, 96]");
  expect_refusal(refusal("expert_shared_feed_forward_length", u32(0)),
                 "shexp.weight' has no place in a granitemoe model");
  expect_refusal(refusal("expert_feed_forward_length", u32(48)),
                 "is 48; in this family it must equal the 96");
  Model gated = granitemoe();
  gated.tensors["blk.1.ffn_gate_inp_shexp.weight"] = {TensorType::kF32, {128, 1}};
  expect_refusal(refusal_of(gated), "'blk.1.ffn_gate_inp_shexp.weight' has no place");
}

NewKeys glm4moe_keys() {
  return {{"expert_count", u32(4)},
          {"expert_used_count", u32(2)},
          {"feed_forward_length", u32(160)},
          {"expert_feed_forward_length", u32(96)},
          {"expert_shared_count", u32(1)},
          {"leading_dense_block_count", u32(1)},
          {"expert_gating_func", u32(2)},
          {"expert_weights_norm", value(true)},
          {"expert_weights_scale", value(2.5F)},
          {"nextn_predict_layers", u32(0)}};
}

ModelSpec glm4moe_spec() {
  ModelSpec spec = mixed_spec("glm4moe");
  spec.dense_layers = 1;
  spec.dense_feed_forward = 160;
  spec.shared_feed_forward = 96;
  spec.selection_bias = true;
  return spec;
}

Model glm4moe(const NewKeys& keys = {}) {
  return model_with(glm4moe_spec(), with(glm4moe_keys(), keys));
}

TEST(Spec, AGlm4MoeSaysHowItChoosesExperts) {
  const auto spec =
      glm4moe({{"expert_group_count", u32(2)}, {"expert_group_used_count", u32(1)}}).read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_TRUE(spec->routing.sigmoid);
  EXPECT_TRUE(spec->routing.to_one);
  EXPECT_EQ(spec->routing.scale, 2.5F);
  EXPECT_EQ(spec->routing.groups, 2U);
  EXPECT_EQ(spec->routing.groups_used, 1U);
  EXPECT_TRUE(spec->selection_bias);
  EXPECT_FALSE(spec->has_experts(0));
  EXPECT_TRUE(spec->has_experts(1));
  EXPECT_EQ(spec->feed_forward_of(0), 160U);
  EXPECT_EQ(spec->feed_forward_of(1), 96U);
  EXPECT_EQ(spec->feed_forward_values(), 192U);
  EXPECT_EQ(spec->shared_feed_forward, 96U);
  EXPECT_EQ(spec->head_norms, HeadNorms::kNone);
  EXPECT_FALSE(spec->qkv_bias);
}

TEST(Spec, AGlm4MoeThatDoesNotSayIsGivenWhatItsTensorsMean) {
  const NewKeys silent{{"expert_gating_func", nullptr},
                       {"expert_weights_norm", nullptr},
                       {"expert_weights_scale", nullptr},
                       {"nextn_predict_layers", nullptr}};
  const auto spec = glm4moe(silent).read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_TRUE(spec->routing.sigmoid);
  EXPECT_FALSE(spec->routing.to_one);
  EXPECT_EQ(spec->routing.scale, 1.0F);
  ModelSpec unbiased = glm4moe_spec();
  unbiased.selection_bias = false;
  unbiased.head_norms = HeadNorms::kEach;
  unbiased.qkv_bias = true;
  const auto soft = model_with(unbiased, with(glm4moe_keys(), silent)).read();
  ASSERT_TRUE(soft.ok()) << soft.error().message;
  EXPECT_FALSE(soft->routing.sigmoid);
  EXPECT_EQ(soft->head_norms, HeadNorms::kEach);
  EXPECT_TRUE(soft->qkv_bias);
}

TEST(Spec, LayersThatPredictAreLeftOut) {
  ModelSpec shape = glm4moe_spec();
  shape.layers = 5;
  Model model = model_with(shape, with(glm4moe_keys(), {{"nextn_predict_layers", u32(1)}}));
  expect_refusal(refusal_of(model), "tensor 'blk.4.nextn.eh_proj.weight' is missing");
  model.tensors["blk.4.nextn.eh_proj.weight"] = {TensorType::kQ8_0, {256, 128}};
  const auto spec = model.read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->layers, 4U);
  EXPECT_EQ(spec->prediction_layers, 1U);
  EXPECT_GT(spec->prediction_tensors, 5U);
  EXPECT_EQ(spec->parameters, glm4moe().read()->parameters);
  model.tensors["blk.3.nextn.eh_proj.weight"] = {TensorType::kQ8_0, {256, 128}};
  expect_refusal(refusal_of(model), "'blk.3.nextn.eh_proj.weight' has no place");
  model.tensors.erase("blk.3.nextn.eh_proj.weight");
  model.tensors["blk.5.ffn_norm.weight"] = {TensorType::kF32, {128}};
  expect_refusal(refusal_of(model), "'blk.5.ffn_norm.weight' has no place");
  // A file without those layers may still name them.
  EXPECT_EQ(refusal_of(model_with(
                glm4moe_spec(),
                with(glm4moe_keys(), {{"block_count", u32(5)}, {"nextn_predict_layers", u32(1)}}))),
            "");
}

TEST(SpecRefusal, RoutingOfGlm4Moe) {
  const auto refusal = [](const NewKeys& keys) { return refusal_of(glm4moe(keys)); };
  expect_refusal(refusal({{"expert_gating_func", u32(3)}}), "is 3; only 1 (softmax) and 2");
  expect_refusal(refusal({{"expert_gating_func", u32(1)}}),
                 "is 1 (softmax); with tensor 'blk.1.exp_probs_b.bias' only 2 (sigmoid)");
  for (const float bad : {-1.0F, 1e9F, 1e-9F, std::numeric_limits<float>::quiet_NaN()}) {
    expect_refusal(refusal({{"expert_weights_scale", value(bad)}}),
                   "key 'glm4moe.expert_weights_scale' is");
  }
  EXPECT_EQ(refusal({{"expert_weights_scale", value(0.0F)}}), "");
  expect_refusal(refusal({{"leading_dense_block_count", u32(4)}}), "is 4; it must be from 0 to 3");
  expect_refusal(refusal({{"leading_dense_block_count", u32(2)}}),
                 "'blk.1.ffn_gate.weight' of shape [128, 160] is missing");
  expect_refusal(refusal({{"nextn_predict_layers", u32(4)}}), "is 4; it must be from 0 to 3");
  expect_refusal(refusal({{"expert_group_count", u32(3)}}),
                 "is 3; the 4 experts must be as many groups of the same size");
  expect_refusal(refusal({{"expert_group_count", u32(4)}}), "each of at least 2");
  expect_refusal(refusal({{"expert_group_count", u32(5)}}), "is 5; it must be from 0 to 4");
  expect_refusal(refusal({{"expert_group_count", u32(2)}}),
                 "key 'glm4moe.expert_group_used_count' is missing");
  for (const std::uint32_t bad : {0U, 3U}) {
    expect_refusal(refusal({{"expert_group_count", u32(2)}, {"expert_group_used_count", u32(bad)}}),
                   "it must be from 1 to 2");
  }
  expect_refusal(refusal({{"expert_used_count", u32(3)},
                          {"expert_group_count", u32(2)},
                          {"expert_group_used_count", u32(1)}}),
                 "is 1; its groups have 2 experts, and a row uses 3");
  expect_refusal(refusal({{"expert_shared_count", u32(1U << 20)}}), "it must be from 0 to 2730");
  expect_refusal(refusal({{"interleave_moe_layer_step", u32(2)}}), "is 2; at most 1 is served");
  Model short_bias = glm4moe();
  short_bias.tensors["blk.2.exp_probs_b.bias"].dims = {3};
  expect_refusal(refusal_of(short_bias), "has shape [3]; it must be [4]");
  Model one_norm = glm4moe();
  one_norm.tensors["blk.0.attn_q_norm.weight"] = {TensorType::kF32, {32}};
  expect_refusal(refusal_of(one_norm), "'blk.0.attn_k_norm.weight' of shape [32] is missing");
}

// Of four layers the second and the last have experts.
Model llama4(const NewKeys& keys = {}) {
  ModelSpec spec = mixed_spec("llama4");
  spec.expert_every = 2;
  spec.dense_feed_forward = 160;
  spec.shared_feed_forward = 96;
  return model_with(spec, with({{"expert_count", u32(4)},
                                {"expert_used_count", u32(1)},
                                {"feed_forward_length", u32(160)},
                                {"expert_feed_forward_length", u32(96)},
                                {"interleave_moe_layer_step", u32(2)}},
                               keys));
}

TEST(Spec, ALlama4HasExpertsInSomeLayers) {
  const auto spec = llama4({{"expert_gating_func", u32(2)}}).read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->experts_used, 1U);
  EXPECT_TRUE(spec->routing.sigmoid);
  EXPECT_FALSE(spec->routing.to_one);
  EXPECT_EQ(spec->shared_feed_forward, 96U);
  EXPECT_EQ(spec->head_norms, HeadNorms::kPlain);
  for (const std::uint32_t layer : {0U, 1U, 2U, 3U}) {
    EXPECT_EQ(spec->has_experts(layer), layer % 2 == 1) << layer;
    EXPECT_EQ(spec->feed_forward_of(layer), layer % 2 == 1 ? 96U : 160U) << layer;
    EXPECT_EQ(spec->is_turned(layer), layer != 3) << layer;
  }
}

TEST(Spec, LocalLayersOfLlama4SeeTheirChunk) {
  EXPECT_FALSE(llama4().read()->is_local(0)) << "the context is within the chunk";
  const auto spec = llama4({{"attention.sliding_window", u32(16)}}).read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  for (const std::uint32_t layer : {0U, 1U, 2U}) {
    EXPECT_EQ(spec->first_visible(layer, 15), 0U);
    EXPECT_EQ(spec->first_visible(layer, 16), 16U);
    EXPECT_EQ(spec->first_visible(layer, 31), 16U);
    EXPECT_EQ(spec->first_visible(layer, 40), 32U);
  }
  EXPECT_EQ(spec->first_visible(3, 40), 0U);
}

TEST(Spec, ScoresOfLlama4GrowInLayersWithoutRope) {
  const auto spec = llama4({{"attention.temperature_length", u32(10)}}).read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  for (const std::uint32_t layer : {0U, 1U, 2U, 3U}) {
    EXPECT_EQ(spec->scores_grow(layer), layer == 3) << layer;
  }
  const float scale = 1.0F / std::sqrt(32.0F);
  EXPECT_EQ(spec->plain_score_scale(), scale);
  EXPECT_EQ(spec->score_scale(8), scale);
  for (const std::uint32_t position : {9U, 18U, 19U, 127U}) {
    const double factor = 1.0 + 0.1 * std::log(1.0 + (position + 1) / 10);
    EXPECT_NEAR(spec->score_scale(position), scale * factor, 1e-7) << position;
  }
  EXPECT_EQ(llama4().read()->temperature_length, 8192U);
}

TEST(SpecRefusal, ExpertsOfLlama4) {
  const auto refusal = [](const char* key, const AddKey& add) {
    return refusal_of(llama4({{key, add}}));
  };
  expect_refusal(refusal("interleave_moe_layer_step", nullptr),
                 "key 'llama4.interleave_moe_layer_step' is missing");
  expect_refusal(refusal("interleave_moe_layer_step", u32(0)), "is 0; it must be from 1 to 4");
  expect_refusal(refusal("interleave_moe_layer_step", u32(5)), "is 5; it must be from 1 to 4");
  expect_refusal(refusal("interleave_moe_layer_step", u32(4)), "'blk.1.ffn_gate.weight'");
  expect_refusal(refusal("expert_gating_func", u32(1)), "is 1; of this family only 2 (sigmoid)");
  expect_refusal(refusal("attention.sliding_window", u32(0)), "is 0 or missing");
  expect_refusal(refusal("attention.temperature_scale", value(-1.0F)),
                 "key 'llama4.attention.temperature_scale' is");
  expect_refusal(refusal("attention.temperature_length", u32(0)), "it must be from 1 to");
}

// Maverick.
TEST(Spec, ALlama4Of128ExpertsNormsNoHeads) {
  ModelSpec shape = mixed_spec("llama4");
  shape.experts = 128;
  shape.shared_feed_forward = 96;
  const auto spec = model_with(shape, {{"expert_count", u32(128)},
                                       {"expert_used_count", u32(1)},
                                       {"interleave_moe_layer_step", u32(1)},
                                       {"expert_feed_forward_length", u32(96)}})
                        .read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->head_norms, HeadNorms::kNone);
  EXPECT_TRUE(spec->has_experts(0));
}

}  // namespace
}  // namespace hearth::model
