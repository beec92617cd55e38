#include <gtest/gtest.h>

#include "base/limits.h"
#include "proto/step.h"
#include "tests/unit/proto/messages.h"

namespace hearth {
namespace {

using testing::sample_cancel;
using testing::sample_submit;
using testing::small_shape;

std::string refusal(const SubmitMessage& submit) {
  const auto decoded = decode_submit(encode(submit), small_shape(false));
  return decoded.ok() ? "" : decoded.error().message;
}

TEST(SubmitCodec, RoundTripsAndConsumesExactly) {
  Bytes bytes = encode(sample_submit());
  const auto decoded = decode_submit(bytes, small_shape(false));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(*decoded, sample_submit());
  EXPECT_EQ(encode(*decoded), bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_submit(ByteSpan(bytes).first(size), small_shape(false)).ok());
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decode_submit(bytes, small_shape(false)).ok());
}

TEST(SubmitCodec, KnowsSevenChoicesAndNoOthers) {
  constexpr std::size_t kChoices = 8 + 8 + 4;  // behind epoch, id and prompt_tokens
  SubmitMessage submit = sample_submit();
  for (const bool background : {false, true}) {
    submit.open.background = background;
    const Bytes bytes = encode(submit);
    EXPECT_EQ(std::to_integer<int>(bytes[kChoices]) & ~3, background ? 4 : 0);
    const auto decoded = decode_submit(bytes, small_shape(false));
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, submit);
  }
  submit.open.drafts = false;
  const auto plain = decode_submit(encode(submit), small_shape(false));
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(*plain, submit);
  Bytes bytes = encode(sample_submit());
  bytes[kChoices] |= std::byte{128};
  const auto decoded = decode_submit(bytes, small_shape(false));
  ASSERT_FALSE(decoded.ok());
  EXPECT_NE(decoded.error().message.find("0 to 127"), std::string::npos);
}

TEST(SubmitCodec, BringsTheValuesOfAnEmbedding) {
  SubmitMessage submit = sample_submit();
  const std::uint32_t hidden = small_shape(false).hidden_size;
  submit.open.embedding = hidden;
  const Bytes bytes = encode(submit);
  const auto decoded = decode_submit(bytes, small_shape(false));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(*decoded, submit);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_submit(ByteSpan(bytes).first(size), small_shape(false)).ok());
  }
  submit.open.embedding = hidden + 1;
  EXPECT_NE(refusal(submit).find("the limit is " + std::to_string(hidden)), std::string::npos);
  StepShape wide = small_shape(false);
  wide.hidden_size = limits::kModelWidth;
  submit.open.embedding = limits::kEmbeddingValues + 1;
  EXPECT_FALSE(decode_submit(encode(submit), wide).ok());
  submit.open.embedding = 1;
  Bytes empty = encode(submit);
  ASSERT_EQ(empty[8 + 8 + 4 + 1], std::byte{1}) << "the values, behind the choices";
  empty[8 + 8 + 4 + 1] = std::byte{0};
  const auto none = decode_submit(empty, small_shape(false));
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("embedding has no values"), std::string::npos);
}

TEST(SubmitCodec, BringsThePromptThatIsScored) {
  SubmitMessage submit = sample_submit();
  submit.open.scored = {1, 2, 99};
  const Bytes bytes = encode(submit);
  const auto decoded = decode_submit(bytes, small_shape(false));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(*decoded, submit);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_submit(ByteSpan(bytes).first(size), small_shape(false)).ok());
  }
  submit.open.scored = {1, 2};
  EXPECT_EQ(refusal(submit), "scored has 2 tokens; the prompt has 3");
  submit.open.scored = {1, 2, 100};
  EXPECT_NE(refusal(submit).find("scored is token 100"), std::string::npos);
  submit.open.scored.assign(limits::kScoredTokens + 1, 1);
  EXPECT_NE(refusal(submit).find("the limit is 8192"), std::string::npos);
  Bytes empty = encode(sample_submit());
  empty[8 + 8 + 4] |= std::byte{8};
  EXPECT_FALSE(decode_submit(empty, small_shape(false)).ok());
}

TEST(SubmitCodec, BringsTheScopeOfThePrefixCache) {
  SubmitMessage submit = sample_submit();
  submit.open.scope = blake2b({});
  const Bytes bytes = encode(submit);
  const auto decoded = decode_submit(bytes, small_shape(false));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(*decoded, submit);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_submit(ByteSpan(bytes).first(size), small_shape(false)).ok());
  }
}

// A submit with a prompt and as many tokens as it asks for leaves nothing to compute.
TEST(SubmitCodec, BringsThePromptAndFewerTokensThanItWants) {
  SubmitMessage submit = sample_submit();
  submit.open.sampling.max_tokens = 3;
  EXPECT_EQ(refusal(submit), "");
  submit.prompt.insert(submit.prompt.end(), {4, 5});
  EXPECT_EQ(refusal(submit), "");
  const auto decoded = decode_submit(encode(submit), small_shape(false));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, submit);
  submit.prompt.push_back(6);
  EXPECT_NE(refusal(submit).find("has 3 to 5 tokens"), std::string::npos) << refusal(submit);
  submit.prompt.resize(2);
  EXPECT_NE(refusal(submit).find("has 3 to 5 tokens"), std::string::npos) << refusal(submit);
  submit.open.prompt_tokens = 0xFFFFFFFF;
  EXPECT_NE(refusal(submit).find("context"), std::string::npos);
  submit.open.prompt_tokens = 0;
  EXPECT_NE(refusal(submit).find("prompt_tokens is 0"), std::string::npos);
}

TEST(SubmitCodec, RefusesWhatDoesNotFitTheContext) {
  SubmitMessage submit = sample_submit();
  submit.open.sampling.max_tokens = 61;
  EXPECT_EQ(refusal(submit), "");
  submit.open.sampling.max_tokens = 62;
  EXPECT_NE(refusal(submit).find("context of 64"), std::string::npos);
}

TEST(SubmitCodec, RefusesTokensOutsideTheVocabulary) {
  SubmitMessage submit = sample_submit();
  submit.prompt[1] = 100;
  EXPECT_NE(refusal(submit).find("tokens is token 100"), std::string::npos);
}

TEST(CancelCodec, RoundTripsAndBoundsItsList) {
  const Bytes bytes = encode(sample_cancel());
  const auto decoded = decode_cancel(bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, sample_cancel());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_cancel(ByteSpan(bytes).first(size)).ok());
  }
  CancelMessage many;
  for (std::uint64_t i = 0; i <= limits::kRunningSequences; ++i) {
    many.sequences.emplace_back(i);
  }
  const auto refused = decode_cancel(encode(many));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("the limit is 4096"), std::string::npos);
  EXPECT_FALSE(decode_cancel(encode(CancelMessage{Epoch(1), {SequenceId(1), SequenceId(1)}})).ok());
}

}  // namespace
}  // namespace hearth
