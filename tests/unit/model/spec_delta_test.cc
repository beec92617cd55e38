// What the keys and tensors of gated delta nets mean.
#include <gtest/gtest.h>

#include "model/spec.h"
#include "tests/unit/model/small_file.h"

namespace hearth::model {
namespace {

using NewKeys = std::map<std::string, AddKey>;

ModelSpec delta_spec(const std::string& family) {
  ModelSpec spec = family_spec(family);
  spec.delta = DeltaNet{{2, 4, 32, 4}, 4, false};
  if (spec.family->experts != Experts::kAlways) return spec;
  spec.experts = 4;
  spec.experts_used = 2;
  spec.shared_feed_forward = 64;
  return spec;
}

Model delta(const std::string& family, const NewKeys& more = {}, const ModelSpec* shape = nullptr) {
  const ModelSpec usual = delta_spec(family);
  const ModelSpec& spec = shape == nullptr ? usual : *shape;
  NewKeys keys{{"ssm.conv_kernel", u32(4)},
               {"ssm.state_size", u32(32)},
               {"ssm.group_count", u32(2)},
               {"ssm.time_step_rank", u32(4)},
               {"ssm.inner_size", u32(128)}};
  if (spec.experts > 0) {
    keys["expert_count"] = u32(4);
    keys["expert_used_count"] = u32(2);
    keys["expert_feed_forward_length"] = u32(96);
    keys["expert_shared_feed_forward_length"] = u32(64);
  }
  for (const auto& [key, add] : more) keys[key] = add;
  return model_with(spec, keys);
}

TEST(Spec, OfEveryFourLayersThreeHaveADeltaNet) {
  for (const char* family : {"qwen3next", "qwen35", "qwen35moe"}) {
    const auto spec = delta(family).read();
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    ASSERT_TRUE(spec->keeps_state());
    EXPECT_EQ(spec->delta->every, 4U);
    EXPECT_EQ(spec->delta->shape.channels(), 256U);
    EXPECT_TRUE(spec->is_delta(0) && spec->is_delta(1) && spec->is_delta(2));
    EXPECT_FALSE(spec->is_delta(3));
    EXPECT_EQ(spec->kv_layout(2).page_bytes(), 0U);
    EXPECT_GT(spec->kv_layout(3).page_bytes(), 0U);
    EXPECT_EQ(spec->state_values(), 3U * 256 + 4 * 32 * 32);
    EXPECT_EQ(spec->routing.to_one, true);
  }
  EXPECT_FALSE(Model().read()->keeps_state());
  EXPECT_TRUE(Model().read()->keeps_kv(0));
}

TEST(Spec, TheIntervalOfAttentionIsTheFiles) {
  ModelSpec shape = delta_spec("qwen35");
  shape.delta->every = 2;
  const NewKeys every{{"full_attention_interval", u32(2)}};
  const auto spec = delta("qwen35", every, &shape).read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_TRUE(spec->keeps_kv(1) && spec->keeps_kv(3));
  EXPECT_FALSE(spec->is_delta(1));
  NewKeys listed = every;
  listed["attention.recurrent_layers"] = array<bool>({true, false, true, false});
  EXPECT_TRUE(delta("qwen35", listed, &shape).read().ok());
  listed["attention.recurrent_layers"] = array<bool>({true, true, true, false});
  expect_refusal(refusal_of(delta("qwen35", listed, &shape)), "says of layer 1 another thing");
  listed["attention.recurrent_layers"] = array<bool>({true, false, true});
  expect_refusal(refusal_of(delta("qwen35", listed, &shape)), "must be a list of 4 booleans");
}

TEST(Spec, AnOlderFileHasOneMatrixOfQueriesKeysValuesAndGates) {
  ModelSpec shape = delta_spec("qwen3next");
  shape.delta->joint_input = true;
  const auto spec = delta("qwen3next", {}, &shape).read();
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  EXPECT_TRUE(spec->delta->joint_input);
  Model mixed = delta("qwen3next", {}, &shape);
  mixed.tensors["blk.1.attn_qkv.weight"] = {TensorType::kQ8_0, {128, 256}};
  expect_refusal(refusal_of(mixed), "'blk.1.attn_qkv.weight' has no place");
}

TEST(SpecRefusal, HeadsOfADeltaNet) {
  const auto refusal = [](const char* key, const AddKey& add) {
    return refusal_of(delta("qwen3next", {{key, add}}));
  };
  for (const char* key :
       {"ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.time_step_rank"}) {
    expect_refusal(refusal(key, nullptr), "is missing");
    expect_refusal(refusal(key, u32(0)), "it must be from 1 to");
    expect_refusal(refusal(key, u32(1U << 31)), "it must be from 1 to");
  }
  expect_refusal(refusal("ssm.conv_kernel", u32(17)), "it must be from 1 to 16");
  expect_refusal(refusal("ssm.state_size", u32(48)), "must be a multiple of 32");
  expect_refusal(refusal("ssm.time_step_rank", u32(3)), "must be a multiple of the 2");
  expect_refusal(refusal("ssm.inner_size", u32(96)), "it must be 128");
  expect_refusal(refusal("full_attention_interval", u32(0)), "it must be from 1 to");
  expect_refusal(refusal_of(delta("qwen3next", {{"ssm.group_count", u32(512)},
                                                {"ssm.time_step_rank", u32(512)}})),
                 "heads of queries, keys and values it is above the limit of 32768");
  Model shaped = delta("qwen3next");
  shaped.tensors["blk.2.ssm_conv1d.weight"].dims = {3, 256};
  expect_refusal(refusal_of(shaped), "has shape [3, 256]; it must be [4, 256]");
  Model ungated = delta("qwen3next");
  ungated.tensors["blk.3.attn_q.weight"].dims = {128, 128};
  expect_refusal(refusal_of(ungated), "it must be [128, 256]");
}

TEST(SpecRefusal, SectionsThatLeavePairsToAFourthNumber) {
  const auto refusal = [](const AddKey& sections) {
    return refusal_of(delta("qwen35", {{"rope.dimension_sections", sections}}));
  };
  EXPECT_EQ(refusal(array<std::int32_t>({6, 5, 5, 0})), "");
  EXPECT_EQ(refusal(array<std::uint32_t>({6, 5, 5, 0})), "");
  for (const std::vector<std::int32_t>& bad :
       {std::vector<std::int32_t>{5, 5, 5, 1}, {4, 6, 6, 0}, {16, 0, 0, 0}, {8, 5, 5, 0}}) {
    expect_refusal(refusal(array<std::int32_t>(bad)), "turn all 16 pairs in turns");
  }
  expect_refusal(refusal(array<std::int32_t>({6, 5, 5})), "a list of 4 numbers");
  expect_refusal(refusal(array<std::int32_t>({6, 5, 6, -1})), "a list of 4 numbers");
  expect_refusal(refusal(u32(16)), "a list of 4 numbers");
  expect_refusal(refusal_of(delta("qwen3next", {{"rope.dimension_sections",
                                                 array<std::int32_t>({6, 5, 5, 0})}})),
                 "models with several numbers a position (multimodal RoPE) are not served");
}

}  // namespace
}  // namespace hearth::model
