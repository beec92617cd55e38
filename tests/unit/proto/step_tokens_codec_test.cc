#include <gtest/gtest.h>

#include <cmath>

#include "base/limits.h"
#include "proto/step.h"
#include "tests/unit/proto/messages.h"

namespace hearth {
namespace {

using testing::sample_tokens;
using testing::small_shape;

std::string refusal(const StepTokens& tokens) {
  const auto decoded = decode_step_tokens(encode(tokens), small_shape(false));
  return decoded.ok() ? "" : decoded.error().message;
}

TEST(StepTokensCodec, RoundTripsAndConsumesExactly) {
  Bytes bytes = encode(sample_tokens());
  const auto decoded = decode_step_tokens(bytes, small_shape(false));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(*decoded, sample_tokens());
  EXPECT_EQ(encode(*decoded), bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_step_tokens(ByteSpan(bytes).first(size), small_shape(false)).ok());
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_step_tokens(bytes, small_shape(false)).ok());
}

TEST(StepTokensCodec, BringsScores) {
  StepTokens tokens = sample_tokens();
  tokens.scores = {{SequenceId(7), 1, 5, FinishReason::kNone, ErrorCode::kNumeric, -2.5F, {}},
                   {SequenceId(7),
                    2,
                    6,
                    FinishReason::kNone,
                    ErrorCode::kNumeric,
                    -0.5F,
                    {{6, -0.5F}, {3, -2}}}};
  Bytes bytes = encode(tokens);
  const auto decoded = decode_step_tokens(bytes, small_shape(false));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(*decoded, tokens);
  EXPECT_EQ(encode(*decoded), bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_step_tokens(ByteSpan(bytes).first(size), small_shape(false)).ok());
  }
  tokens.scores[1].position = 3;
  EXPECT_NE(refusal(tokens).find("scores of sequence 7 go from position 1 to 3"),
            std::string::npos);
  tokens.scores[1].position = 2;
  tokens.scores[0].logprob = std::nanf("");
  EXPECT_NE(refusal(tokens).find("logprob"), std::string::npos);
}

TEST(StepTokensCodec, BringsWhatWasCached) {
  StepTokens tokens = sample_tokens();
  const std::size_t without = encode(tokens).size();
  tokens.cached = {{SequenceId(7), 2}, {SequenceId(9), 1}};
  Bytes bytes = encode(tokens);
  EXPECT_EQ(bytes.size(), without + 2 * 12);
  EXPECT_EQ(*decode_step_tokens(bytes, small_shape(false)), tokens);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_step_tokens(ByteSpan(bytes).first(size), small_shape(false)).ok());
  }
  tokens.cached[1].sequence = SequenceId(7);
  EXPECT_NE(refusal(tokens).find("cached names sequence 7 twice"), std::string::npos);
  for (const std::uint32_t positions : {0U, small_shape(false).context}) {
    tokens.cached = {{SequenceId(7), positions}};
    EXPECT_NE(refusal(tokens).find("cached.positions is"), std::string::npos);
  }
}

TEST(StepTokensCodec, BringsDrafts) {
  for (const bool scored : {false, true}) {
    StepTokens tokens = sample_tokens();
    if (scored) {
      tokens.scores = {{SequenceId(7), 1, 5, FinishReason::kNone, ErrorCode::kNumeric, -2.5F, {}}};
    }
    tokens.drafts = {{SequenceId(9), {{{4, 2}, {0, 0}}}, {1, 99}}, {SequenceId(1), {}, {3}}};
    const Bytes bytes = encode(tokens);
    const auto decoded = decode_step_tokens(bytes, small_shape(false));
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(*decoded, tokens);
    EXPECT_EQ(encode(*decoded), bytes);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode_step_tokens(ByteSpan(bytes).first(size), small_shape(false)).ok());
    }
  }
}

// The counts come after everything that earlier protocols know, and only if there are some.
TEST(StepTokensCodec, BringsDraftsOfAModelLast) {
  StepTokens tokens = sample_tokens();
  tokens.drafts = {{SequenceId(9), {{{4, 2}, {0, 0}, {0, 0}}}, {1}}, {SequenceId(1), {}, {3}}};
  const std::size_t without = encode(tokens).size();
  tokens.drafts[1].counts[static_cast<std::size_t>(DraftKind::kModel)] = {7, 6};
  Bytes bytes = encode(tokens);
  EXPECT_EQ(bytes.size(), without + 4 + 16);
  const auto decoded = decode_step_tokens(bytes, small_shape(false));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(*decoded, tokens);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const bool whole = decode_step_tokens(ByteSpan(bytes).first(size), small_shape(false)).ok();
    EXPECT_EQ(whole, size == without) << size;
  }
  const auto with = [&](std::size_t at, std::uint8_t byte) {
    Bytes changed = bytes;
    changed[without + at] = std::byte{byte};
    const auto read = decode_step_tokens(changed, small_shape(false));
    return read.ok() ? std::string() : read.error().message;
  };
  EXPECT_NE(with(0, 3).find("modelled has 3 entries; the limit is 2"), std::string::npos);
  EXPECT_NE(with(4, 5).find("modelled names sequence 5"), std::string::npos);
  EXPECT_NE(with(12, 0).find("were accepted"), std::string::npos);
  EXPECT_NE(with(12, 33).find("the limit is 32"), std::string::npos);
  bytes.resize(without);
  bytes.insert(bytes.end(), 4, std::byte{0});
  EXPECT_FALSE(decode_step_tokens(bytes, small_shape(false)).ok()) << "an empty list is left out";
}

TEST(StepTokensCodec, RefusesDraftsThatCannotBe) {
  const auto refused = [](const auto& change) {
    StepTokens tokens = sample_tokens();
    tokens.drafts = {{SequenceId(9), {{{4, 2}, {0, 0}}}, {1}}};
    change(tokens.drafts);
    return refusal(tokens);
  };
  using Drafts = std::vector<SequenceDrafts>;
  EXPECT_EQ(refused([](Drafts&) {}), "");
  EXPECT_NE(refused([](Drafts& all) { all[0].counts[0].accepted = 5; }).find("5 of 4"),
            std::string::npos);
  EXPECT_NE(refused([](Drafts& all) {
              all[0].counts[1].drafted = limits::kDraftRows + 1;
            }).find("the limit is 32"),
            std::string::npos);
  EXPECT_NE(refused([](Drafts& all) { all[0].forced[0] = 100; }).find("token 100"),
            std::string::npos);
  EXPECT_NE(refused([](Drafts& all) {
              all[0].forced.assign(limits::kDraftRows + 1, 1);
            }).find("drafts.forced"),
            std::string::npos);
  EXPECT_NE(refused([](Drafts& all) { all.push_back(all[0]); }).find("twice"), std::string::npos);
}

TEST(StepTokensCodec, BringsEmbeddings) {
  const StepShape shape = small_shape(false);
  for (const bool scored : {false, true}) {
    StepTokens tokens = sample_tokens();
    if (scored) {
      tokens.scores = {{SequenceId(7), 1, 5, FinishReason::kNone, ErrorCode::kNumeric, -2.5F, {}}};
    }
    tokens.embeddings = {{SequenceId(7), {0.5F, -0.25F}}, {SequenceId(9), {1.0F}}};
    const Bytes bytes = encode(tokens);
    const auto decoded = decode_step_tokens(bytes, shape);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(*decoded, tokens);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode_step_tokens(ByteSpan(bytes).first(size), shape).ok()) << size;
    }
  }
}

TEST(StepTokensCodec, RefusesEmbeddingsThatAreNone) {
  StepTokens tokens = sample_tokens();
  tokens.embeddings = {{SequenceId(7), {0.5F, std::nanf("")}}};
  EXPECT_NE(refusal(tokens).find("not finite"), std::string::npos);
  tokens.embeddings = {{SequenceId(7), {}}, {SequenceId(9), {0.5F, 0.5F}}};
  EXPECT_NE(refusal(tokens).find("embeddings.values has no entries"), std::string::npos);
  tokens.embeddings = {{SequenceId(7), {}}};
  tokens.embeddings[0].values.assign(small_shape(false).hidden_size + 1, 0.5F);
  EXPECT_NE(refusal(tokens).find("embeddings.values has"), std::string::npos);
  tokens.embeddings = {{SequenceId(7), {0.5F}}, {SequenceId(7), {0.5F}}};
  EXPECT_NE(refusal(tokens).find("embeddings names sequence 7 twice"), std::string::npos);
}

TEST(StepTokensCodec, RefusesNumbersThatAreNone) {
  StepTokens tokens = sample_tokens();
  tokens.tokens[0].logprob = std::nanf("");
  EXPECT_NE(refusal(tokens).find("tokens.logprob"), std::string::npos);
  tokens = sample_tokens();
  tokens.tokens[0].top[1].logprob = -INFINITY;
  EXPECT_NE(refusal(tokens).find("tokens.top.logprob"), std::string::npos);
}

TEST(StepTokensCodec, RefusesUnknownEnumsAndIds) {
  StepTokens tokens = sample_tokens();
  tokens.tokens[0].finish = static_cast<FinishReason>(4);
  EXPECT_NE(refusal(tokens).find("tokens.finish"), std::string::npos);
  tokens = sample_tokens();
  tokens.tokens[0].error = static_cast<ErrorCode>(10);
  EXPECT_NE(refusal(tokens).find("tokens.error"), std::string::npos);
  tokens = sample_tokens();
  tokens.tokens[0].token = 100;
  EXPECT_NE(refusal(tokens).find("tokens.token"), std::string::npos);
  tokens = sample_tokens();
  tokens.tokens[0].top[0].token = -3;
  EXPECT_NE(refusal(tokens).find("tokens.top.token"), std::string::npos);
  tokens = sample_tokens();
  tokens.tokens[0].position = 64;
  EXPECT_NE(refusal(tokens).find("tokens.position"), std::string::npos);
}

TEST(StepTokensCodec, RefusesDisorderAndDuplicates) {
  StepTokens tokens = sample_tokens();
  std::swap(tokens.tokens[0].top[0], tokens.tokens[0].top[1]);
  EXPECT_NE(refusal(tokens).find("descending"), std::string::npos);
  tokens = sample_tokens();
  tokens.tokens.push_back(tokens.tokens[0]);
  EXPECT_NE(refusal(tokens).find("tokens names sequence 9 twice"), std::string::npos);
  tokens = sample_tokens();
  tokens.tokens.insert(tokens.tokens.begin(), tokens.tokens[0]);
  EXPECT_NE(refusal(tokens).find("sequence 9 go from position 2 to 2"), std::string::npos);
  tokens.tokens[1].position = 4;
  EXPECT_NE(refusal(tokens).find("sequence 9 go from position 2 to 4"), std::string::npos);
  tokens.tokens[1].position = 3;  // two rows of one sequence in one step
  EXPECT_EQ(refusal(tokens), "");
  tokens = sample_tokens();
  tokens.released.push_back(SequenceId(2));
  EXPECT_NE(refusal(tokens).find("released"), std::string::npos);
}

TEST(StepTokensCodec, BoundsTheAlternatives) {
  StepTokens tokens = sample_tokens();
  tokens.tokens[0].top.assign(limits::kTopLogprobs, {1, -1.0F});
  EXPECT_EQ(refusal(tokens), "");
  tokens.tokens[0].top.push_back({1, -1.0F});
  EXPECT_NE(refusal(tokens).find("the limit is 20"), std::string::npos);
}

}  // namespace
}  // namespace hearth
