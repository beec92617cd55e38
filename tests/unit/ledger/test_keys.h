// Keys and hashes of the ledger's tests, the same in every run.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/crypto.h"

namespace hearth::ledger {

inline SecretKey key_of(unsigned char seed) {
  return SecretKey::from_seed(Bytes(SecretKey::kSeedBytes, std::byte{seed})).value();
}

inline Hash256 hash_of(const std::string& text) { return blake2b(as_bytes(text)); }

}  // namespace hearth::ledger
