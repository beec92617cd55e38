#include "placement/estimate/cost.h"

#include <gtest/gtest.h>

namespace hearth::placement {
namespace {

Card card() {
  Card card;
  card.usd = 1000.0;
  card.watts = 300.0;
  return card;
}

Network network() { return {"10g", 1.25e9, 1e-4, 50.0, true}; }

Purchase bought(const Card& card, std::uint32_t count, const Host& host, const Network& lan) {
  const CardSet set = {card, count};
  return purchase_of({&set, 1}, host, lan);
}

// The articles' figures for eight RTX 4090 over three years.
TEST(Cost, IsThatOfTheArticles) {
  EXPECT_NEAR(hardware_usd(40'000.0, kYearsOfUse), 1.52, 0.005);
  EXPECT_NEAR(hardware_usd(20'000.0, kYearsOfUse), 0.76, 0.005);
  EXPECT_NEAR(electricity_usd(5000.0, 0.1), 0.5, 1e-12);
  EXPECT_NEAR(tokens_per_usd(12'200.0, 1.52 + 0.5) / 1e6, 22.0, 0.5);
  EXPECT_NEAR(tokens_per_usd(12'200.0, 1.26) / 1e6, 35.0, 0.5);
}

TEST(Cost, BuysMachinesAndPortsOnlyWhereThereAreSeveral) {
  const Host desktop = {"desktop", 2, 100.0, 500.0};
  const Purchase one = bought(card(), 2, desktop, network());
  EXPECT_EQ(one.machines, 1U);
  EXPECT_EQ(one.usd, 2500.0);
  EXPECT_EQ(one.watts, 700.0);
  const Purchase two = bought(card(), 3, desktop, network());
  EXPECT_EQ(two.machines, 2U);
  EXPECT_EQ(two.usd, 4100.0);
}

TEST(Cost, AMachineWithItsGpuNeedsNoHost) {
  Card whole = card();
  whole.whole_machine = true;
  const Host server = {"server", 8, 100.0, 500.0};
  const Purchase purchase = bought(whole, 3, server, network());
  EXPECT_EQ(purchase.machines, 3U);
  EXPECT_EQ(purchase.usd, 3150.0);
  EXPECT_EQ(purchase.watts, 900.0);
  const CardSet sets[] = {{whole, 1}, {card(), 2}};  // the two share a host
  const Purchase both = purchase_of(sets, server, network());
  EXPECT_EQ(both.machines, 2U);
  EXPECT_EQ(both.usd, 3600.0);
  EXPECT_EQ(both.watts, 1000.0);
}

TEST(Cost, AnUnknownPriceStaysUnknown) {
  Card free = card();
  free.usd = 0.0;
  const Host desktop = {"desktop", 1, 100.0, 500.0};
  EXPECT_EQ(bought(free, 1, desktop, network()).usd, 0.0);
  const CardSet sets[] = {{card(), 1}, {free, 1}};
  EXPECT_EQ(purchase_of(sets, desktop, network()).usd, 0.0);
  Network unpriced = network();
  unpriced.priced = false;
  EXPECT_EQ(bought(card(), 2, desktop, unpriced).usd, 0.0);
  EXPECT_GT(bought(card(), 1, desktop, unpriced).usd, 0.0);
}

TEST(Cost, AnUnknownPowerIsInNoCost) {
  Card unknown = card();
  unknown.watts = 0.0;
  const Host desktop = {"desktop", 1, 100.0, 25'280.0};
  const Purchase purchase = bought(unknown, 1, desktop, network());
  EXPECT_EQ(purchase.watts, 0.0);
  EXPECT_DOUBLE_EQ(usd_per_hour(purchase, 0.5), 1.0);  // 26,280 USD over 26,280 hours
  EXPECT_DOUBLE_EQ(usd_per_hour(bought(card(), 1, desktop, network()), 0.5), 1.2);
  EXPECT_EQ(bought(card(), 1, {"desktop", 1, 0.0, 500.0}, network()).watts, 0.0);
}

}  // namespace
}  // namespace hearth::placement
