#include "coordinator/scheduling/pipeline_pace.h"

#include <gtest/gtest.h>

namespace hearth::coordinator {
namespace {

using std::chrono::milliseconds;

TEST(PipelinePaceTest, NothingIsExpectedBeforeTheFirstToken) {
  PipelinePace pace;
  EXPECT_FALSE(pace.with_one_more(0).has_value());
}

TEST(PipelinePaceTest, OneMoreTakesItsShare) {
  PipelinePace pace;
  const TimePoint now = TimePoint() + milliseconds(5);
  pace.token(milliseconds(30), 3, now);
  EXPECT_EQ(pace.last(), now);
  EXPECT_NEAR(*pace.with_one_more(3), 40e-3, 1e-9);
  EXPECT_NEAR(*pace.with_one_more(0), 10e-3, 1e-9);
}

TEST(PipelinePaceTest, FollowsWhatIsMeasuredAndForgetsWhatWas) {
  PipelinePace pace;
  pace.token(milliseconds(100), 1, TimePoint());
  pace.token(milliseconds(20), 1, TimePoint());
  EXPECT_NEAR(*pace.with_one_more(0), 95e-3, 1e-9) << "a token is a sixteenth";
  for (int i = 0; i < 200; ++i) pace.token(milliseconds(20), 1, TimePoint());
  EXPECT_NEAR(*pace.with_one_more(0), 20e-3, 1e-5);
}

// Several tokens of one step come at once.
TEST(PipelinePaceTest, StepsOfSeveralTokensCountByTheToken) {
  PipelinePace pace;
  for (int i = 0; i < 400; ++i) pace.token(milliseconds(i % 4 == 0 ? 40 : 0), 1, TimePoint());
  EXPECT_NEAR(*pace.with_one_more(0), 10e-3, 3e-3);
  pace.token(milliseconds(-5), 0, TimePoint());
  EXPECT_GE(*pace.with_one_more(0), 0.0);
}

}  // namespace
}  // namespace hearth::coordinator
