// A verifiable random function: ECVRF-EDWARDS25519-SHA512-TAI of RFC 9381, over the keys of
// crypto.h. For each key and message there is one output, which only the holder of the secret key
// can compute and any holder of the public key can check.
//
// The number of attempts to find a point depends on the message, and so does the time: a message is
// not secret here.
#pragma once

#include <array>
#include <optional>

#include "base/crypto.h"

namespace hearth {

using VrfProof = std::array<std::byte, 80>;
using VrfOutput = std::array<std::byte, 64>;

VrfProof vrf_prove(const SecretKey& key, ByteSpan message);

// Nothing when the proof is not of this key and message. Any bytes may be a proof. Of the proofs
// that RFC 9381 lets verify, those whose point is not of the prime-order group are refused as well;
// no honest prover makes one.
std::optional<VrfOutput> vrf_verify(const PublicKey& key, ByteSpan message, ByteSpan proof);
// The output of a proof that was verified before; faster than verifying it again. Nothing for bytes
// that are not a proof of any key.
std::optional<VrfOutput> vrf_output(ByteSpan proof);

}  // namespace hearth
