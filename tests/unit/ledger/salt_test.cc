#include "ledger/salt.h"

#include <gtest/gtest.h>

namespace hearth::ledger {
namespace {

// As PROTOCOL.md has it, so that another implementation comes to the same.
TEST(Salt, OfAChoiceFollowsFromItsAnswers) {
  const Hash256 answer = blake2b(as_bytes("an answer"));
  AnswerName name{};
  name.fill(std::byte{7});
  for (const std::uint16_t choice : {0, 1, 300}) {
    const RequestId request = request_of(name, choice);
    Bytes words(as_bytes("choice").begin(), as_bytes("choice").end());
    words.insert(words.end(), request.begin(), request.end());
    EXPECT_EQ(choice_salt(answer, request), keyed_blake2b(answer, words));
  }
  EXPECT_NE(choice_salt(answer, request_of(name, 0)), choice_salt(answer, request_of(name, 1)));
}

}  // namespace
}  // namespace hearth::ledger
