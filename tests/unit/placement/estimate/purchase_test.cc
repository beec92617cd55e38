#include "placement/estimate/purchase.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "tests/unit/placement/estimate/setups.h"

namespace hearth::placement {
namespace {

Market market() {
  Market market;
  market.cards = {small_setup(1).card, small_setup(1).card};
  market.cards[1].key = "fast";
  market.cards[1].usd = 5000.0;
  market.cards[1].memory_bytes_per_second = 4e11;
  market.networks = {small_setup(1).network, {"fast-lan", 1.25e9, 2e-5, 100.0, true}};
  market.hosts = {{"desktop", 1, 100.0, 300.0}};
  return market;
}

TEST(Purchase, FindsTheFewestCardsThatReachTheGoal) {
  const EstimateInput setup = small_setup(1);
  const Offer one = serve_most(setup, market().hosts[0], 50.0);
  ASSERT_GT(one.users_most, 0U);
  EXPECT_GE(one.best.per_user, 50.0);
  EXPECT_EQ(one.best.users, one.users_most);
  const PurchasePlan plan = plan_purchase(setup, market(), {50.0, 3 * one.users_most, 1e6});
  ASSERT_TRUE(plan.cheapest);
  EXPECT_FALSE(plan.most);
  EXPECT_GE(plan.cheapest->users_most, 3 * one.users_most);
  // No cheaper set does: the same of fewer cards.
  EstimateInput fewer = plan.cheapest->setup;
  ASSERT_GT(fewer.cards, 1U);
  --fewer.cards;
  EXPECT_LT(serve_most(fewer, plan.cheapest->host, 50.0).users_most, 3 * one.users_most);
}

TEST(Purchase, TheBatchIsTheLargestThatKeepsTheSpeed) {
  EstimateInput setup = small_setup(1);
  const Offer offer = serve_most(setup, market().hosts[0], 50.0);
  EstimateInput larger = offer.setup;
  ++larger.batch;
  const Estimate more = estimate(larger, offer.best.layout);
  EXPECT_TRUE(more.per_user < 50.0 || more.users == offer.best.users ||
              larger.batch > limits::kBatchRows);
}

TEST(Purchase, UsersWhoFillNoStepBatchAreServedToo) {
  EstimateInput setup = small_setup(8);
  setup.shape.context = 1 << 17;
  setup.context = 1 << 17;
  const Estimate pipeline = estimate(setup, {8, 1, 1});
  ASSERT_GT(pipeline.users, 0U);
  ASSERT_LT(pipeline.users, pipeline.users_wanted) << "fewer than one a step";
  const Offer offer = serve_most(setup, market().hosts[0], 1.0);
  EXPECT_GE(offer.users_most, pipeline.users);
}

TEST(Purchase, WithoutBudgetForTheGoalItSaysTheMost) {
  const EstimateInput setup = small_setup(1);
  const PurchasePlan plan = plan_purchase(setup, market(), {50.0, 1'000'000, 2500.0});
  EXPECT_FALSE(plan.cheapest);
  ASSERT_TRUE(plan.most);
  EXPECT_LE(plan.most->purchase.usd, 2500.0);
  ASSERT_TRUE(plan.bound);
  EXPECT_GT(plan.users_with_twice, plan.most->users_most);
  ASSERT_TRUE(plan.next);
  EXPECT_GT(plan.next->usd, 0.0);
  EXPECT_GT(plan.next->after.users_most, plan.most->users_most);
}

TEST(Purchase, ACardForServersTakesNoDesktop) {
  Market only = market();
  for (Card& card : only.cards) card.needs_server = true;
  EXPECT_FALSE(plan_purchase(small_setup(1), only, {1.0, 1, 1e6}).cheapest);
  only.hosts[0].server = true;
  EXPECT_TRUE(plan_purchase(small_setup(1), only, {1.0, 1, 1e6}).cheapest);
}

TEST(Purchase, NothingForASpeedThatNoCardHas) {
  const PurchasePlan plan = plan_purchase(small_setup(1), market(), {1e6, 1, 1e6});
  EXPECT_FALSE(plan.cheapest);
  EXPECT_FALSE(plan.most);
  EXPECT_FALSE(plan.bound) << "of what is not there";
}

TEST(Purchase, WithWeightsOf32BitsItSellsNoCardOfUnknownRate) {
  EstimateInput setup = small_setup(1);
  setup.weight_bits = 32.0;
  Market only = market();
  EXPECT_FALSE(plan_purchase(setup, only, {1.0, 1, 1e6}).cheapest);
  only.cards[1].fp32_flops = 1e13;
  const PurchasePlan plan = plan_purchase(setup, only, {1.0, 1, 1e6});
  ASSERT_TRUE(plan.cheapest);
  EXPECT_EQ(plan.cheapest->setup.card.key, "fast");
}

TEST(Purchase, SellsOnlyCardsThatRunAndHaveAPrice) {
  Market only = market();
  only.cards.resize(1);
  only.cards[0].runs = false;
  EXPECT_FALSE(plan_purchase(small_setup(1), only, {1.0, 1, 1e6}).cheapest);
  only.cards[0].runs = true;
  only.cards[0].usd = 0.0;
  EXPECT_FALSE(plan_purchase(small_setup(1), only, {1.0, 1, 1e6}).cheapest);
  only.cards[0].usd = 500.0;
  EXPECT_TRUE(plan_purchase(small_setup(1), only, {1.0, 1, 1e6}).cheapest);
}

}  // namespace
}  // namespace hearth::placement
