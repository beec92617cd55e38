#include "node/runner/prompt_pace.h"

#include <gtest/gtest.h>

namespace hearth::node {
namespace {

using std::chrono::milliseconds;

// What two tokens are apart where every prompt row costs so much beside the answers' own rows.
struct Machine {
  Duration answers;
  Duration row;
  Duration between(std::uint32_t rows) const { return answers + rows * row; }
};

void settle(PromptPace& pace, const Machine& machine) {
  for (int i = 0; i < 200; ++i) pace.take_busy(machine.between(pace.round()), true);
}

TEST(PromptPace, FallsToWhatTheTargetAllowsAndStaysThere) {
  const Machine machine{milliseconds(20), milliseconds(1)};
  PromptPace pace(milliseconds(100), 128, 1);
  EXPECT_EQ(pace.round(), 128U);
  settle(pace, machine);
  const std::uint32_t rows = pace.round();
  EXPECT_LE(machine.between(rows), milliseconds(100));
  EXPECT_GE(machine.between(rows), milliseconds(85));
  settle(pace, machine);
  EXPECT_EQ(pace.round(), rows);
}

TEST(PromptPace, KeepsAllRowsWhereTheyAreCheap) {
  PromptPace pace(milliseconds(100), 128, 1);
  settle(pace, {milliseconds(20), std::chrono::microseconds(100)});
  EXPECT_EQ(pace.round(), 128U);
}

TEST(PromptPace, NeverStopsAPrompt) {
  PromptPace pace(milliseconds(10), 128, 1);
  settle(pace, {milliseconds(500), milliseconds(10)});
  EXPECT_EQ(pace.round(), PromptPace::kLeastRows);
  PromptPace narrow(milliseconds(10), 4, 1);
  settle(narrow, {milliseconds(500), milliseconds(10)});
  EXPECT_EQ(narrow.round(), 4U);
}

TEST(PromptPace, FewerStepsCarryPromptsBeforeTheirChunksAreCut) {
  PromptPace pace(milliseconds(100), 128, 4);
  EXPECT_EQ(pace.steps(), 4U);
  EXPECT_EQ(pace.rows(), 128U);
  for (std::uint32_t round = pace.round() + 1; pace.round() < round;) {
    round = pace.round();
    pace.take_busy(milliseconds(110), true);
    EXPECT_LE(pace.steps() * pace.rows(), pace.round());
    EXPECT_GE(pace.rows(), PromptPace::kLeastRows);
  }
  EXPECT_EQ(pace.steps(), 1U);
  EXPECT_EQ(pace.rows(), PromptPace::kLeastRows);
}

TEST(PromptPace, RisesAgainWhenTheMachineIsFree) {
  PromptPace pace(milliseconds(100), 128, 1);
  settle(pace, {milliseconds(20), milliseconds(3)});
  EXPECT_EQ(pace.round(), PromptPace::kLeastRows);
  settle(pace, {milliseconds(20), std::chrono::microseconds(500)});
  EXPECT_EQ(pace.round(), 128U);
}

TEST(PromptPace, ShortStepsAreNoReasonToRise) {
  PromptPace pace(milliseconds(100), 128, 1);
  settle(pace, {milliseconds(20), milliseconds(3)});
  for (int i = 0; i < 50; ++i) pace.take_busy(milliseconds(5), false);
  EXPECT_EQ(pace.round(), PromptPace::kLeastRows);
}

TEST(PromptPace, ByDefaultAModelThatIsSlowAloneHasALongerTarget) {
  PromptPace pace(std::nullopt, 128, 1);
  EXPECT_EQ(pace.target(), milliseconds(100));
  for (int i = 0; i < 100; ++i) pace.take_idle(milliseconds(400));
  EXPECT_EQ(pace.target(), milliseconds(1200));
  for (int i = 0; i < 100; ++i) pace.take_idle(milliseconds(10));
  EXPECT_EQ(pace.target(), milliseconds(100));
}

TEST(PromptPace, TimesThatWereNotMeasuredChangeNothing) {
  PromptPace pace(milliseconds(100), 128, 1);
  pace.take_busy(Duration::zero(), true);
  pace.take_idle(Duration::zero());
  EXPECT_EQ(pace.round(), 128U);
  EXPECT_EQ(pace.target(), milliseconds(100));
}

}  // namespace
}  // namespace hearth::node
