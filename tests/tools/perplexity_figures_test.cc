#include "tests/tools/perplexity_figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hearth::cli {
namespace {

TEST(Perplexity, SurpriseIsOfTheSoftmax) {
  const std::vector<float> logits{0.0F, std::log(2.0F), std::log(5.0F)};
  const Score score = score_position(logits, 1, nullptr).value();
  EXPECT_NEAR(score.surprise, -std::log(2.0 / 8.0), 1e-6);
  EXPECT_EQ(score.divergence, 0.0);
}

TEST(Perplexity, DivergenceFromABase) {
  // The base says 1/2, 1/4, 1/4; this run 1/4, 1/4, 1/2.
  const std::vector<float> base_logits{std::log(2.0F), 0.0F, 0.0F};
  const Bytes bytes = model::encode_logits_row(base_logits);
  model::LogitsRow base;
  std::memcpy(&base.scale, bytes.data(), sizeof base.scale);
  std::memcpy(&base.least, bytes.data() + 4, sizeof base.least);
  base.steps = bytes.data() + 8;
  const std::vector<float> logits{0.0F, 0.0F, std::log(2.0F)};
  const Score score = score_position(logits, 2, &base).value();
  EXPECT_NEAR(score.divergence, 0.5 * std::log(2.0) - 0.25 * std::log(2.0), 1e-5);
  EXPECT_NEAR(score.base_surprise, std::log(4.0), 1e-5);
  EXPECT_FALSE(score.same_top);
  const Score same = score_position(base_logits, 0, &base).value();
  EXPECT_NEAR(same.divergence, 0.0, 1e-6);
  EXPECT_TRUE(same.same_top);
}

TEST(Perplexity, ALogitThatIsNotFiniteIsAnError) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_EQ(score_position(std::vector<float>{1.0F, bad, 2.0F}, 0, nullptr).error().code,
              ErrorCode::kNumeric);
  }
}

TEST(Perplexity, MeansAndTheirErrors) {
  std::vector<Score> scores(3);
  scores[0].surprise = 1.0;
  scores[1].surprise = 2.0;
  scores[2].surprise = 3.0;
  const Perplexity perplexity = perplexity_of(scores);
  EXPECT_NEAR(perplexity.value, std::exp(2.0), 1e-12);
  // Variance over n, by n - 1: sqrt(2/3 / 2).
  EXPECT_NEAR(perplexity.error, std::exp(2.0) * std::sqrt(1.0 / 3.0), 1e-12);
}

TEST(Perplexity, FiguresOfADivergence) {
  std::vector<Score> scores(101);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i].divergence = static_cast<double>(100 - i);
    scores[i].surprise = 1.0;
    scores[i].base_surprise = 2.0;
    scores[i].same_top = i < 50;
  }
  const Divergence figures = divergence_of(scores);
  EXPECT_DOUBLE_EQ(figures.median, 50.0);
  EXPECT_DOUBLE_EQ(figures.p99, 99.0);
  EXPECT_DOUBLE_EQ(figures.largest, 100.0);
  EXPECT_NEAR(figures.mean.mean, 50.0, 1e-9);
  EXPECT_NEAR(figures.same_top, 50.0 / 101, 1e-9);
  EXPECT_NEAR(figures.log_ratio.mean, -1.0, 1e-9);
  EXPECT_NEAR(figures.log_ratio.error, 0.0, 1e-9);
  EXPECT_NEAR(figures.base.value, std::exp(2.0), 1e-9);
  EXPECT_NEAR(figures.p_delta.mean, std::exp(-1.0) - std::exp(-2.0), 1e-9);
  EXPECT_NEAR(figures.rms_p_delta, std::exp(-1.0) - std::exp(-2.0), 1e-9);
}

}  // namespace
}  // namespace hearth::cli
