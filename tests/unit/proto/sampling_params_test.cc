#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/limits.h"
#include "proto/step.h"
#include "tests/unit/proto/messages.h"

namespace hearth {
namespace {

constexpr std::uint32_t kVocabulary = 100;

// The message with which a change of the good parameters is refused; empty when accepted.
std::string refusal(const std::function<void(SamplingParams&)>& change) {
  SamplingParams params = testing::sample_open(1).sampling;
  change(params);
  const Status status = validate(params, kVocabulary);
  return status.ok() ? "" : status.error().message;
}

TEST(SamplingParams, DefaultsAreValid) { EXPECT_TRUE(validate(SamplingParams{}, 1).ok()); }

TEST(SamplingParams, EveryFloatIsBoundedAndNeverNaN) {
  struct Field {
    const char* name;
    float SamplingParams::*member;
    float low, high;  // the ends that are accepted
    float below, above;
  };
  const Field fields[] = {
      {"temperature", &SamplingParams::temperature, 0, 100, -0.01F, 100.1F},
      {"top_p", &SamplingParams::top_p, 1e-9F, 1, 0, 1.001F},
      {"min_p", &SamplingParams::min_p, 0, 1, -1e-6F, 1.001F},
      {"repetition_penalty", &SamplingParams::repetition_penalty, 1e-9F, 100, 0, 100.1F},
      {"presence_penalty", &SamplingParams::presence_penalty, -100, 100, -100.1F, 100.1F},
      {"frequency_penalty", &SamplingParams::frequency_penalty, -100, 100, -100.1F, 100.1F},
  };
  for (const Field& field : fields) {
    for (const float good : {field.low, field.high}) {
      EXPECT_EQ(refusal([&](SamplingParams& p) { p.*field.member = good; }), "") << field.name;
    }
    for (const float bad : {field.below, field.above, std::nanf(""), INFINITY, -INFINITY}) {
      EXPECT_EQ(refusal([&](SamplingParams& p) { p.*field.member = bad; }).find(field.name), 0u);
    }
  }
}

// A build that knows no grammar reads requests without one, and refuses the others.
TEST(SamplingParams, AGrammarIsTheLastFieldAndOnlyWhereThereIsOne) {
  SamplingParams params = testing::sample_open(1).sampling;
  const Bytes plain = encode(params);
  params.grammar = {std::byte{1}, std::byte{2}, std::byte{3}};
  const Bytes with = encode(params);
  ASSERT_EQ(with.size(), plain.size() + 4 + 3);
  const std::size_t flags = plain.size() - 5;
  EXPECT_EQ(plain[flags], std::byte{1});
  EXPECT_EQ(with[flags], std::byte{3});
  const auto again = decode_sampling(with, kVocabulary);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, params);
  Bytes empty(with.begin(), with.end() - 3);
  empty[plain.size()] = std::byte{0};
  EXPECT_EQ(decode_sampling(empty, kVocabulary).error().message,
            "grammar has 0 bytes; it must have 1 to 65536");
  Bytes cut(with.begin(), with.end() - 1);
  EXPECT_FALSE(decode_sampling(cut, kVocabulary).ok());
  Bytes unknown = plain;
  unknown[flags] = std::byte{4};
  EXPECT_FALSE(decode_sampling(unknown, kVocabulary).ok());
  EXPECT_NE(refusal([](SamplingParams& p) {
              p.grammar.resize(limits::kGrammarBytes + 1);
            }).find("grammar has 65537 bytes"),
            std::string::npos);
}

TEST(SamplingParams, LogitBiasMayForbidButNotBeNaN) {
  const auto with = [](TokenId token, float bias) {
    return refusal([&](SamplingParams& p) { p.logit_bias = {{token, bias}}; });
  };
  EXPECT_EQ(with(0, -INFINITY), "");
  EXPECT_EQ(with(99, 100.0F), "");
  EXPECT_NE(with(0, INFINITY), "");
  EXPECT_NE(with(0, std::nanf("")), "");
  EXPECT_NE(with(0, -101.0F), "");
  EXPECT_NE(with(100, 1.0F).find("logit_bias names token 100"), std::string::npos);
  EXPECT_NE(with(-1, 1.0F), "");
}

TEST(SamplingParams, CountsAreBounded) {
  EXPECT_NE(refusal([](SamplingParams& p) {
              p.logit_bias.assign(limits::kLogitBias + 1, {1, 1.0F});
            }).find("the limit is 1024"),
            std::string::npos);
  EXPECT_NE(refusal([](SamplingParams& p) {
              p.stop_tokens.assign(limits::kStopTokens + 1, 1);
            }).find("stop_tokens has 65"),
            std::string::npos);
  EXPECT_NE(refusal([](SamplingParams& p) { p.top_logprobs = 21; }).find("top_logprobs"),
            std::string::npos);
  EXPECT_NE(refusal([](SamplingParams& p) { p.max_tokens = 0; }).find("max_tokens"),
            std::string::npos);
  EXPECT_NE(refusal([](SamplingParams& p) { p.stop_tokens = {100}; }).find("stop_tokens"),
            std::string::npos);
}

}  // namespace
}  // namespace hearth
