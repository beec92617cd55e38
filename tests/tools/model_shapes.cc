#include "tests/tools/model_shapes.h"

namespace hearth::model {
namespace {

SyntheticOptions demo_shape() {
  SyntheticOptions options;
  options.name = "synthetic demo";
  options.layers = 30;
  options.hidden = 576;
  options.feed_forward = 1536;
  options.heads = 9;
  options.kv_heads = 3;
  options.vocabulary = 49'152;
  options.context = 8192;
  options.rope_base = 100'000.0F;
  options.feed_forward_type = TensorType::kQ4_1;
  return options;
}

// Mixtral 8x7B.
SyntheticOptions mixtral_shape() {
  SyntheticOptions options;
  options.name = "synthetic 8x7b";
  options.layers = 32;
  options.hidden = 4096;
  options.feed_forward = 14'336;
  options.experts = 8;
  options.heads = 32;
  options.kv_heads = 8;
  options.vocabulary = 32'000;
  options.context = 32'768;
  options.rope_base = 1e6F;
  options.tied_output = false;
  options.attention_type = options.embedding_type = TensorType::kQ4_0;
  return options;
}

// Qwen1.5-MoE-A2.7B.
SyntheticOptions qwen2moe_shape() {
  SyntheticOptions options = mixtral_shape();
  options.family = "qwen2moe";
  options.name = "synthetic a2.7b";
  options.layers = 24;
  options.hidden = 2048;
  options.feed_forward = 1408;
  options.experts = 60;
  options.experts_used = 4;
  options.shared_feed_forward = 5632;
  options.heads = 16;
  options.kv_heads = 16;
  options.vocabulary = 151'936;
  options.context = 8192;
  return options;
}

// Qwen3-30B-A3B.
SyntheticOptions qwen3moe_shape() {
  SyntheticOptions options = mixtral_shape();
  options.family = "qwen3moe";
  options.name = "synthetic 30b-a3b";
  options.layers = 48;
  options.hidden = 2048;
  options.feed_forward = 768;
  options.experts = 128;
  options.experts_used = 8;
  options.kv_heads = 4;
  options.head_dim = 128;
  options.vocabulary = 151'936;
  options.context = 40'960;
  return options;
}

// gpt-oss-20b, or gpt-oss-120b.
SyntheticOptions gpt_oss_shape(bool large) {
  SyntheticOptions options;
  options.family = "gpt-oss";
  options.name = large ? "synthetic gpt-oss-120b" : "synthetic gpt-oss-20b";
  options.layers = large ? 36 : 24;
  options.hidden = 2880;
  options.feed_forward = 2880;
  options.experts = large ? 128 : 32;
  options.experts_used = 4;
  options.heads = 64;
  options.kv_heads = 8;
  options.head_dim = 64;
  options.vocabulary = 201'088;
  options.context = 131'072;
  options.rope_base = 150'000.0F;
  options.yarn_scale = 32.0F;
  options.sliding_window = 128;
  options.tied_output = false;
  options.feed_forward_type = TensorType::kMXFP4;
  options.attention_type = TensorType::kQ8_0;
  return options;
}

// GLM-4.5-Air.
SyntheticOptions glm4moe_shape() {
  SyntheticOptions options = mixtral_shape();
  options.family = "glm4moe";
  options.name = "synthetic 106b-a12b";
  options.layers = 46;
  options.feed_forward = 1408;
  options.dense_feed_forward = 10'944;
  options.experts = 128;
  options.experts_used = 8;
  options.heads = 96;
  options.head_dim = 128;
  options.vocabulary = 151'552;
  options.context = 131'072;
  return options;
}

SyntheticOptions glm47_flash_shape() {
  SyntheticOptions options = glm4moe_shape();
  options.family = "deepseek2";
  options.name = "synthetic glm-4.7-flash";
  options.layers = 47;
  options.hidden = 2048;
  options.feed_forward = 1536;
  options.dense_feed_forward = 10'240;
  options.experts = 64;
  options.experts_used = 4;
  options.heads = 20;
  options.kv_heads = 1;
  options.latent = {768, 512, 64, 192, 256};
  options.vocabulary = 154'880;
  options.context = 202'752;
  options.rope_base = 1e6F;
  return options;
}

// Qwen3-Next-80B-A3B.
SyntheticOptions qwen3next_shape() {
  SyntheticOptions options = qwen3moe_shape();
  options.family = "qwen3next";
  options.name = "synthetic 80b-a3b";
  options.feed_forward = 512;
  options.shared_feed_forward = 512;
  options.experts = 512;
  options.experts_used = 10;
  options.heads = 16;
  options.kv_heads = 2;
  options.head_dim = 256;
  options.delta = {16, 32, 128, 4};
  options.context = 262'144;
  options.rope_base = 1e7F;
  return options;
}

// Qwen3.5-35B-A3B.
SyntheticOptions qwen35moe_shape() {
  SyntheticOptions options = qwen3next_shape();
  options.family = "qwen35moe";
  options.name = "synthetic 35b-a3b";
  options.layers = 40;
  options.experts = 256;
  options.experts_used = 8;
  options.vocabulary = 248'320;
  return options;
}

SyntheticOptions llama3_shape() {
  SyntheticOptions options;
  options.vocabulary = 128'256;
  options.context = 131'072;
  options.rope_base = 500'000.0F;
  options.rope_factors = true;
  options.tied_output = false;
  options.kv_heads = 8;
  options.attention_type = TensorType::kQ4_0;
  options.embedding_type = TensorType::kQ4_0;
  return options;
}

}  // namespace

Result<SyntheticOptions> synthetic_preset(std::string_view name) {
  if (name == "tiny") return SyntheticOptions{};
  if (name == "demo") return demo_shape();
  if (name == "8x7b") return mixtral_shape();
  if (name == "a2.7b") return qwen2moe_shape();
  if (name == "30b-a3b") return qwen3moe_shape();
  if (name == "106b-a12b") return glm4moe_shape();
  if (name == "glm-4.7-flash") return glm47_flash_shape();
  if (name == "80b-a3b") return qwen3next_shape();
  if (name == "35b-a3b") return qwen35moe_shape();
  if (name == "gpt-oss-20b" || name == "gpt-oss-120b") return gpt_oss_shape(name.ends_with("120b"));
  SyntheticOptions options = llama3_shape();
  options.name = "synthetic " + std::string(name);
  if (name == "8b") {
    options.layers = 32;
    options.hidden = 4096;
    options.feed_forward = 14'336;
    options.heads = 32;
    return options;
  }
  if (name == "70b") {
    options.layers = 80;
    options.hidden = 8192;
    options.feed_forward = 28'672;
    options.heads = 64;
    return options;
  }
  return Error::invalid(
      "no shape is called '" + std::string(name) +
      "'; there are: tiny, demo, 8b, 70b, 8x7b, a2.7b, 30b-a3b, gpt-oss-20b, gpt-oss-120b, "
      "106b-a12b, glm-4.7-flash, 80b-a3b, 35b-a3b");
}

}  // namespace hearth::model
