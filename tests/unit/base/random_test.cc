#include "base/random.h"

#include <gtest/gtest.h>

#include <bit>

namespace hearth {
namespace {

TEST(SeededRandom, KnownAnswers) {
  // The first numbers of SplitMix64 from seed 1234567, as its authors' C program prints them.
  SeededRandom random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317ULL);
  EXPECT_EQ(random.next(), 3203168211198807973ULL);
  EXPECT_EQ(random.next(), 9817491932198370423ULL);
}

TEST(SeededRandom, BitsAreBalanced) {
  SeededRandom random(9);
  int ones = 0;
  for (int i = 0; i < 10'000; ++i) ones += std::popcount(random.next());
  EXPECT_NEAR(ones, 320'000, 2'000);
}

TEST(SystemRandom, DoesNotRepeat) {
  SystemRandom random;
  EXPECT_NE(random.next(), random.next());
}

}  // namespace
}  // namespace hearth
