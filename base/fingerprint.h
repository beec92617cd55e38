// Short names of a cluster for people and tokens, derived from its public key.
#pragma once

#include <string>

#include "base/crypto.h"

namespace hearth {

inline constexpr std::size_t kFingerprintDigits = 32;

// 32 hexadecimal digits, 128 bits of a hash of the key: what a join token carries and a joiner
// compares before it says anything.
std::string fingerprint(const PublicKey& key);

// "otter-lamp-quartz": 24 bits, enough to tell the clusters of a house apart by eye. An attacker
// can make a key with the words of another, so that words prove nothing.
std::string three_words(const PublicKey& key);

}  // namespace hearth
