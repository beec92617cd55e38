// The seal of an audit: what an auditor found, bound to its key and to the audited entry of the
// log, and not readable before it is opened. Pure functions, any thread.
#pragma once

#include <cstdint>

#include "base/crypto.h"

namespace hearth::ledger {

// What an auditor will say of the window of entry `receipt`.
struct SealEntry {
  std::uint64_t receipt = 0;
  PublicKey auditor;
  Hash256 seal;  // seal_of()
  Signature signature{};
};

// Nobody but the auditor can have made it, and nobody can read the root from it.
Hash256 seal_of(std::uint64_t receipt, const PublicKey& auditor, const Hash256& root,
                const Hash256& salt);
SealEntry sign_seal(std::uint64_t receipt, const Hash256& seal, const PublicKey& cluster,
                    const SecretKey& auditor);
bool check_seal(const SealEntry& seal, const PublicKey& cluster);

}  // namespace hearth::ledger
