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

// In 2^-40 units, for p in [0, 1]: a sigmoid may be small where all are.
std::int64_t fine_units_of(float p) {
  return static_cast<std::int64_t>((static_cast<double>(p * 0x1p40F) + kSumShift) - kSumShift);
}
constexpr std::int64_t kLeastFineUnits = std::int64_t{1} << 26;  // of the sum of a row's sigmoids

using PerExpert = std::array<float, kExpertsMax>;

// The two largest of the group's scores, added.
float group_score(const PerExpert& scores, std::size_t begin, std::size_t end) {
  float first = std::max(scores[begin], scores[begin + 1]);
  float second = std::min(scores[begin], scores[begin + 1]);
  for (std::size_t e = begin + 2; e < end; ++e) {
    second = std::max(second, std::min(first, scores[e]));
    first = std::max(first, scores[e]);
  }
  return first + second;
}

using Order = std::array<std::uint16_t, kExpertsMax>;

// The first `count` of `among` entries of `order` by their scores, of equals the lowest.
void order_by(const PerExpert& scores, Order& order, std::size_t count, std::size_t among) {
  const auto at = [&](std::size_t i) { return order.begin() + static_cast<std::ptrdiff_t>(i); };
  std::partial_sort(at(0), at(count), at(among), [&](std::uint16_t a, std::uint16_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
}

// Fills `order` with the experts that may be chosen, and says how many they are.
std::size_t candidates(const PerExpert& scores, std::size_t experts, const ExpertRouting& routing,
                       Order& order) {
  for (std::size_t e = 0; e < experts; ++e) order[e] = static_cast<std::uint16_t>(e);
  if (routing.groups <= 1) return experts;
  const std::size_t size = experts / routing.groups;
  PerExpert groups;
  Order chosen;
  for (std::size_t g = 0; g < routing.groups; ++g) {
    groups[g] = group_score(scores, g * size, (g + 1) * size);
    chosen[g] = static_cast<std::uint16_t>(g);
  }
  order_by(groups, chosen, routing.groups_used, routing.groups);
  std::size_t count = 0;
  for (std::size_t g = 0; g < routing.groups_used; ++g) {
    for (std::size_t e = chosen[g] * size; e < (chosen[g] + 1) * size; ++e) {
      order[count++] = static_cast<std::uint16_t>(e);
    }
  }
  return count;
}

// The divisor of the weights, from the values p of all experts.
float denominator_of(const PerExpert& p, std::size_t experts, const ExpertRouting& routing,
                     std::span<const std::uint16_t> used) {
  std::int64_t sum = 0;
  if (routing.sigmoid) {
    if (!routing.to_one) return 1.0F;
    for (const std::uint16_t e : used) sum += fine_units_of(p[e]);
    return static_cast<float>(std::max(sum, kLeastFineUnits)) * 0x1p-40F;
  }
  if (routing.to_one) {
    for (const std::uint16_t e : used) sum += units_of(p[e]);
  } else {
    for (std::size_t e = 0; e < experts; ++e) sum += units_of(p[e]);
  }
  return static_cast<float>(sum) * 0x1p-24F;
}

}  // namespace

bool choose_experts(std::span<const float> logits, std::span<const float> bias,
                    const ExpertRouting& routing, std::span<std::uint16_t> used,
                    std::span<float> weights) {
  const std::size_t n = logits.size();
  INVARIANT(n <= kExpertsMax && used.size() <= kExpertsUsedMax, "experts are within their limits");
  INVARIANT(!used.empty() && used.size() <= n && used.size() == weights.size(),
            "a row uses some of the experts");
  INVARIANT(bias.empty() || (bias.size() == n && routing.sigmoid), "each sigmoid has its bias");
  INVARIANT(routing.groups <= 1 || (n % routing.groups == 0 && n / routing.groups >= 2 &&
                                    routing.groups_used <= routing.groups &&
                                    routing.groups_used * (n / routing.groups) >= used.size()),
            "the groups that a row uses hold its experts");
  if (!std::all_of(logits.begin(), logits.end(), is_finite)) {
    for (std::size_t i = 0; i < used.size(); ++i) used[i] = static_cast<std::uint16_t>(i);
    std::fill(weights.begin(), weights.end(), 0.0F);
    return false;
  }
  const float largest = *std::max_element(logits.begin(), logits.end());
  const auto value = [&](std::size_t e) {
    return routing.sigmoid ? sigmoid_of(logits[e]) : exponential(logits[e], largest);
  };
  const bool needs_all = routing.sigmoid || routing.groups > 1 || !routing.to_one;
  PerExpert p;
  PerExpert scores;
  for (std::size_t e = 0; e < n; ++e) {
    if (needs_all) p[e] = value(e);
    scores[e] = routing.sigmoid ? p[e] : logits[e];
    if (!bias.empty()) scores[e] += bias[e];
  }
  Order order;
  const std::size_t count = candidates(routing.sigmoid ? scores : p, n, routing, order);
  order_by(scores, order, used.size(), count);
  std::copy_n(order.begin(), used.size(), used.begin());
  std::sort(used.begin(), used.end());
  for (std::size_t i = 0; !needs_all && i < used.size(); ++i) p[used[i]] = value(used[i]);
  const float denominator = denominator_of(p, n, routing, used);
  for (std::size_t i = 0; i < used.size(); ++i) {
    weights[i] = p[used[i]] / denominator;
    if (routing.scale != 1.0F) weights[i] *= routing.scale;
  }
  return true;
}

float shared_expert_weight(float logit) { return sigmoid_of(logit); }

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
