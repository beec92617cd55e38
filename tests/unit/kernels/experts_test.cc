#include "kernels/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/kernels.h"
#include "tests/unit/kernels/fixtures.h"

namespace hearth::kernels {
namespace {

using namespace fixtures;  // NOLINT

struct Choice {
  bool ok = false;
  std::vector<std::uint16_t> experts;
  std::vector<float> weights;
};

Choice choose(const std::vector<float>& logits, std::size_t used, const ExpertRouting& routing,
              const std::vector<float>& bias = {}) {
  Choice choice;
  choice.experts.resize(used);
  choice.weights.resize(used);
  choice.ok = choose_experts(logits, bias, routing, choice.experts, choice.weights);
  return choice;
}
Choice choose(const std::vector<float>& logits, std::size_t used, bool to_one) {
  ExpertRouting routing;
  routing.to_one = to_one;
  return choose(logits, used, routing);
}

ExpertRouting sigmoids(std::uint32_t groups = 1, std::uint32_t groups_used = 1) {
  ExpertRouting routing;
  routing.sigmoid = true;
  routing.groups = groups;
  routing.groups_used = groups_used;
  return routing;
}

using Experts = std::vector<std::uint16_t>;

TEST(ChooseExperts, TheLargestAreChosenAndOfEqualsTheLowest) {
  EXPECT_EQ(choose({1, 5, 3, 4}, 2, true).experts, (Experts{1, 3}));
  EXPECT_EQ(choose({2, 2, 2, 2}, 3, true).experts, (Experts{0, 1, 2}));
  EXPECT_EQ(choose({1, 2, 3, 2, 2}, 3, true).experts, (Experts{1, 2, 3}));
  EXPECT_EQ(choose({-0.0F, 0.0F, -1}, 1, true).experts, (Experts{0})) << "zeros are equal";
  EXPECT_EQ(choose({0.0F, -0.0F, -1}, 1, true).experts, (Experts{0}));
  EXPECT_EQ(choose({-3e38F, 3e38F}, 2, true).experts, (Experts{0, 1}));
}

// The weights as the text has them, from exp2 alone.
TEST(ChooseExperts, WeightsAreSharesOfTheChosenOrOfAll) {
  Generator random(3);
  for (const std::size_t n : {2U, 8U, 60U, 1024U}) {
    const std::vector<float> logits = normals(random, static_cast<std::uint32_t>(n), 2.0F);
    const float largest = *std::max_element(logits.begin(), logits.end());
    std::vector<float> p;
    for (const float logit : logits) {
      p.push_back(exp2_canonical((logit - largest) * 0x1.715476p+0F));
    }
    for (const std::size_t used : {std::size_t{1}, std::min<std::size_t>(n, 32)}) {
      for (const bool to_one : {true, false}) {
        const Choice choice = choose(logits, used, to_one);
        ASSERT_TRUE(choice.ok);
        ASSERT_TRUE(std::is_sorted(choice.experts.begin(), choice.experts.end()));
        std::int64_t sum = 0;
        for (std::size_t e = 0; e < n; ++e) {
          const bool is_chosen = std::count(choice.experts.begin(), choice.experts.end(), e) != 0;
          if (is_chosen || !to_one) sum += std::llrint(p[e] * 0x1p24F);
        }
        double total = 0.0;
        for (std::size_t i = 0; i < used; ++i) {
          const float expected = p[choice.experts[i]] / (static_cast<float>(sum) * 0x1p-24F);
          ASSERT_EQ(choice.weights[i], expected);
          total += expected;
        }
        if (to_one || used == n) {
          EXPECT_NEAR(total, 1.0, 1e-5);
        }
      }
    }
  }
}

TEST(ChooseExperts, AnExpertFarBelowTheOthersWeighsNothing) {
  const Choice choice = choose({3e38F, -3e38F, 0.0F}, 3, true);
  EXPECT_TRUE(choice.ok);
  EXPECT_EQ(choice.weights, (std::vector<float>{1.0F, 0.0F, 0.0F}));
}

TEST(ChooseExperts, ALogitThatIsNotFiniteFails) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    const Choice choice = choose({1, 2, bad, 4}, 2, true);
    EXPECT_FALSE(choice.ok);
    EXPECT_EQ(choice.experts, (Experts{0, 1}));
    EXPECT_EQ(choice.weights, (std::vector<float>{0.0F, 0.0F}));
  }
}

TEST(ChooseExperts, ABiasOfSigmoidsDecidesTheChoiceAlone) {
  const Choice plain = choose({0, 1, 2, 3}, 2, sigmoids());
  EXPECT_EQ(plain.experts, (Experts{2, 3}));
  const Choice biased = choose({0, 1, 2, 3}, 2, sigmoids(), {1, 0, 0, 0});
  EXPECT_EQ(biased.experts, (Experts{0, 3}));
  const float low = shared_expert_weight(0.0F);
  const float high = shared_expert_weight(3.0F);
  EXPECT_FLOAT_EQ(biased.weights[0], low / (low + high)) << "the weight has no bias";
  EXPECT_FLOAT_EQ(biased.weights[1], high / (low + high));
  ExpertRouting as_they_are = sigmoids();
  as_they_are.to_one = false;
  EXPECT_EQ(choose({0, 3}, 2, as_they_are).weights, (std::vector<float>{low, high}));
  as_they_are.scale = 2.5F;
  EXPECT_EQ(choose({0, 3}, 2, as_they_are).weights, (std::vector<float>{low * 2.5F, high * 2.5F}));
  EXPECT_EQ(choose({5, 5, 5}, 2, sigmoids()).experts, (Experts{0, 1}));
  EXPECT_FALSE(choose({5, NAN, 5}, 2, sigmoids()).ok);
}

TEST(ChooseExperts, SmallSigmoidsKeepTheirShares) {
  const Choice small = choose({-9, -9, -9.5F}, 3, sigmoids());
  EXPECT_NEAR(small.weights[0] + small.weights[1] + small.weights[2], 1.0, 1e-6);
  EXPECT_NEAR(small.weights[2] / small.weights[0], std::exp(-0.5), 1e-4);
  // Of less than 2^-14 in all the sum counts as that.
  const Choice tiny = choose({-20, -20}, 2, sigmoids());
  EXPECT_EQ(tiny.weights[0], shared_expert_weight(-20.0F) * 0x1p14F);
  EXPECT_LT(choose({-3e38F, -3e38F}, 1, sigmoids()).weights[0], 1e-30F);
}

// A group's score is the sum of its two best, not its best.
TEST(ChooseExperts, OnlyTheBestGroupsHaveCandidates) {
  const std::vector<float> logits{4, -9, -9, 1, 1, 1, 0, 0, 0};
  EXPECT_EQ(choose(logits, 2, sigmoids()).experts, (Experts{0, 3}));
  EXPECT_EQ(choose(logits, 2, sigmoids(3, 1)).experts, (Experts{3, 4}));
  EXPECT_EQ(choose(logits, 3, sigmoids(3, 2)).experts, (Experts{3, 4, 5}));
  EXPECT_EQ(choose(logits, 4, sigmoids(3, 2)).experts, (Experts{3, 4, 5, 6}));
  EXPECT_EQ(choose({0, 0, 0, 0}, 1, sigmoids(2, 1)).experts, (Experts{0})) << "of equals the first";
  EXPECT_EQ(choose({0, 0, 0, 0}, 2, sigmoids(2, 1), {0, 0, 0, 1}).experts, (Experts{2, 3}));
  ExpertRouting softmax;
  softmax.groups = 3;
  softmax.to_one = false;
  softmax.scale = 16.0F;
  const Choice choice = choose({4, -9, -9, 3.9F, 3.9F, 1, 0, 0, 0}, 1, softmax);
  EXPECT_EQ(choice.experts, (Experts{3}));
  const double sum = std::exp(0.1) + 2 + std::exp(-2.9) + 3 * std::exp(-3.9);
  EXPECT_NEAR(choice.weights[0], 16.0 / sum, 1e-3);
}

TEST(SharedExpert, HasTheWeightOfALogistic) {
  EXPECT_EQ(shared_expert_weight(0.0F), 0.5F);
  EXPECT_EQ(shared_expert_weight(1e30F), 1.0F);
  EXPECT_NEAR(shared_expert_weight(2.0F), 1.0 / (1.0 + std::exp(-2.0)), 1e-6);
  EXPECT_LT(shared_expert_weight(-1e30F), 1e-30F);
}

struct Outputs {
  std::vector<std::vector<float>> values;
  std::vector<ExpertOutput> outputs;
};

Outputs outputs_of(std::uint64_t seed, std::size_t count, std::uint32_t n, float deviation) {
  Generator random(seed);
  Outputs made;
  for (std::size_t i = 0; i < count; ++i) made.values.push_back(normals(random, n, deviation));
  const std::vector<float> weights = normals(random, static_cast<std::uint32_t>(count), 0.5F);
  for (std::size_t i = 0; i < count; ++i) {
    made.outputs.push_back({made.values[i].data(), std::fabs(weights[i])});
  }
  return made;
}

TEST(AddExperts, TheSumIsThatOfIntegers) {
  constexpr std::uint32_t kWidth = 70;
  for (const float deviation : {1e-9F, 1.0F, 1e5F}) {
    const Outputs made = outputs_of(7, 33, kWidth, deviation);
    std::vector<double> sums(kWidth);
    ASSERT_TRUE(add_experts(made.outputs, kWidth, sums.data()));
    std::vector<float> out(kWidth);
    expert_outputs(sums.data(), kWidth, out.data());
    for (std::uint32_t i = 0; i < kWidth; ++i) {
      std::int64_t sum = 0;
      for (const ExpertOutput& output : made.outputs) {
        const float t = output.weight * output.values[i];
        sum += std::llrint(static_cast<double>(t) * 0x1p26);
      }
      ASSERT_EQ(out[i], static_cast<float>(sum) * 0x1p-26F);
    }
  }
}

// Experts of a layer on several devices: any share of each, none included, added in any order.
TEST(AddExperts, SharesOfTheExpertsAddUpToTheWhole) {
  constexpr std::uint32_t kWidth = 64;
  const Outputs made = outputs_of(8, 9, kWidth, 300.0F);
  const std::span<const ExpertOutput> all(made.outputs);
  std::vector<double> whole(kWidth);
  ASSERT_TRUE(add_experts(all, kWidth, whole.data()));
  Generator random(9);
  for (int round = 0; round < 50; ++round) {
    std::vector<ExpertOutput> order = made.outputs;
    std::shuffle(order.begin(), order.end(), random);
    const std::size_t first = random() % 10;
    const std::size_t second = first + random() % (10 - first);
    const std::span<const ExpertOutput> shuffled(order);
    std::vector<double> total(kWidth);
    for (const auto share : {shuffled.subspan(second), shuffled.first(first),
                             shuffled.subspan(first, second - first)}) {
      std::vector<double> sums(kWidth);
      ASSERT_TRUE(add_experts(share, kWidth, sums.data()));
      for (std::uint32_t i = 0; i < kWidth; ++i) total[i] += sums[i];
    }
    ASSERT_EQ(total, whole);
  }
}

TEST(AddExperts, ValuesBeyondTheLimitFail) {
  std::vector<float> values(32, 1.0F);
  std::vector<double> sums(32);
  for (const float bad : {NAN, INFINITY, -INFINITY, 0x1.000002p21F, -0x1.000002p21F}) {
    values[31] = bad;
    const ExpertOutput output{values.data(), 1.0F};
    EXPECT_FALSE(add_experts({&output, 1}, 32, sums.data())) << bad;
  }
  values[31] = -kExpertMax;
  std::fill(sums.begin(), sums.end(), 0.0);
  const ExpertOutput output{values.data(), 1.0F};
  const std::vector<ExpertOutput> most(33, output);
  EXPECT_TRUE(add_experts(most, 32, sums.data()));
  EXPECT_EQ(sums[31], -33 * 0x1p47) << "the largest sum is exact";
}

TEST(ExpertGroups, OrdersPairsByExpertThenRow) {
  ExpertGroups groups(6, 2, 4);
  const std::vector<std::vector<std::uint16_t>> used{{1, 5}, {0, 1}, {1, 4}};
  for (std::uint32_t row = 0; row < 3; ++row) {
    std::copy(used[row].begin(), used[row].end(), groups.used(row).begin());
  }
  groups.group(3);
  std::vector<std::vector<std::uint32_t>> found;
  for (const auto& [expert, first, count] : groups.groups()) {
    std::vector<std::uint32_t> line{expert};
    for (std::uint32_t pair = first; pair < first + count; ++pair) {
      line.push_back(groups.row_of(pair));
    }
    found.push_back(line);
  }
  EXPECT_EQ(found, (std::vector<std::vector<std::uint32_t>>{{0, 1}, {1, 0, 1, 2}, {4, 2}, {5, 0}}));
  for (const auto& [expert, first, count] : groups.groups()) {
    for (std::uint32_t pair = first; pair < first + count; ++pair) {
      EXPECT_EQ(groups.expert_of(pair), expert);
    }
  }
  EXPECT_EQ(groups.pair_of(0, 0), 1U);
  EXPECT_EQ(groups.pair_of(0, 1), 5U);
  EXPECT_EQ(groups.pair_of(2, 0), 3U);
  groups.group(1);
  EXPECT_EQ(groups.groups().size(), 2U) << "experts that no row uses are not read";
}

}  // namespace
}  // namespace hearth::kernels
