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

TEST(Cost, SpreadsThePriceOverHours) {
  EXPECT_DOUBLE_EQ(hardware_usd(26'280.0, 3.0), 1.0);
  EXPECT_DOUBLE_EQ(electricity_usd(5000.0, 0.1), 0.5);
  EXPECT_DOUBLE_EQ(tokens_per_usd(10.0, 2.0), 18'000.0);
}

TEST(Cost, BuysMachinesAndPortsOnlyWhereThereAreSeveral) {
  const Host desktop = {"desktop", 2, 100.0, 500.0};
  const Purchase one = purchase_of(card(), 2, desktop, network());
  EXPECT_EQ(one.machines, 1U);
  EXPECT_EQ(one.usd, 2 * 1000.0 + 500.0);
  EXPECT_EQ(one.watts, 2 * 300.0 + 100.0);
  const Purchase two = purchase_of(card(), 3, desktop, network());
  EXPECT_EQ(two.machines, 2U);
  EXPECT_EQ(two.usd, 3 * 1000.0 + 2 * 500.0 + 2 * 50.0);
}

TEST(Cost, AMachineWithItsGpuNeedsNoHost) {
  Card whole = card();
  whole.whole_machine = true;
  const Purchase purchase = purchase_of(whole, 3, {"server", 8, 100.0, 500.0}, network());
  EXPECT_EQ(purchase.machines, 3U);
  EXPECT_EQ(purchase.usd, 3 * 1000.0 + 3 * 50.0);
  EXPECT_EQ(purchase.watts, 900.0);
}

TEST(Cost, AnUnknownPriceStaysUnknown) {
  Card free = card();
  free.usd = 0.0;
  EXPECT_EQ(purchase_of(free, 1, {"desktop", 1, 100.0, 500.0}, network()).usd, 0.0);
  Network unpriced = network();
  unpriced.priced = false;
  EXPECT_EQ(purchase_of(card(), 2, {"desktop", 1, 100.0, 500.0}, unpriced).usd, 0.0);
  EXPECT_GT(purchase_of(card(), 1, {"desktop", 1, 100.0, 500.0}, unpriced).usd, 0.0);
}

}  // namespace
}  // namespace hearth::placement
