#include "node/backoff.h"

#include <gtest/gtest.h>

namespace hearth::node {
namespace {

using std::chrono::milliseconds;

TEST(Backoff, DoublesFromATenthToTwoSecondsWithJitter) {
  SeededRandom random(3);
  Backoff backoff(random);
  Duration whole = milliseconds(100);
  for (int i = 0; i < 12; ++i) {
    const Duration pause = backoff.next();
    EXPECT_GE(pause, whole / 2);
    EXPECT_LE(pause, whole);
    whole = std::min<Duration>(whole * 2, milliseconds(2'000));
  }
  backoff.reset();
  EXPECT_LE(backoff.next(), milliseconds(100));
}

}  // namespace
}  // namespace hearth::node
