// What nodes sign besides receipts (PROTOCOL.md, 4): seals of audits and answers to accusations.
// Pure functions, any thread.
#pragma once

#include <cstdint>

#include "base/crypto.h"

namespace hearth::ledger {

// An auditor's commitment to its result for the window of entry `receipt`. It binds the root that
// the auditor computed to its key and that entry, and hides the root until the seal is opened.
struct SealEntry {
  std::uint64_t receipt = 0;
  PublicKey auditor;
  Hash256 seal;  // seal_of()
  Signature signature{};
};
// Only the auditor can make this seal, and the root cannot be read from it.
Hash256 seal_of(std::uint64_t receipt, const PublicKey& auditor, const Hash256& root,
                const Hash256& salt);
SealEntry sign_seal(std::uint64_t receipt, const Hash256& seal, const PublicKey& cluster,
                    const SecretKey& auditor);
bool check_seal(const SealEntry& seal, const PublicKey& cluster);

// The accused's answer to the accusation. kNone: no answer came before the deadline.
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
