#include "coordinator/proof/key_shares.h"

#include <gtest/gtest.h>

namespace hearth::coordinator {
namespace {

TEST(KeySharesTest, HoweverManyOneTakesAnotherFindsSome) {
  constexpr std::size_t kPlaces = 16;
  KeyShares shares;
  const auto fill = [&](const std::string& owner) {
    std::size_t taken = 0;
    for (; shares.has_room(owner, kPlaces); ++taken) shares.take(owner);
    return taken;
  };
  EXPECT_EQ(fill("first"), 8u);
  EXPECT_EQ(fill("second"), 4u);
  EXPECT_EQ(fill("third"), 2u);
  EXPECT_EQ(fill("first"), 0u);
  EXPECT_EQ(shares.heaviest(), "first");
  EXPECT_EQ(shares.total(), 14u);
  shares.give_back("first", 7);
  EXPECT_EQ(shares.heaviest(), "second");
  EXPECT_TRUE(shares.has_room("first", kPlaces, 4));
  EXPECT_FALSE(shares.has_room("first", kPlaces, 9));
}

TEST(KeySharesTest, NothingIsTakenAndGivenBackTwice) {
  KeyShares shares;
  for (int i = 0; i < 2; ++i) shares.take("any", 0);
  for (int i = 0; i < 2; ++i) shares.give_back("any", 0);
  EXPECT_EQ(shares.heaviest(), "");
  EXPECT_EQ(shares.total(), 0u);
}

}  // namespace
}  // namespace hearth::coordinator
