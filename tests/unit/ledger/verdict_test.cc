#include "ledger/verdict.h"

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

TEST(Verdict, AnAnswerIsItsAccusedsWordForWord) {
  const SecretKey key = SecretKey::generate();
  const PublicKey cluster = SecretKey::generate().public_key();
  const Answer said = sign_answer({7, {}, Plea::kConceded, false, true, {}}, cluster, key);
  EXPECT_EQ(said.accused, key.public_key());
  EXPECT_TRUE(check_answer(said, cluster));
  EXPECT_FALSE(check_answer(said, key.public_key())) << "of another cluster";
  const auto changed = [&](auto change) {
    Answer other = said;
    change(other);
    return check_answer(other, cluster);
  };
  EXPECT_FALSE(changed([](Answer& one) { one.receipt = 8; }));
  EXPECT_FALSE(changed([](Answer& one) { one.plea = Plea::kContested; }));
  EXPECT_FALSE(changed([](Answer& one) { one.weights_whole = true; }));
  EXPECT_FALSE(changed([](Answer& one) { one.self_test_passed = false; }));
  EXPECT_FALSE(changed([](Answer& one) { one.signature[0] ^= std::byte{1}; }));
}

}  // namespace
}  // namespace hearth::ledger
