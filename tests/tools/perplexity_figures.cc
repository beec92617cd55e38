#include "tests/tools/perplexity_figures.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace hearth::cli {
namespace {

// llama-perplexity leaves out what its file has cut off.
constexpr float kLeastLogProbability = -16.0F;

template <typename Value>
Estimate estimate(std::span<const Score> scores, const Value& value) {
  const auto count = static_cast<double>(scores.size());
  Estimate result;
  for (const Score& score : scores) result.mean += value(score) / count;
  double variance = 0.0;
  for (const Score& score : scores) {
    const double distance = value(score) - result.mean;
    variance += distance * distance / count;
  }
  if (scores.size() > 1) result.error = std::sqrt(variance / (count - 1));
  return result;
}

// The error of exp(mean), to first order.
Perplexity exponential(const Estimate& surprise) {
  const double value = std::exp(surprise.mean);
  return {value, value * surprise.error};
}

// Linear between the two nearest ranks.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = place - static_cast<double>(below);
  return (1.0 - part) * sorted[below] + part * sorted[above];
}

double p_delta(const Score& score) {
  return std::exp(-score.surprise) - std::exp(-score.base_surprise);
}

}  // namespace

Result<Score> score_position(std::span<const float> logits, TokenId next,
                             const model::LogitsRow* base) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - *largest);
  const double log_sum = *largest + std::log(sum);
  Score score;
  score.surprise = log_sum - logits[static_cast<std::size_t>(next)];
  if (base != nullptr) {
    score.base_surprise = -base->log_probability(static_cast<std::uint32_t>(next));
    std::uint32_t base_top = 0;
    float best = base->log_probability(0);
    for (std::uint32_t token = 0; token < logits.size(); ++token) {
      const float log_p = base->log_probability(token);
      if (log_p > best) {
        best = log_p;
        base_top = token;
      }
      if (log_p > kLeastLogProbability) {
        score.divergence += std::exp(log_p) * (log_p - logits[token] + log_sum);
      }
    }
    score.same_top = largest - logits.begin() == static_cast<std::ptrdiff_t>(base_top);
  }
  if (!std::isfinite(score.surprise) || !std::isfinite(score.divergence)) {
    return Error{ErrorCode::kNumeric, "a logit is not finite"};
  }
  return score;
}

Perplexity perplexity_of(std::span<const Score> scores) {
  return exponential(estimate(scores, [](const Score& score) { return score.surprise; }));
}

Divergence divergence_of(std::span<const Score> scores) {
  Divergence result;
  std::vector<double> sorted;
  for (const Score& score : scores) sorted.push_back(score.divergence);
  std::sort(sorted.begin(), sorted.end());
  result.mean = estimate(scores, [](const Score& score) { return score.divergence; });
  result.median = quantile(sorted, 0.5);
  result.p99 = quantile(sorted, 0.99);
  result.largest = sorted.back();
  result.base =
      exponential(estimate(scores, [](const Score& score) { return score.base_surprise; }));
  result.log_ratio =
      estimate(scores, [](const Score& score) { return score.surprise - score.base_surprise; });
  result.same_top =
      estimate(scores, [](const Score& score) { return score.same_top ? 1.0 : 0.0; }).mean;
  result.p_delta = estimate(scores, p_delta);
  const Estimate squares =
      estimate(scores, [](const Score& score) { return p_delta(score) * p_delta(score); });
  result.rms_p_delta = std::sqrt(squares.mean);
  return result;
}

}  // namespace hearth::cli
