#include "ledger/statements.h"

#include <gtest/gtest.h>

namespace hearth::ledger {
namespace {

TEST(Answer, AnAnswerIsItsAccusedsWordForWord) {
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
