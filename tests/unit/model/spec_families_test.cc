// What the keys and tensors of each dense family mean, and YaRN.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/spec.h"
#include "tests/unit/model/small_file.h"

namespace hearth::model {
namespace {

Model stretched() {
  Model model;
  model.keys["llama.rope.scaling.type"] = value(std::string("yarn"));
  model.keys["llama.rope.scaling.factor"] = value(16.0F);
  model.keys["llama.rope.scaling.original_context_length"] = u32(64);
  return model;
}

std::string stretched_with(const std::string& key, AddKey add) {
  Model model = stretched();
  model.keys["llama.rope.scaling." + key] = std::move(add);
  const auto spec = model.read();
  return spec.ok() ? std::string() : spec.error().message;
}

// Against the formulas of the paper, with the library's logarithm.
TEST(Spec, YarnStretchesTheSlowPairs) {
  const auto spec = stretched().read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_NEAR(spec->rope_magnitude, 1.0 + 0.1 * std::log(16.0), 1e-15);
  const std::vector<double> frequencies = spec->rope_frequencies();
  const auto index = [](double turns) {
    return 32 * std::log(64 / (turns * 2 * std::acos(-1.0))) / (2 * std::log(10000.0));
  };
  const double low = std::max(0.0, std::floor(index(32.0)));
  const double high = std::ceil(index(1.0));
  ASSERT_EQ(low, 0.0);
  ASSERT_EQ(high, 5.0);
  for (int i = 0; i < 16; ++i) {
    const double own = std::pow(10000.0, -i / 16.0);
    const double divided = std::min(1.0, (i - low) / (high - low));
    EXPECT_NEAR(frequencies[i], own / 16 * divided + own * (1 - divided), own * 1e-13) << i;
  }
  Model level = stretched();
  level.keys["llama.rope.scaling.yarn_log_multiplier"] = value(1.0F);
  level.keys["llama.rope.scaling.attn_factor"] = value(1.5F);
  EXPECT_EQ(level.read()->rope_magnitude, 1.5);
  level.keys["llama.rope.scaling.factor"] = value(0.5F);
  EXPECT_EQ(level.read()->rope_magnitude, 1.5);
}

TEST(SpecRefusal, YarnOutOfRange) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {nan, 0.0F, -1.0F, 1e9F}) {
    expect_refusal(stretched_with("yarn_beta_fast", value(bad)), "must be above");
    expect_refusal(stretched_with("yarn_beta_slow", value(bad)), "must be above");
  }
  expect_refusal(stretched_with("yarn_log_multiplier", value(-0.5F)), "is below 0");
  expect_refusal(stretched_with("yarn_log_multiplier", value(1e9F)), "at most 100");
  expect_refusal(stretched_with("yarn_ext_factor", value(0.5F)), "only 1 is served");
  EXPECT_EQ(stretched_with("yarn_ext_factor", value(-1.0F)), "");
  expect_refusal(stretched_with("original_context_length", u32(0)), "from 1 to 1048576");
}

// A file of 4 layers of a dense family, with keys of one's own; nothing in place of a key removes
// it.
Model dense(const std::string& family, const std::map<std::string, AddKey>& keys = {}) {
  return model_with(family_spec(family), keys);
}

TEST(Spec, GraniteNamesItsScales) {
  const auto spec = dense("granite", {{"embedding_scale", value(12.0F)},
                                      {"residual_scale", value(0.22F)},
                                      {"attention.scale", value(0.015625F)},
                                      {"logit_scale", value(8.0F)}})
                        .read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->embedding_scale(), 12.0F);
  EXPECT_EQ(spec->branch_factor, 0.22F);
  EXPECT_EQ(spec->score_scale(77), 0.015625F);
  EXPECT_EQ(spec->logit_factor, 0.125F);
  const auto none = dense("granite", {{"embedding_scale", value(0.0F)}}).read();
  ASSERT_TRUE(none.ok()) << none.error().message;
  EXPECT_EQ(none->embedding_scale(), 1.0F);
  EXPECT_EQ(none->branch_factor, 1.0F);
  EXPECT_EQ(none->logit_factor, 1.0F);
  EXPECT_EQ(none->score_scale(0), 1.0F / std::sqrt(32.0F));
}

TEST(SpecRefusal, ScalesOfGranite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const char* key : {"embedding_scale", "residual_scale", "attention.scale", "logit_scale"}) {
    for (const float bad : {nan, -1.0F, 1e9F, 1e-40F}) {
      expect_refusal(refusal_of(dense("granite", {{key, value(bad)}})),
                     "key 'granite." + std::string(key) + "' is");
    }
  }
  expect_refusal(refusal_of(dense("granite", {{"rope.scaling.finetuned", value(false)}})),
                 "is false; only models with RoPE are served");
  EXPECT_EQ(refusal_of(dense("granite", {{"rope.scaling.finetuned", value(true)}})), "");
}

TEST(Spec, Gemma2HasCapsAndEverySecondLayerLocal) {
  const auto spec = dense("gemma2", {{"attention.sliding_window", u32(16)},
                                     {"attn_logit_softcapping", value(20.0F)},
                                     {"rope.scaling.factor", value(8.0F)}})
                        .read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->score_cap, 20.0F);
  EXPECT_EQ(spec->logit_cap, 30.0F);
  EXPECT_EQ(spec->embedding_scale(), std::sqrt(128.0F));
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(spec->is_local(i), i % 2 == 0) << i;
  EXPECT_EQ(spec->local_rope_frequencies(), spec->rope_frequencies());
  EXPECT_EQ(spec->rope_frequencies()[0], 1.0 / 8.0);
  // The usual window of 4096 hides nothing of 128 positions.
  EXPECT_FALSE(dense("gemma2").read()->is_local(0));
  EXPECT_TRUE(dense("gemma2", {{"context_length", u32(8192)}}).read()->is_local(0));
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    expect_refusal(refusal_of(dense("gemma2", {{key, value(-1.0F)}})), "must be above 0");
    expect_refusal(refusal_of(dense("gemma2", {{key, value(1e6F)}})), "at most 65536");
    expect_refusal(refusal_of(dense("gemma2", {{key, value(1e-40F)}})), "must be above 0.000001");
  }
}

TEST(Spec, LocalLayersHaveTheirBaseWhateverTheirWindowHides) {
  const auto spec = dense("gemma2", {{"rope.freq_base_swa", value(500.0F)}}).read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_TRUE(spec->is_local(0));
  EXPECT_FALSE(spec->is_local(1));
  EXPECT_EQ(spec->local_rope_frequencies()[8], kernels::pow_canonical(500.0, -0.5));
  EXPECT_EQ(spec->rope_frequencies()[8], kernels::pow_canonical(1e4, -0.5));
}

TEST(Spec, OlmoNormsAllHeadsTogether) {
  const auto pattern = array<bool>({true, true, true, false});
  const auto spec = dense("olmo2", {{"attention.sliding_window", u32(16)},
                                    {"attention.sliding_window_pattern", pattern},
                                    {"rope.scaling.type", value(std::string("yarn"))},
                                    {"rope.scaling.factor", value(8.0F)}})
                        .read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(spec->is_local(i), i != 3) << i;
  EXPECT_GT(spec->rope_magnitude, 1.2);
  EXPECT_EQ(spec->local_rope_magnitude(), 1.0);
  EXPECT_EQ(spec->local_rope_frequencies()[8], kernels::pow_canonical(1e4, -0.5));
  EXPECT_FALSE(dense("olmo2").read()->is_local(0));
  Model model = dense("olmo2");
  model.tensors["blk.0.attn_norm.weight"] = {TensorType::kF32, {128}};
  expect_refusal(refusal_of(model), "'blk.0.attn_norm.weight' has no place");
  model = dense("olmo2");
  model.tensors["blk.1.attn_k_norm.weight"].dims = {32};
  expect_refusal(refusal_of(model), "has shape [32]; it must be [64]");
}

TEST(Spec, EveryFourthLayerOfSmolLm3IsNotTurned) {
  const auto spec = dense("smollm3").read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(spec->is_turned(i), i != 3) << i;
  EXPECT_TRUE(Model().read()->is_turned(3));
}

TEST(Spec, Glm4MayHaveBiasesAndTurnsPartOfAHead) {
  Model model = dense("glm4", {{"attention.key_length", u32(64)},
                               {"attention.value_length", u32(64)},
                               {"attention.head_count", u32(2)},
                               {"attention.head_count_kv", u32(1)},
                               {"rope.dimension_count", u32(32)}});
  const auto spec = model.read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_FALSE(spec->qkv_bias);
  EXPECT_EQ(spec->rope_frequencies().size(), 16U);
  for (std::uint32_t i = 0; i < 4; ++i) {
    model.tensors[layer_tensor(i, "attn_q.bias")] = {TensorType::kF32, {128}};
    model.tensors[layer_tensor(i, "attn_k.bias")] = {TensorType::kF32, {64}};
    model.tensors[layer_tensor(i, "attn_v.bias")] = {TensorType::kF32, {64}};
  }
  EXPECT_TRUE(model.read()->qkv_bias);
  model.tensors.erase("blk.2.attn_v.bias");
  expect_refusal(refusal_of(model), "'blk.2.attn_v.bias' of shape [64] is missing");
}

TEST(SpecRefusal, HeadsAndLayersOfGlm4) {
  expect_refusal(refusal_of(dense("glm4", {{"rope.dimension_count", u32(16)}})),
                 "is 16; served are multiples of 32");
  expect_refusal(refusal_of(dense("glm4", {{"rope.dimension_count", u32(64)}})), "from 1 to 32");
  expect_refusal(refusal_of(dense("glm4", {{"nextn_predict_layers", u32(1)}})),
                 "is 1; only 0 is served");
  Model model = dense("glm4");
  model.tensors["blk.0.ffn_up.weight"].dims = {128, 96};
  expect_refusal(refusal_of(model), "has shape [128, 96]; it must be [128, 192]");
  Model turned = dense("glm4", {{"rope.dimension_sections", array<std::int32_t>({8, 12, 12, 0})}});
  expect_refusal(refusal_of(turned), "key 'glm4.rope.dimension_sections' is present");
}

TEST(Spec, Phi3ChoosesItsFactorsByTheContext) {
  const auto phi = [](std::uint32_t trained) {
    Model model = dense("phi3", {{"rope.scaling.original_context_length", u32(trained)},
                                 {"rope.scaling.attn_factor", value(1.25F)},
                                 {"rope.scaling.type", value(std::string("longrope"))},
                                 {"attention.sliding_window", u32(16)}});
    model.tensors["rope_factors_long.weight"] = {TensorType::kF32, {16}};
    model.tensors["rope_factors_short.weight"] = {TensorType::kF32, {16}};
    return model;
  };
  Model model = phi(64);
  const auto with = [&](float in_use, float other) {
    model.fills = {{"rope_factors_long.weight", in_use}, {"rope_factors_short.weight", other}};
    return model.read();
  };
  const auto spec = with(4.0F, 2.0F);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->rope_factors, std::vector<float>(16, 4.0F));
  EXPECT_EQ(spec->rope_magnitude, 1.25);
  EXPECT_EQ(spec->local_rope_magnitude(), 1.25);
  EXPECT_EQ(spec->local_rope_frequencies(), spec->rope_frequencies());
  EXPECT_TRUE(spec->is_local(3));
  model = phi(128);
  EXPECT_EQ(with(4.0F, 2.0F)->rope_factors, std::vector<float>(16, 2.0F));
  model.tensors.erase("rope_factors_long.weight");
  expect_refusal(refusal_of(model), "'rope_factors_long.weight' of shape [16] is missing");
  const auto pattern = [](std::uint32_t number) {
    return refusal_of(dense("phi3", {{"attention.sliding_window_pattern", u32(number)}}));
  };
  EXPECT_EQ(pattern(0), "");
  expect_refusal(pattern(2), "is 2; only 0 is served");
  const auto plain = dense("phi3").read();
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  EXPECT_FALSE(plain->is_local(0));
  EXPECT_TRUE(plain->rope_factors.empty());
}

TEST(Spec, ScoresOfMistral3GrowWithThePosition) {
  const auto spec = dense("mistral3", {{"attention.temperature_scale", value(0.5F)},
                                       {"rope.scaling.original_context_length", u32(10)}})
                        .read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  const float scale = 1.0F / std::sqrt(32.0F);
  EXPECT_EQ(spec->score_scale(0), scale);
  EXPECT_EQ(spec->score_scale(9), scale);
  for (const std::uint32_t position : {10U, 19U, 20U, 127U}) {
    const double factor = 1.0 + 0.5 * std::log(1.0 + position / 10);
    EXPECT_NEAR(spec->score_scale(position), scale * factor, 1e-7) << position;
  }
  EXPECT_EQ(dense("mistral3").read()->score_scale(100), scale);
  for (const float bad : {-0.5F, 1e9F, std::numeric_limits<float>::quiet_NaN()}) {
    expect_refusal(refusal_of(dense("mistral3", {{"attention.temperature_scale", value(bad)}})),
                   "key 'mistral3.attention.temperature_scale' is");
  }
}

}  // namespace
}  // namespace hearth::model
