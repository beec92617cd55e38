#include "ledger/salt.h"

#include <gtest/gtest.h>

#include <string>

namespace hearth::ledger {
namespace {

// As PROTOCOL.md has it, so that another implementation comes to the same.
TEST(Salt, OfAChoiceFollowsFromItsAnswers) {
  const Hash256 answer = blake2b(as_bytes("an answer"));
  AnswerName name{};
  name.fill(std::byte{7});
  for (const std::uint16_t choice : {0, 1, 300}) {
    const RequestId request = request_of(name, choice);
    std::string words = "choice";
    for (const std::byte byte : request) words += static_cast<char>(byte);
    EXPECT_EQ(choice_salt(answer, request), keyed_blake2b(answer, as_bytes(words)));
  }
  EXPECT_NE(choice_salt(answer, request_of(name, 0)), choice_salt(answer, request_of(name, 1)));
}

}  // namespace
}  // namespace hearth::ledger
