#include "model/synthetic.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "model/gguf/quantize.h"
#include "model/spec.h"
#include "model/text/tokenizer.h"
#include "tests/unit/model/dequantize.h"

namespace hearth::model {
namespace {

struct Opened {
  Bytes bytes;
  std::shared_ptr<const GgufFile> file;
  ModelSpec spec;
};

Opened open_synthetic(const SyntheticOptions& options) {
  Opened opened;
  auto bytes = synthetic_model_bytes(options);
  EXPECT_TRUE(bytes.ok()) << bytes.error().message;
  opened.bytes = std::move(*bytes);
  auto file = GgufFile::parse(opened.bytes, "synthetic");
  EXPECT_TRUE(file.ok()) << file.error().message;
  opened.file = *file;
  auto spec = ModelSpec::read(**file);
  EXPECT_TRUE(spec.ok()) << spec.error().message;
  opened.spec = *spec;
  return opened;
}

double deviation(const GgufFile& file, const std::string& name) {
  const TensorInfo* tensor = file.find_tensor(name);
  std::vector<float> values(tensor->elements());
  EXPECT_TRUE(dequantize_row(tensor->type, file.tensor_bytes(*tensor), values).ok());
  double sum = 0.0;
  for (const float value : values) sum += double{value} * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST(Synthetic, AShapeIsAHeaderAndAHole) {
  SyntheticOptions options;
  const Opened whole = open_synthetic(options);
  EXPECT_FALSE(whole.spec.shape_only);
  options.shape_only = true;
  options.rope_factors = true;
  options.layers = 40;
  const std::string path = ::testing::TempDir() + "shape." + std::to_string(getpid()) + ".gguf";
  ASSERT_TRUE(write_synthetic_model(path, options).ok());
  const auto file = GgufFile::open(path).value();
  const auto spec = ModelSpec::read(*file);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_TRUE(spec->shape_only);
  EXPECT_EQ(spec->rope_factors, std::vector<float>(spec->rotary_dim / 2, 1.0F));
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(info.st_size), file->file_bytes());
  EXPECT_LT(static_cast<std::uint64_t>(info.st_blocks) * 512, file->file_bytes() / 2);
  const TensorInfo* norm = file->find_tensor("output_norm.weight");
  for (const std::byte each : file->tensor_bytes(*norm)) EXPECT_EQ(each, std::byte{0});
  std::filesystem::remove(path);
}

TEST(Synthetic, TinyIsACompleteModel) {
  const Opened tiny = open_synthetic({});
  EXPECT_EQ(tiny.spec.layers, 4U);
  EXPECT_EQ(tiny.spec.head_dim, 32U);
  EXPECT_EQ(tiny.spec.vocabulary, 400U);
  EXPECT_EQ(tiny.spec.context, 512U);
  EXPECT_TRUE(tiny.spec.tied_embeddings);
  EXPECT_TRUE(tiny.spec.rope_factors.empty());
  EXPECT_NEAR(deviation(*tiny.file, "token_embd.weight"), 3.0 / std::sqrt(128.0), 0.01);
  EXPECT_NEAR(deviation(*tiny.file, "blk.2.ffn_up.weight"), 1.0 / std::sqrt(128.0), 0.005);
}

TEST(Synthetic, AModelOfEmbeddingsSaysSo) {
  SyntheticOptions options;
  options.family = "qwen3";
  EXPECT_FALSE(open_synthetic(options).spec.gives_embeddings);
  options.embeddings = true;
  const Opened embedder = open_synthetic(options);
  EXPECT_TRUE(embedder.spec.gives_embeddings);
  EXPECT_TRUE((*Tokenizer::load(*embedder.file))->adds_eos());
}

TEST(Synthetic, EveryWeightTypeMakesAModelThatLoads) {
  for (const char* name :
       {"f32",   "F16",     "BF16",  "Q8_0",  "Q4_0",  "Q4_1",   "Q5_0",  "Q5_1",    "IQ4_NL",
        "Q2_K",  "Q3_K",    "Q4_K",  "Q5_K",  "Q6_K",  "IQ4_XS", "MXFP4", "IQ2_XXS", "IQ2_XS",
        "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M", "TQ1_0",  "TQ2_0", "Q4_K_M"}) {
    SyntheticOptions options;
    options.hidden = 256;
    options.layers = 8;
    ASSERT_TRUE(set_weight_types(options, name).ok()) << name;
    const Opened made = open_synthetic(options);
    const auto* info = tensor_type_info(static_cast<std::uint32_t>(options.feed_forward_type));
    const auto type = [&](const char* tensor) { return made.file->find_tensor(tensor)->type; };
    EXPECT_EQ(type("blk.3.attn_q.weight"), options.attention_type);
    EXPECT_EQ(type("blk.3.ffn_down.weight"),  // rows of 224
              info->block_elements == 256 ? TensorType::kQ8_0 : options.feed_forward_type);
    const bool mixed = std::string(name) == "Q4_K_M";
    EXPECT_EQ(type("blk.0.attn_v.weight"), mixed ? TensorType::kQ6_K : options.attention_type);
  }
  SyntheticOptions options;
  const Status refused = set_weight_types(options, "Q9_9");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("IQ4_XS"), std::string::npos);
}

TEST(Synthetic, OptionsReachTheFile) {
  SyntheticOptions options;
  options.layers = 2;
  options.head_dim = 64;  // heads * head_dim is not hidden
  options.tied_output = false;
  options.rope_factors = true;
  options.attention_type = TensorType::kQ8_0;
  options.feed_forward_type = TensorType::kQ4_1;
  options.output_type = TensorType::kQ4_0;
  const Opened model = open_synthetic(options);
  EXPECT_EQ(model.spec.head_dim, 64U);
  EXPECT_FALSE(model.spec.tied_embeddings);
  ASSERT_EQ(model.spec.rope_factors.size(), 32U);
  EXPECT_EQ(model.spec.rope_factors.front(), 1.0F);
  EXPECT_EQ(model.spec.rope_factors.back(), 8.0F);
  EXPECT_EQ(model.file->find_tensor("blk.1.attn_k.weight")->type, TensorType::kQ8_0);
  EXPECT_EQ(model.file->find_tensor("blk.1.ffn_down.weight")->type, TensorType::kQ4_1);
  EXPECT_EQ(model.file->find_tensor("output.weight")->type, TensorType::kQ4_0);
}

TEST(Synthetic, TheSeedDecidesEveryByte) {
  SyntheticOptions options;
  options.layers = 1;
  const Bytes first = *synthetic_model_bytes(options);
  EXPECT_EQ(first, *synthetic_model_bytes(options));
  options.seed = 2;
  const Bytes other = *synthetic_model_bytes(options);
  EXPECT_EQ(first.size(), other.size());
  EXPECT_NE(first, other);
}

TEST(Synthetic, VocabularyIsWhole) {
  SyntheticOptions options;
  options.layers = 1;
  options.vocabulary = 2000;
  const Opened model = open_synthetic(options);
  const auto strings = [&](std::string_view key) {
    return std::get<std::vector<std::string_view>>(
        std::get<GgufArray>(*model.file->find(key)).items);
  };
  const auto tokens = strings("tokenizer.ggml.tokens");
  const auto merges = strings("tokenizer.ggml.merges");
  const std::set<std::string_view> known(tokens.begin(), tokens.end());
  EXPECT_EQ(known.size(), 2000U);  // no token twice
  EXPECT_EQ(tokens[1], "<|im_start|>");
  EXPECT_EQ(tokens[2], "<|im_end|>");
  ASSERT_EQ(merges.size(), 2000U - 259U);
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::size_t space = merges[i].find(' ');
    ASSERT_NE(space, std::string_view::npos);
    const std::string left(merges[i].substr(0, space));
    const std::string right(merges[i].substr(space + 1));
    EXPECT_TRUE(known.count(left) == 1 && known.count(right) == 1) << merges[i];
    EXPECT_EQ(left + right, tokens[259 + i]);
  }
}

TEST(Synthetic, EveryFamilyIsComplete) {
  for (const std::string_view family : known_families()) {
    SyntheticOptions options;
    options.family = family;
    options.layers = 7;
    options.head_dim = 64;
    const Opened model = open_synthetic(options);
    EXPECT_EQ(model.spec.family->architecture, family);
    EXPECT_EQ(model.spec.sliding_window, model.spec.family->global_every == 0 ? 0U : 40U);
    const auto tokenizer = Tokenizer::load(*model.file);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    const std::string text = "the thing in there, H\xC3\xA9 said";
    const auto ids = (*tokenizer)->encode(text, SpecialTokens::kText, false);
    ASSERT_TRUE(ids.ok());
    EXPECT_LT(ids->size(), text.size() - 5) << "nothing was merged";
    std::string back;
    for (const TokenId id : *ids) back += (*tokenizer)->token_bytes(id, true);
    EXPECT_EQ(back, text) << family;
    EXPECT_FALSE((*tokenizer)->end_tokens().empty());
  }
}

TEST(Synthetic, FamiliesHaveTheExpertsThatAreAskedFor) {
  SyntheticOptions options;
  options.family = "qwen2moe";
  const Opened usual = open_synthetic(options);
  EXPECT_EQ(usual.spec.experts, 8U);
  EXPECT_EQ(usual.spec.shared_feed_forward, 96U);
  options.experts = 12;
  options.experts_used = 5;
  EXPECT_EQ(open_synthetic(options).spec.experts_used, 5U);
  options.family = "llama";
  const Opened mixtral = open_synthetic(options);
  EXPECT_EQ(mixtral.spec.experts, 12U);
  EXPECT_EQ(mixtral.spec.shared_feed_forward, 0U);
  EXPECT_EQ(mixtral.file->find_tensor("blk.1.ffn_gate_inp.weight")->type, TensorType::kF32);
}

TEST(Synthetic, AGptOssHasWhatOnlyItsFamilyHas) {
  SyntheticOptions options;
  options.family = "gpt-oss";
  options.layers = 3;
  options.yarn_scale = 8.0F;
  ASSERT_TRUE(set_weight_types(options, "mxfp4_moe").ok());
  const Opened made = open_synthetic(options);
  EXPECT_EQ(made.file->find_tensor("blk.2.ffn_up_exps.weight")->type, TensorType::kMXFP4);
  EXPECT_EQ(made.file->find_tensor("blk.2.attn_q.weight")->type, TensorType::kQ8_0);
  EXPECT_EQ(made.file->find_tensor("blk.2.attn_sinks.weight")->dims, std::vector<std::uint64_t>{4});
  EXPECT_EQ(made.file->find_tensor("blk.2.ffn_down_exps.bias")->dims,
            (std::vector<std::uint64_t>{128, 8}));
  EXPECT_EQ(made.spec.yarn->context, 64U);
  EXPECT_TRUE(made.spec.is_local(0));
  EXPECT_FALSE(made.spec.is_local(1));
  EXPECT_EQ(made.spec.local_rope_frequencies(), made.spec.rope_frequencies());
}

TEST(Synthetic, AGlm4MoeHasRoutingOfItsOwnAndLayersThatPredict) {
  SyntheticOptions options;
  options.family = "glm4moe";
  options.expert_groups = 4;
  options.expert_groups_used = 2;
  options.prediction_layers = 1;
  const Opened made = open_synthetic(options);
  EXPECT_EQ(made.spec.layers, 4U);
  EXPECT_EQ(made.spec.prediction_layers, 1U);
  EXPECT_EQ(made.spec.dense_layers, 1U);
  EXPECT_EQ(made.spec.dense_feed_forward, 352U);
  EXPECT_EQ(made.spec.routing.groups, 4U);
  EXPECT_TRUE(made.spec.routing.sigmoid);
  EXPECT_EQ(made.file->find_tensor("blk.0.ffn_up.weight")->dims,
            (std::vector<std::uint64_t>{128, 352}));
  EXPECT_NE(made.file->find_tensor("blk.4.nextn.eh_proj.weight"), nullptr);
  EXPECT_NE(made.file->find_tensor("blk.4.ffn_gate_exps.weight"), nullptr);
}

TEST(Synthetic, ALlama4HasExpertsInEverySecondLayer) {
  SyntheticOptions options;
  options.family = "llama4";
  const Opened made = open_synthetic(options);
  EXPECT_FALSE(made.spec.has_experts(0));
  EXPECT_TRUE(made.spec.has_experts(1));
  EXPECT_EQ(made.spec.dense_feed_forward, 352U);
  EXPECT_EQ(made.spec.shared_feed_forward, made.spec.feed_forward);
  EXPECT_EQ(made.spec.temperature_length, 64U);
  EXPECT_EQ(made.spec.head_norms, HeadNorms::kPlain);
  options.expert_every = 1;
  EXPECT_TRUE(open_synthetic(options).spec.has_experts(0));
}

TEST(Synthetic, RefusesWhatNoModelCanBe) {
  const auto refusal = [](auto change) {
    SyntheticOptions options;
    change(options);
    const auto bytes = synthetic_model_bytes(options);
    return bytes.ok() ? std::string() : bytes.error().message;
  };
  EXPECT_NE(refusal([](auto& o) { o.family = "stranger"; }), "");
  EXPECT_NE(refusal([](auto& o) { o.heads = 0; }), "");
  EXPECT_NE(refusal([](auto& o) { o.kv_heads = 3; }), "");
  EXPECT_NE(refusal([](auto& o) { o.hidden = 100; }), "");
  EXPECT_NE(refusal([](auto& o) { o.feed_forward = 0; }), "");
  EXPECT_NE(refusal([](auto& o) { o.layers = 0; }), "");
  EXPECT_NE(refusal([](auto& o) { o.experts = 1; }), "");
  EXPECT_NE(refusal([](auto& o) {
              o.family = "llama4";
              o.expert_every = 0;
            }),
            "");
  EXPECT_NE(refusal([](auto& o) {
              o.experts = 4;
              o.experts_used = 5;
            }),
            "");
  EXPECT_NE(refusal([](auto& o) {
              o.experts = 4;
              o.family = "qwen3";
            }),
            "");
  EXPECT_NE(refusal([](auto& o) { o.vocabulary = 258; }), "");
  EXPECT_NE(refusal([](auto& o) {
              o.family = "gemma3";
              o.vocabulary = 356;
            }),
            "");
  EXPECT_NE(refusal([](auto& o) { o.layers = 1U << 20; }), "");
  EXPECT_NE(refusal([](auto& o) { o.prediction_layers = 1; }), "");
  for (const auto& [groups, used] : {std::pair(3U, 1U), {8U, 4U}, {4U, 5U}, {4U, 0U}, {0U, 1U}}) {
    SyntheticOptions grouped;
    grouped.family = "glm4moe";
    grouped.expert_groups = groups;
    grouped.expert_groups_used = used;
    EXPECT_FALSE(synthetic_model_bytes(grouped).ok()) << groups << ", " << used;
  }
}

}  // namespace
}  // namespace hearth::model
