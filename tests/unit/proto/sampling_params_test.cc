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
