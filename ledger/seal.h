// Seals of audits. A seal binds the root that an auditor computed to its key and to the audited
// entry, and hides the root until the seal is opened. Pure functions, any thread.
#pragma once

#include <cstdint>

#include "base/crypto.h"

namespace hearth::ledger {

// An auditor's commitment to its result for the window of entry `receipt`.
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

}  // namespace hearth::ledger
