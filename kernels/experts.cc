#include "kernels/experts.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "base/limits.h"
#include "kernels/elementary.h"

namespace hearth::kernels {
namespace {

constexpr double kSumShift = 0x1.8p52;  // adding it rounds to an integer, to nearest even
constexpr double kSteps = 0x1p26;       // of an output of 1

static_assert((kExpertsUsedMax + 1) * 0x1p21 * kSteps <= 0x1p53,
              "a double holds the sum of the chosen experts and the shared one");
static_assert(kExpertsMax == limits::kModelExperts && kExpertsUsedMax == limits::kModelExpertsUsed,
              "a model that is read has experts that can be chosen");

float exponential(float logit, float largest) { return exp2_of((logit - largest) * kLog2E); }

// In 2^-24 units.
std::int64_t units_of(float p) { return round_even(p * 0x1p24F); }

}  // namespace

bool choose_experts(std::span<const float> logits, bool to_one, std::span<std::uint16_t> used,
                    std::span<float> weights) {
  INVARIANT(logits.size() <= kExpertsMax && used.size() <= kExpertsUsedMax,
            "experts are within their limits");
  INVARIANT(!used.empty() && used.size() <= logits.size() && used.size() == weights.size(),
            "a row uses some of the experts");
  std::array<std::uint16_t, kExpertsMax> order;
  const auto begin = order.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(logits.size());
  const auto middle = begin + static_cast<std::ptrdiff_t>(used.size());
  for (std::size_t e = 0; e < logits.size(); ++e) order[e] = static_cast<std::uint16_t>(e);
  if (!std::all_of(logits.begin(), logits.end(), is_finite)) {
    std::copy(begin, middle, used.begin());
    std::fill(weights.begin(), weights.end(), 0.0F);
    return false;
  }
  std::partial_sort(begin, middle, end, [&](std::uint16_t a, std::uint16_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  const float largest = logits[order[0]];
  std::sort(begin, middle);
  std::copy(begin, middle, used.begin());
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < used.size(); ++i) {
    weights[i] = exponential(logits[used[i]], largest);
    if (to_one) sum += units_of(weights[i]);
  }
  if (!to_one) {
    for (const float logit : logits) sum += units_of(exponential(logit, largest));
  }
  const float denominator = static_cast<float>(sum) * 0x1p-24F;
  for (float& weight : weights) weight = weight / denominator;
  return true;
}

float shared_expert_weight(float logit) { return 1.0F / (1.0F + exp2_of(logit * -kLog2E)); }

bool add_experts(std::span<const ExpertOutput> outputs, std::uint32_t n, double* sums) {
  INVARIANT(outputs.size() <= kExpertsUsedMax + 1, "a sum of so many experts is exact");
  std::uint32_t beyond = 0;
  for (const ExpertOutput& output : outputs) {
    const float weight = output.weight;
    const float* values = output.values;
    for (std::uint32_t i = 0; i < n; ++i) {
      const auto t = static_cast<double>(weight * values[i]);  // rounded to fp32
      sums[i] += (t * kSteps + kSumShift) - kSumShift;
    }
    for (std::uint32_t i = 0; i < n; ++i) {  // apart, so that both loops become vector code
      beyond |= std::fabs(weight * values[i]) <= kExpertMax ? 0U : 1U;  // NaN is beyond
    }
  }
  return beyond == 0;
}

// The sum is exact as a double, so there is one rounding, to fp32.
void expert_outputs(const double* sums, std::uint32_t n, float* out) {
  for (std::uint32_t i = 0; i < n; ++i) out[i] = static_cast<float>(sums[i]) * 0x1p-26F;
}

ExpertGroups::ExpertGroups(std::uint32_t experts, std::uint32_t used, std::uint32_t rows)
    : used_(used),
      chosen_(std::size_t{rows} * used),
      weights_(std::size_t{rows} * used),
      pairs_(std::size_t{rows} * used),
      rows_(std::size_t{rows} * used),
      experts_(std::size_t{rows} * used),
      next_(experts) {
  INVARIANT(used != 0 && used <= experts, "a row uses some of the experts");
  groups_.reserve(experts);
}

void ExpertGroups::group(std::uint32_t rows) {
  const std::size_t pairs = std::size_t{rows} * used_;
  INVARIANT(pairs <= pairs_.size(), "a step has its bounds");
  std::fill(next_.begin(), next_.end(), 0);
  for (std::size_t i = 0; i < pairs; ++i) ++next_[chosen_[i]];
  groups_.clear();
  std::uint32_t first = 0;
  for (std::uint32_t expert = 0; expert < next_.size(); ++expert) {
    const std::uint32_t count = next_[expert];
    if (count != 0) groups_.push_back({expert, first, count});
    next_[expert] = first;
    first += count;
  }
  for (std::size_t i = 0; i < pairs; ++i) {
    const std::uint32_t pair = next_[chosen_[i]]++;
    rows_[pair] = static_cast<std::uint32_t>(i / used_);
    experts_[pair] = chosen_[i];
    pairs_[i] = pair;
  }
}

}  // namespace hearth::kernels
