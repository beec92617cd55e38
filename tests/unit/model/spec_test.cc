#include "model/spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "tests/unit/model/small_file.h"

namespace hearth::model {
namespace {

// The spec's answer to one changed key.
std::string with_key(const std::string& key, AddKey add) {
  Model model;
  model.keys[key] = std::move(add);
  const auto spec = model.read();
  return spec.ok() ? std::string() : spec.error().message;
}

ErrorCode code_with_key(const std::string& key, AddKey add) {
  Model model;
  model.keys[key] = std::move(add);
  const auto spec = model.read();
  EXPECT_FALSE(spec.ok()) << key;
  return spec.ok() ? ErrorCode::kCancelled : spec.error().code;
}

TEST(Spec, ReadsKeysAndDefaults) {
  Model model;
  const auto spec = model.read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->family, find_family("llama"));
  EXPECT_EQ(spec->name, "a model");
  EXPECT_EQ(spec->layers, 2U);
  EXPECT_EQ(spec->hidden, 128U);
  EXPECT_EQ(spec->feed_forward, 96U);
  EXPECT_EQ(spec->heads, 4U);
  EXPECT_EQ(spec->kv_heads, 2U);
  EXPECT_EQ(spec->head_dim, 32U);
  EXPECT_EQ(spec->vocabulary, 50U);
  EXPECT_EQ(spec->context, 128U);
  EXPECT_EQ(spec->rms_epsilon, 1e-5F);
  EXPECT_EQ(spec->rope_base, 10000.0);
  EXPECT_EQ(spec->rope_scale, 1.0);
  EXPECT_TRUE(spec->rope_factors.empty());
  EXPECT_TRUE(spec->tied_embeddings);
  EXPECT_EQ(spec->parameters,
            50U * 128 + 128 + 2 * (2 * 128 + 2 * 128 * 128 + 2 * 128 * 64 + 3 * 128 * 96));
  EXPECT_EQ(spec->kv_layout(0).kv_heads, 2U);
}

TEST(Spec, HeadCountKvDefaultsToHeadCount) {
  Model model;
  model.keys.erase("llama.attention.head_count_kv");
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    model.tensors[layer + "attn_k.weight"].dims = {128, 128};
    model.tensors[layer + "attn_v.weight"].dims = {128, 128};
  }
  const auto spec = model.read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->kv_heads, 4U);
}

TEST(Spec, KeyLengthSetsTheHead) {
  Model model;
  model.keys["llama.attention.key_length"] = u32(64);
  model.keys["llama.attention.value_length"] = u32(64);
  model.keys["llama.rope.dimension_count"] = u32(64);
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    model.tensors[layer + "attn_q.weight"].dims = {128, 256};
    model.tensors[layer + "attn_k.weight"].dims = {128, 128};
    model.tensors[layer + "attn_v.weight"].dims = {128, 128};
    model.tensors[layer + "attn_output.weight"].dims = {256, 128};
  }
  const auto spec = model.read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->head_dim, 64U);
}

TEST(Spec, OwnOutputAndRopeFactors) {
  Model model;
  model.tensors["output.weight"] = {TensorType::kQ4_0, {128, 50}};
  model.tensors["rope_freqs.weight"] = {TensorType::kF32, {16}};
  const auto spec = model.read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_FALSE(spec->tied_embeddings);
  EXPECT_EQ(spec->rope_factors, std::vector<float>(16, 2.0F));
}

TEST(Spec, NameFallsBackToTheFile) {
  for (const std::string& name :
       {std::string(), std::string("two\nlines"), std::string(257, 'x'), std::string("\xFF")}) {
    Model model;
    model.keys["general.name"] = value(name);
    EXPECT_EQ(model.read()->name, "tiny");
  }
}

TEST(SpecRefusal, Architecture) {
  expect_refusal(
      with_key("general.architecture", value(std::string("mamba"))),
      "architecture 'mamba' is not served; known are: llama, qwen2, qwen3, gemma3, "
      "qwen2moe, qwen3moe, olmo2, granite, granitemoe, smollm3, glm4, glm4moe, "
      "deepseek2, gemma2, gemma4, phi3, mistral3, gpt-oss, llama4, qwen3next, qwen35, qwen35moe; "
      "the nearest is llama");
  expect_refusal(with_key("general.architecture", value(std::string("granitehybrid"))),
                 "the nearest is granite");
  expect_refusal(with_key("general.architecture", value(std::string("olmo"))),
                 "the nearest is olmo2");
  expect_refusal(with_key("general.architecture", value(std::string(100'000, 'x'))), "the nearest");
  EXPECT_EQ(code_with_key("general.architecture", value(std::string("mamba"))),
            ErrorCode::kUnsupported);
  Model model;
  model.keys.erase("general.architecture");
  expect_refusal(model.read().error().message, "'general.architecture' is missing");
  EXPECT_EQ(model.read().error().code, ErrorCode::kInvalidInput);
  expect_refusal(with_key("split.count", value(std::uint16_t{3})), "'split.no' is missing");
  EXPECT_EQ(with_key("split.count", value(std::uint16_t{1})), "");
}

TEST(SpecRefusal, SizesOutOfRangeNameKeyAndLimit) {
  expect_refusal(with_key("llama.block_count", u32(0)),
                 "key 'llama.block_count' is 0; it must be from 1 to 512");
  expect_refusal(with_key("llama.block_count", value(~std::uint64_t{0})), "from 1 to 512");
  expect_refusal(with_key("llama.block_count", value(std::int32_t{-1})), "must be 0 or more");
  expect_refusal(with_key("llama.block_count", value(std::string("2"))), "must be an integer");
  expect_refusal(with_key("llama.context_length", u32(0)), "from 1 to 1048576");
  expect_refusal(with_key("llama.embedding_length", u32(1U << 31)), "from 1 to 32768");
  expect_refusal(with_key("llama.embedding_length", u32(100)), "must be a multiple of 32");
  expect_refusal(with_key("llama.feed_forward_length", u32(33)), "must be a multiple of 32");
  expect_refusal(with_key("llama.feed_forward_length", u32(0)), "from 1 to 262144");
  for (const char* key : {"llama.block_count", "llama.context_length", "llama.embedding_length",
                          "llama.feed_forward_length", "llama.attention.head_count",
                          "llama.attention.layer_norm_rms_epsilon"}) {
    Model model;
    model.keys.erase(key);
    expect_refusal(model.read().error().message, "key '" + std::string(key) + "' is missing");
  }
}

TEST(SpecRefusal, Heads) {
  expect_refusal(with_key("llama.attention.head_count", u32(0)), "from 1 to 512");
  expect_refusal(with_key("llama.attention.head_count_kv", u32(0)), "from 1 to 4");
  expect_refusal(with_key("llama.attention.head_count_kv", u32(5)), "from 1 to 4");
  expect_refusal(with_key("llama.attention.head_count_kv", u32(3)),
                 "multiple of the 3 key and value");
  expect_refusal(with_key("llama.attention.head_count", u32(6)), "multiple of the 6 heads");
  EXPECT_EQ(code_with_key("llama.attention.head_count", u32(8)), ErrorCode::kUnsupported);
  expect_refusal(with_key("llama.attention.key_length", u32(513)), "from 1 to 512");
  EXPECT_EQ(code_with_key("llama.attention.value_length", u32(64)), ErrorCode::kUnsupported);
  expect_refusal(with_key("llama.rope.dimension_count", u32(16)),
                 "is 16; only the head's full length of 32 is served");
}

TEST(SpecRefusal, Numbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, infinity, 0.0F, -1e-5F, 2.0F}) {
    expect_refusal(with_key("llama.attention.layer_norm_rms_epsilon", value(bad)),
                   "must be above 0");
  }
  expect_refusal(with_key("llama.attention.layer_norm_rms_epsilon", value(1e-60)), "too small");
  for (const float bad : {nan, infinity, 0.0F, -1.0F, 1.0F, 1e20F}) {
    expect_refusal(with_key("llama.rope.freq_base", value(bad)), "must be above 1");
  }
  expect_refusal(with_key("llama.rope.freq_base", u32(10000)), "must be a floating-point number");
}

TEST(SpecRefusal, RopeScaling) {
  Model linear;
  linear.keys["llama.rope.scaling.type"] = value(std::string("linear"));
  linear.keys["llama.rope.scaling.factor"] = value(4.0F);
  EXPECT_EQ(linear.read()->rope_scale, 4.0);
  linear.keys.erase("llama.rope.scaling.type");
  EXPECT_EQ(linear.read()->rope_scale, 4.0);
  linear.keys["llama.rope.scaling.type"] = value(std::string("none"));
  EXPECT_EQ(linear.read()->rope_scale, 1.0);
  expect_refusal(with_key("llama.rope.scaling.type", value(std::string("su"))),
                 "is 'su'; served are: linear, yarn, none");
  EXPECT_EQ(code_with_key("llama.rope.scaling.type", value(std::string("longrope"))),
            ErrorCode::kUnsupported);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -2.0F, 1e9F}) {
    expect_refusal(with_key("llama.rope.scaling.factor", value(bad)), "rope.scaling.factor' is");
  }
  expect_refusal(with_key("llama.rope.scaling.attn_factor", value(0.0F)), "must be above 0");
}

TEST(SpecRefusal, VariantsThatNeedOtherCode) {
  EXPECT_EQ(code_with_key("llama.attention.causal", value(false)), ErrorCode::kUnsupported);
  EXPECT_EQ(with_key("llama.attention.causal", value(true)), "");
}

// The small llama file with a mixture of 4 experts, of which a row uses 2.
Model mixture() {
  Model model;
  model.keys["llama.expert_count"] = u32(4);
  model.keys["llama.expert_used_count"] = u32(2);
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    for (const char* part : {"ffn_gate", "ffn_up", "ffn_down"}) {
      auto experts = model.tensors.extract(layer + part + ".weight");
      experts.key() = layer + part + "_exps.weight";
      experts.mapped().dims.push_back(4);
      model.tensors.insert(std::move(experts));
    }
    model.tensors[layer + "ffn_gate_inp.weight"] = {TensorType::kF32, {128, 4}};
  }
  return model;
}

std::string mixture_with(const std::string& key, AddKey add) {
  Model model = mixture();
  model.keys["llama." + key] = std::move(add);
  const auto spec = model.read();
  return spec.ok() ? std::string() : spec.error().message;
}

TEST(Spec, ALlamaFileMayHaveExperts) {
  const auto spec = mixture().read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->experts, 4U);
  EXPECT_EQ(spec->experts_used, 2U);
  EXPECT_EQ(spec->feed_forward, 96U);
  EXPECT_EQ(spec->shared_feed_forward, 0U);
  EXPECT_EQ(with_key("llama.expert_count", u32(0)), "");
  EXPECT_EQ(Model().read()->experts, 0U);
}

TEST(SpecRefusal, NumbersOfExpertsNameKeyAndLimit) {
  expect_refusal(mixture_with("expert_count", u32(1)),
                 "key 'llama.expert_count' is 1; it must be from 2 to 1024");
  expect_refusal(mixture_with("expert_count", u32(1025)), "from 0 to 1024");
  expect_refusal(mixture_with("expert_count", value(~std::uint64_t{0})), "from 0 to 1024");
  expect_refusal(mixture_with("expert_used_count", u32(0)),
                 "key 'llama.expert_used_count' is 0; it must be from 1 to 4");
  expect_refusal(mixture_with("expert_used_count", u32(5)), "from 1 to 4");
  expect_refusal(mixture_with("expert_count", u32(5)),
                 "tensor 'blk.0.ffn_gate_inp.weight' has shape [128, 4]; it must be [128, 5]");
  expect_refusal(mixture_with("feed_forward_length", u32(64)),
                 "tensor 'blk.0.ffn_gate_exps.weight' has shape [128, 96, 4]; it must be "
                 "[128, 64, 4]");
  Model unknown = mixture();
  unknown.keys.erase("llama.expert_used_count");
  expect_refusal(unknown.read().error().message, "key 'llama.expert_used_count' is missing");
  Model many = mixture();
  many.keys["llama.expert_count"] = u32(64);
  many.keys["llama.expert_used_count"] = u32(33);
  expect_refusal(many.read().error().message, "from 1 to 32");
  Model dense = mixture();
  dense.tensors["blk.1.ffn_gate.weight"] = {TensorType::kQ4_1, {128, 96}};
  expect_refusal(dense.read().error().message, "'blk.1.ffn_gate.weight' has no place");
}

TEST(SpecRefusal, WaysToChooseExpertsThatAreNotServed) {
  expect_refusal(mixture_with("expert_gating_func", u32(2)),
                 "is 2; of this family only 1 (softmax)");
  expect_refusal(mixture_with("expert_group_count", u32(8)), "is 8; of this family at most 1");
  expect_refusal(mixture_with("leading_dense_block_count", u32(1)), "at most 0 is served");
  expect_refusal(mixture_with("expert_weights_scale", value(2.5F)), "only 1 is served");
  expect_refusal(mixture_with("expert_weights_norm", value(false)), "is false; this family has");
  expect_refusal(mixture_with("expert_feed_forward_length", u32(64)),
                 "is 64; in this family it must equal the 96 of 'llama.feed_forward_length'");
  EXPECT_EQ(mixture_with("expert_gating_func", u32(1)), "");
  EXPECT_EQ(mixture_with("expert_weights_scale", value(1.0F)), "");
  EXPECT_EQ(mixture_with("expert_weights_norm", value(true)), "");
}

// A file of a family that always has experts, of which a test changes keys.
std::string always_with(const std::string& family, const std::map<std::string, AddKey>& keys) {
  Model model = mixture();
  for (const auto& [key, add] : Model(model).keys) {
    if (key.starts_with("llama.")) model.keys[family + key.substr(5)] = add;
  }
  model.keys["general.architecture"] = value(family);
  for (const auto& [key, add] : keys) {
    if (add) model.keys[family + "." + key] = add;
    if (!add) model.keys.erase(family + "." + key);
  }
  const auto spec = model.read();
  return spec.ok() ? std::string() : spec.error().message;
}

TEST(SpecRefusal, FamiliesThatAlwaysOrNeverHaveExperts) {
  expect_refusal(always_with("qwen3moe", {{"expert_count", nullptr}}),
                 "key 'qwen3moe.expert_count' is missing");
  expect_refusal(always_with("qwen3moe", {{"expert_count", u32(0)}}),
                 "is 0; it must be from 2 to 1024");
  expect_refusal(
      always_with("qwen3", {}),
      "key 'qwen3.expert_count' is 4; models of qwen3 with a mixture of experts are not");
  // Without a width of its own an expert has its share of the feed-forward's.
  expect_refusal(always_with("qwen3moe", {{"feed_forward_length", u32(192)}}),
                 "tensor 'blk.0.attn_q_norm.weight' of shape [32] is missing");
  expect_refusal(
      always_with("qwen3moe", {{"feed_forward_length", u32(97)}}),
      "without key 'qwen3moe.expert_feed_forward_length' it must be a multiple of the 2");
  expect_refusal(always_with("qwen3moe", {{"expert_feed_forward_length", u32(33)}}),
                 "key 'qwen3moe.expert_feed_forward_length' is 33; it must be a multiple of 32");
  expect_refusal(always_with("qwen2moe", {{"expert_feed_forward_length", u32(96)},
                                          {"expert_shared_feed_forward_length", u32(40)}}),
                 "key 'qwen2moe.expert_shared_feed_forward_length' is 40; it must be a multiple");
}

// The small file with experts as one of gpt-oss.
Model gpt_oss() {
  Model model = mixture();
  for (const auto& [key, add] : Model(model).keys) {
    if (key.starts_with("llama.")) model.keys["gpt-oss" + key.substr(5)] = add;
  }
  model.keys["general.architecture"] = value(std::string("gpt-oss"));
  model.keys["gpt-oss.expert_feed_forward_length"] = u32(96);
  model.keys["gpt-oss.attention.sliding_window"] = u32(16);
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    auto norm = model.tensors.extract(layer + "ffn_norm.weight");
    norm.key() = layer + "post_attention_norm.weight";
    model.tensors.insert(std::move(norm));
    const auto add = [&](const char* part, std::vector<std::uint64_t> dims) {
      model.tensors[layer + part] = {TensorType::kF32, std::move(dims)};
    };
    add("attn_q.bias", {128});
    add("attn_k.bias", {64});
    add("attn_v.bias", {64});
    add("attn_output.bias", {128});
    add("attn_sinks.weight", {4});
    add("ffn_gate_inp.bias", {4});
    add("ffn_gate_exps.bias", {96, 4});
    add("ffn_up_exps.bias", {96, 4});
    add("ffn_down_exps.bias", {128, 4});
    model.tensors[layer + "ffn_up_exps.weight"].type = TensorType::kMXFP4;
  }
  return model;
}

TEST(Spec, GptOssHasSinksBiasesAndEveryOtherLayerLocal) {
  const auto spec = gpt_oss().read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->experts, 4U);
  EXPECT_TRUE(spec->is_local(0));
  EXPECT_FALSE(spec->is_local(1));
  EXPECT_EQ(spec->first_visible(0, 20), 5U);
  EXPECT_EQ(spec->local_rope_frequencies(), spec->rope_frequencies());
  Model other = gpt_oss();
  other.keys["gpt-oss.rope.freq_base_swa"] = value(5000.0F);
  const auto own = other.read();
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_NE(own->local_rope_frequencies(), own->rope_frequencies());
}

TEST(SpecRefusal, GptOssWithoutItsTensors) {
  for (const char* part : {"attn_sinks.weight", "attn_output.bias", "ffn_gate_inp.bias",
                           "ffn_down_exps.bias", "post_attention_norm.weight"}) {
    Model model = gpt_oss();
    model.tensors.erase(std::string("blk.1.") + part);
    expect_refusal(model.read().error().message, std::string("'blk.1.") + part + "' of shape [");
  }
  Model model = gpt_oss();
  model.tensors["blk.0.ffn_up_exps.bias"] = {TensorType::kF32, {96, 3}};
  expect_refusal(model.read().error().message, "has shape [96, 3]; it must be [96, 4]");
  model = gpt_oss();
  model.tensors["blk.0.attn_sinks.weight"] = {TensorType::kF16, {4}};
  expect_refusal(model.read().error().message, "is of type F16; only F32 is served for it");
}

TEST(SpecRefusal, WaysToEmbedThatAreNotServed) {
  const std::string key = "llama.pooling_type";
  EXPECT_EQ(with_key(key, u32(0)), "");
  EXPECT_EQ(with_key(key, u32(3)), "");
  EXPECT_EQ(code_with_key(key, u32(1)), ErrorCode::kUnsupported);
  expect_refusal(with_key(key, u32(1)), "is 1 (mean)");
  expect_refusal(with_key(key, u32(2)), "is 2 (cls)");
  expect_refusal(with_key(key, u32(4)), "is 4 (rank)");
  expect_refusal(with_key(key, u32(5)), "from 0 to 4");
  Model model;
  model.keys[key] = u32(3);
  EXPECT_TRUE(model.read()->gives_embeddings);
  EXPECT_FALSE(Model().read()->gives_embeddings);
}

TEST(SpecRefusal, ScalesAndCapsThatNoServedModelHas) {
  for (const char* suffix : {"attn_logit_softcapping", "final_logit_softcapping", "logit_scale",
                             "attention.scale", "embedding_scale", "residual_scale"}) {
    const std::string key = std::string("llama.") + suffix;
    EXPECT_EQ(code_with_key(key, value(30.0F)), ErrorCode::kUnsupported);
    expect_refusal(with_key(key, value(30.0F)), "key '" + key + "' is 30");
    EXPECT_EQ(with_key(key, value(0.0F)), "");
  }
  expect_refusal(with_key("llama.attention.key_length_swa", u32(64)),
                 "only the head's full length");
}

TEST(SpecRefusal, AWindowInAFamilyWithoutLocalLayers) {
  expect_refusal(with_key("llama.attention.sliding_window", u32(127)),
                 "is 127, below the context of 128");
  EXPECT_EQ(code_with_key("llama.attention.sliding_window", u32(127)), ErrorCode::kUnsupported);
  EXPECT_EQ(with_key("llama.attention.sliding_window", u32(128)), "");
  EXPECT_EQ(with_key("llama.attention.sliding_window", u32(0)), "");
}

TEST(SpecRefusal, Vocabulary) {
  expect_refusal(with_key("llama.vocab_size", u32(49)),
                 "is 49; it must equal the 50 rows of 'token_embd.weight'");
  expect_refusal(with_key("tokenizer.ggml.tokens",
                          [](GgufWriter& writer, const std::string& key) {
                            writer.add_array(key, std::vector<std::string>(51, "t"));
                          }),
                 "has 51 items");
  expect_refusal(with_key("tokenizer.ggml.tokens", u32(50)), "must be an array");
  Model model;
  model.tensors["token_embd.weight"].dims = {128};
  expect_refusal(model.read().error().message, "has shape [128]; it must have 2 dimensions");
}

TEST(SpecRefusal, Tensors) {
  for (const auto& [name, unused] : Model().tensors) {
    Model without;
    without.tensors.erase(name);
    ASSERT_FALSE(without.read().ok()) << name;
    expect_refusal(without.read().error().message, "tensor '" + name + "'");
    Model wide;
    wide.tensors[name].dims[0] += 32;
    expect_refusal(wide.read().error().message, "tensor '" + name + "' has shape [");
    Model typed;
    if (typed.tensors[name].dims.size() != 1) continue;  // a matrix has any type
    typed.tensors[name].type = TensorType::kF16;
    EXPECT_EQ(typed.read().error().code, ErrorCode::kUnsupported) << name;
    expect_refusal(typed.read().error().message, "tensor '" + name + "' is of type F16");
  }
  Model turned;
  turned.tensors["blk.1.ffn_down.weight"].dims = {128, 96};
  expect_refusal(turned.read().error().message,
                 "tensor 'blk.1.ffn_down.weight' has shape [128, 96]; it must be [96, 128]");
  Model extra;
  extra.tensors["blk.0.attn_q.bias"] = {TensorType::kF32, {128}};
  EXPECT_EQ(extra.read().error().code, ErrorCode::kUnsupported);
  expect_refusal(extra.read().error().message, "'blk.0.attn_q.bias' has no place in a llama model");
}

TEST(Spec, AVisionTowerIsLeftOut) {
  const auto text = Model().read();
  Model model;
  model.tensors["v.blk.0.attn_q.weight"] = {TensorType::kF16, {64, 64}};
  model.tensors["mm.mm_input_projection.weight"] = {TensorType::kF32, {128, 64}};
  const auto spec = model.read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->vision_tensors, 2U);
  EXPECT_EQ(spec->parameters, text->parameters);
  model.tensors["vision.weight"] = {TensorType::kF32, {64}};
  expect_refusal(model.read().error().message, "'vision.weight' has no place");
}

TEST(Spec, AnArrayOfOneNumberIsThatNumber) {
  for (const char* key : {"llama.attention.head_count_kv", "llama.attention.sliding_window"}) {
    expect_refusal(with_key(key, array<std::uint32_t>({2, 3})),
                   "key '" + std::string(key) + "' is an array");
    EXPECT_EQ(code_with_key(key, array<std::uint32_t>({2, 3})), ErrorCode::kUnsupported);
    EXPECT_EQ(code_with_key(key, array<std::int32_t>({-1, -1})), ErrorCode::kUnsupported);
    EXPECT_EQ(code_with_key(key, array<std::uint32_t>({})), ErrorCode::kUnsupported);
    EXPECT_EQ(code_with_key(key, array<std::string>({"2", "2"})), ErrorCode::kUnsupported);
  }
  Model model;
  model.keys["llama.attention.head_count"] = array<std::int32_t>({4, 4});
  model.keys["llama.attention.head_count_kv"] = array<std::uint32_t>({2, 2});
  model.keys["llama.feed_forward_length"] = array<std::uint64_t>({96, 96});
  const auto spec = model.read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->heads, 4U);
  EXPECT_EQ(spec->kv_heads, 2U);
  EXPECT_EQ(spec->feed_forward, 96U);
  expect_refusal(with_key("llama.attention.head_count_kv", array<std::uint32_t>({5, 5})),
                 "from 1 to 4");
}

TEST(SpecRefusal, RopeFactors) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -1.0F, 2e30F}) {
    Model model;
    model.tensors["rope_freqs.weight"] = {TensorType::kF32, {16}};
    model.rope_factor = bad;
    expect_refusal(model.read().error().message, "tensor 'rope_freqs.weight': factor 0 is");
  }
  Model shaped;
  shaped.tensors["rope_freqs.weight"] = {TensorType::kF32, {32}};
  expect_refusal(shaped.read().error().message, "it must be [16]");
}

TEST(Spec, TraitsDecideTheTensors) {
  FamilyTraits traits = *find_family("llama");
  traits.post_norms = true;
  ModelSpec spec = *Model().read();
  spec.head_norms = HeadNorms::kEach;
  spec.family = &traits;
  spec.qkv_bias = true;
  std::map<std::string, std::vector<std::uint64_t>> vectors;
  for (const ExpectedTensor& tensor : layer_tensors(spec, 7)) {
    if (!tensor.is_matrix) vectors[tensor.name] = tensor.dims;
  }
  const std::map<std::string, std::vector<std::uint64_t>> expected{
      {"blk.7.attn_norm.weight", {128}},     {"blk.7.ffn_norm.weight", {128}},
      {"blk.7.attn_q.bias", {128}},          {"blk.7.attn_k.bias", {64}},
      {"blk.7.attn_v.bias", {64}},           {"blk.7.attn_q_norm.weight", {32}},
      {"blk.7.attn_k_norm.weight", {32}},    {"blk.7.post_attention_norm.weight", {128}},
      {"blk.7.post_ffw_norm.weight", {128}},
  };
  EXPECT_EQ(vectors, expected);
}

// A gemma3 file of `layers` layers with keys and tensors of one's own.
Result<ModelSpec> gemma(std::uint32_t layers, std::map<std::string, AddKey> keys = {},
                        const std::map<std::string, Model::Tensor>& tensors = {}) {
  Model model;
  model.tensors.insert(tensors.begin(), tensors.end());
  for (const char* key :
       {"block_count", "context_length", "embedding_length", "feed_forward_length",
        "attention.head_count", "attention.head_count_kv", "attention.layer_norm_rms_epsilon"}) {
    model.keys[std::string("gemma3.") + key] = model.keys[std::string("llama.") + key];
  }
  model.keys["general.architecture"] = value(std::string("gemma3"));
  model.keys["gemma3.block_count"] = u32(layers);
  for (auto& [key, add] : keys) model.keys["gemma3." + key] = add;
  const Model two = model;
  for (std::uint32_t i = 0; i < layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    for (const auto& [name, tensor] : two.tensors) {
      if (name.starts_with("blk.0.")) model.tensors[layer + name.substr(6)] = tensor;
    }
    for (const char* norm : {"post_attention_norm.weight", "post_ffw_norm.weight"}) {
      model.tensors[layer + norm] = {TensorType::kF32, {128}};
    }
    for (const char* norm : {"attn_q_norm.weight", "attn_k_norm.weight"}) {
      model.tensors[layer + norm] = {TensorType::kF32, {32}};
    }
  }
  return model.read();
}

TEST(Spec, GemmaHasLocalLayers) {
  const auto spec = gemma(7, {{"attention.sliding_window", u32(16)},
                              {"rope.scaling.type", value(std::string("linear"))},
                              {"rope.scaling.factor", value(8.0F)}});
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_EQ(spec->sliding_window, 16U);
  EXPECT_EQ(spec->rope_base, 1e6);
  EXPECT_EQ(spec->local_rope_base, 1e4);
  for (std::uint32_t i = 0; i < 7; ++i) EXPECT_EQ(spec->is_local(i), i != 5) << i;
  EXPECT_EQ(spec->first_visible(0, 0), 0U);
  EXPECT_EQ(spec->first_visible(0, 15), 0U);
  EXPECT_EQ(spec->first_visible(0, 16), 1U);
  EXPECT_EQ(spec->first_visible(6, 100), 85U);
  EXPECT_EQ(spec->first_visible(5, 100), 0U);
  EXPECT_EQ(spec->rope_frequencies()[0], 1.0 / 8.0);
  EXPECT_EQ(spec->local_rope_frequencies()[0], 1.0);
  EXPECT_EQ(spec->local_rope_frequencies()[8], kernels::pow_canonical(1e4, -0.5));
  EXPECT_EQ(spec->score_scale(0), 1.0F / std::sqrt(32.0F));
  EXPECT_EQ(spec->embedding_scale(), std::sqrt(128.0F));
}

TEST(SpecRefusal, RopeFactorsInAFamilyThatHasNone) {
  const auto spec = gemma(2, {}, {{"rope_freqs.weight", {TensorType::kF32, {16}}}});
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.error().code, ErrorCode::kUnsupported);
  expect_refusal(spec.error().message, "'rope_freqs.weight' has no place in a gemma3 model");
}

TEST(Spec, GemmaWithoutAWindowSeesEverything) {
  for (const auto& spec : {gemma(7), gemma(7, {{"attention.sliding_window", u32(0)}})}) {
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    EXPECT_FALSE(spec->is_local(0));
    EXPECT_EQ(spec->first_visible(0, 100), 0U);
  }
}

TEST(Spec, GemmaKeysOfTheLocalLayers) {
  const auto own = gemma(2, {{"attention.sliding_window", u32(16)},
                             {"attention.sliding_window_pattern", u32(6)},
                             {"rope.freq_base_swa", value(5000.0F)}});
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ(own->local_rope_base, 5000.0);
  const auto layers = [](std::vector<bool> local) {
    return gemma(7, {{"attention.sliding_window_pattern", array<bool>(std::move(local))}});
  };
  EXPECT_TRUE(layers({true, true, true, true, true, false, true}).ok());
  EXPECT_FALSE(layers({true, true, true, true, true, true, true}).ok());
  EXPECT_FALSE(layers({true, true, true, true, true, false}).ok());
  const auto pattern = gemma(2, {{"attention.sliding_window_pattern", u32(4)}});
  expect_refusal(pattern.error().message, "is 4; only 6 is served");
  EXPECT_EQ(pattern.error().code, ErrorCode::kUnsupported);
}

// The scores of the model of 62 layers are scaled as if heads were hidden / heads wide.
TEST(Spec, GemmaOf62Layers) {
  const std::map<std::string, AddKey> two_heads = {{"attention.head_count", u32(4)},
                                                   {"attention.key_length", u32(32)}};
  ASSERT_TRUE(gemma(62, two_heads).ok());
  ModelSpec spec = *gemma(62, two_heads);
  spec.hidden = 5376;
  spec.heads = 32;
  spec.head_dim = 128;
  EXPECT_EQ(spec.score_scale(0), 1.0F / std::sqrt(168.0F));
  spec.layers = 61;
  EXPECT_EQ(spec.score_scale(0), 1.0F / std::sqrt(128.0F));
}

TEST(Spec, RopeFrequenciesFollowBaseFactorsAndScale) {
  ModelSpec spec;
  spec.rotary_dim = 64;
  spec.rope_base = 10000.0;
  const std::vector<double> plain = spec.rope_frequencies();
  ASSERT_EQ(plain.size(), 32U);
  EXPECT_EQ(plain[0], 1.0);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    // The canonical power is within a few units in the last place of the true one.
    const double exact = std::pow(10000.0, -2.0 * static_cast<double>(i) / 64.0);
    EXPECT_NEAR(plain[i] / exact, 1.0, 1e-14) << i;
  }
  spec.rope_scale = 4.0;
  spec.rope_factors.assign(32, 8.0F);
  const std::vector<double> scaled = spec.rope_frequencies();
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(scaled[i], plain[i] / 32.0);
}

}  // namespace
}  // namespace hearth::model
