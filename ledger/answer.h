// What an accused node says (ledger/PROTOCOL.md, 4): signed, so that a concession is evidence. Pure
// functions, any thread.
#pragma once

#include <cstdint>

#include "base/crypto.h"

namespace hearth::ledger {

// What the accused says of it. Silence until the deadline is kNone.
enum class Plea : std::uint8_t { kNone = 0, kConceded = 1, kContested = 2 };

// The accused's answer about the window of entry `receipt`, signed: evidence of a concession.
struct Answer {
  std::uint64_t receipt = 0;
  PublicKey accused;
  Plea plea = Plea::kNone;
  bool weights_whole = true;
  bool self_test_passed = true;
  Signature signature{};
};
Answer sign_answer(Answer answer, const PublicKey& cluster, const SecretKey& accused);
bool check_answer(const Answer& answer, const PublicKey& cluster);

}  // namespace hearth::ledger
