#include "node/engine/ranks/share.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "model/synthetic.h"

namespace hearth::node {
namespace {

model::ModelSpec spec_of(model::SyntheticOptions options) {
  const Bytes bytes = model::synthetic_model_bytes(options).value();
  return model::ModelSpec::read(*model::GgufFile::parse(bytes, options.family).value()).value();
}

model::ModelSpec tiny(const std::string& family = "llama") {
  model::SyntheticOptions options;
  options.family = family;
  return spec_of(options);
}

TEST(Share, SpeedsDivideEachKindWithinOneUnit) {
  model::ModelSpec spec = tiny();
  spec.heads = 64;
  spec.kv_heads = 8;
  spec.hidden = 8192;
  spec.feed_forward = 28'672;
  spec.vocabulary = 128'256;
  const std::vector<std::uint32_t> speeds{300, 100, 0, 50, 50};
  const std::vector<Share> shares = divide(spec, speeds).value();
  ASSERT_TRUE(check_shares(spec, shares).ok());
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const double part = speeds[rank] / 500.0;
    EXPECT_NEAR(shares[rank].kv_heads.size(), 8 * part, 1.0) << rank;
    EXPECT_NEAR(shares[rank].columns.size(), 28'672 * part, kShareUnit) << rank;
    EXPECT_NEAR(shares[rank].hidden.size(), 8192 * part, kShareUnit) << rank;
    EXPECT_NEAR(shares[rank].vocabulary.size(), 128'256 * part, kShareUnit) << rank;
  }
  EXPECT_EQ(shares[2], (Share{{6, 6}, {22'944, 22'944}, {6560, 6560}, {102'592, 102'592}}));
  EXPECT_EQ(divide(spec, std::vector<std::uint32_t>{7}).value()[0],
            (Share{{0, 8}, {0, 28'672}, {0, 8192}, {0, 128'256}}));
}

// A large one is divided.
TEST(Share, ASmallAttentionOutputIsWholeOnEachRank) {
  model::ModelSpec spec = tiny();
  const std::vector<std::uint32_t> speeds{1, 1};
  const std::uint64_t weights = std::uint64_t{spec.hidden} * spec.widest_queries();
  for (const bool whole : {true, false}) {
    for (const Share& share : divide(spec, speeds, whole ? weights : weights - 1).value()) {
      EXPECT_EQ(share.whole_attention_output, whole);
    }
  }
  EXPECT_TRUE(divide(spec, speeds).value()[1].whole_attention_output);
  spec.heads = 64;
  spec.hidden = 8192;
  spec.head_dim = 128;
  EXPECT_FALSE(divide(spec, speeds).value()[1].whole_attention_output);
}

// The vocabulary's last unit may be short, and there may be more ranks than heads.
TEST(Share, EveryNumberOfRanksHasTheWhole) {
  const model::ModelSpec spec = tiny();
  ASSERT_NE(spec.vocabulary % kShareUnit, 0U);
  for (std::uint32_t ranks = 1; ranks <= limits::kRanks; ++ranks) {
    const std::vector<Share> shares = divide(spec, std::vector<std::uint32_t>(ranks, 1)).value();
    EXPECT_EQ(shares.size(), ranks);
    EXPECT_TRUE(check_shares(spec, shares).ok()) << ranks;
  }
}

TEST(Share, RefusesWhatIsNoDivision) {
  const model::ModelSpec spec = tiny();
  const std::vector<std::uint32_t> none;
  EXPECT_FALSE(divide(spec, none).ok());
  EXPECT_FALSE(divide(spec, std::vector<std::uint32_t>{0, 0}).ok());
  EXPECT_FALSE(divide(spec, std::vector<std::uint32_t>(limits::kRanks + 1, 1)).ok());
  const std::vector<Share> good = divide(spec, std::vector<std::uint32_t>{1, 1}).value();
  const auto refused = [&](auto change, const std::string& what) {
    std::vector<Share> shares = good;
    change(shares);
    const Status status = check_shares(spec, shares);
    ASSERT_FALSE(status.ok()) << what;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(status.error().message.find(what), std::string::npos) << status.error().message;
  };
  refused([](auto& shares) { ++shares[1].kv_heads.begin; }, "KV heads 2 to 2 of rank 1");
  refused([](auto& shares) { shares[1].kv_heads.end = 3; }, "end at 2 at most");
  refused([](auto& shares) { shares.pop_back(); }, "of the last rank end at 1");
  refused(
      [](auto& shares) {
        shares[0].columns.end += 8;
        shares[1].columns.begin += 8;
      },
      "columns of the feed-forward of rank 0 end at");
  refused([](auto& shares) { std::swap(shares[0].hidden, shares[1].hidden); }, "must begin at 0");
  refused([](auto& shares) { shares[1].vocabulary.end -= 8; }, "must end at a multiple of 32");
  refused([](auto& shares) { shares.clear(); }, "ranks are 0");
  refused([](auto& shares) { shares[1].whole_attention_output = false; },
          "attn_output is divided on one of rank 0 and rank 1");
}

TEST(Share, OtherFamiliesAreRefusedByName) {
  for (const char* family : {"deepseek2", "gemma4", "phi3", "qwen2moe", "olmo2", "gpt-oss"}) {
    const auto refused = divide(tiny(family), std::vector<std::uint32_t>{1, 1});
    ASSERT_FALSE(refused.ok()) << family;
    EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(refused.error().message.find("'" + std::string(family) + "'"), std::string::npos);
    EXPECT_NE(refused.error().message.find("llama, qwen2, qwen3, gemma3, qwen3moe"),
              std::string::npos)
        << refused.error().message;
  }
}

// A gemma3 of 62 layers divides its scores by what hidden / heads gives, of all heads.
TEST(Share, ARankKeepsTheScoresOfTheWholeModel) {
  for (const std::uint32_t layers : {2U, 62U}) {
    model::ModelSpec spec = tiny("gemma3");
    spec.layers = layers;
    spec.head_dim = 64;
    const float scale = spec.score_scale(5);
    for (const IndexRange heads : {IndexRange{0, 1}, IndexRange{1, 1}, IndexRange{0, 2}}) {
      const model::ModelSpec own = narrowed(spec, {heads, {32, 96}, {0, 32}, {0, 32}});
      EXPECT_EQ(own.kv_heads, heads.size());
      EXPECT_EQ(own.heads, 2 * heads.size());
      EXPECT_EQ(own.feed_forward, 64U);
      EXPECT_EQ(own.hidden, spec.hidden);
      EXPECT_EQ(own.score_scale(5), scale) << layers;
    }
  }
}

}  // namespace
}  // namespace hearth::node
