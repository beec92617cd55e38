#include "ledger/dispute/verdict.h"

#include <gtest/gtest.h>

namespace hearth::ledger {
namespace {

Verdict of(Plea plea, bool weights_whole, bool self_test_passed, bool same_again) {
  return verdict_of({plea, weights_whole, self_test_passed, same_again});
}

TEST(Verdict, WhatDoesNotComeAgainAndIsNotContestedIsAFault) {
  EXPECT_EQ(of(Plea::kConceded, true, true, false), Verdict::kFault) << "a soft error";
  EXPECT_EQ(of(Plea::kNone, true, true, false), Verdict::kFault) << "an answer that did not come";
}

TEST(Verdict, WhatAHashOrATestFindsIsAFaultHoweverOftenItComes) {
  EXPECT_EQ(of(Plea::kConceded, false, true, true), Verdict::kFault) << "a bit that is stuck";
  EXPECT_EQ(of(Plea::kConceded, true, false, true), Verdict::kFault) << "a broken unit";
}

TEST(Verdict, WhatComesAgainThoughNothingIsDamagedIsFraud) {
  EXPECT_EQ(of(Plea::kConceded, true, true, true), Verdict::kFraud);
  EXPECT_EQ(of(Plea::kNone, true, true, true), Verdict::kFraud);
}

TEST(Verdict, WhatIsContestedIsLost) {
  for (const bool weights : {false, true}) {
    for (const bool again : {false, true}) {
      EXPECT_EQ(of(Plea::kContested, weights, true, again), Verdict::kFraud);
    }
  }
}

}  // namespace
}  // namespace hearth::ledger
