// What the keys and tensors of the families with experts mean that differ from mixtral's.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hearth::model
