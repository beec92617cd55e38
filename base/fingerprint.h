// Short names of a cluster for people and tokens, derived from its public key.
#pragma once

#include <string>

#include "base/crypto.h"

namespace hearth {

inline constexpr std::size_t kFingerprintDigits = 32;

// 32 hexadecimal digits, 128 bits of a hash of the key. A join token contains it, and a joining
// machine compares it before it sends anything.
std::string fingerprint(const PublicKey& key);

// "otter-lamp-quartz": 24 bits, enough for a person to distinguish the clusters of one home. An
// attacker can make a key with the words of another key, so words prove nothing.
std::string three_words(const PublicKey& key);

}  // namespace hearth
