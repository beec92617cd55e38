// Hashes of the input and output of a stage at one position. Normative text: kernels/CANONICAL.md,
// "Hashes". They depend only on the model and on the tokens up to the position.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/ids.h"

namespace hearth::node {

// The input of the first stage: the token at the position.
Hash256 hash_token(Position position, TokenId token);

// The residual between layers `boundary - 1` and `boundary`: hidden_size fp16 values.
Hash256 hash_activation(std::uint32_t boundary, Position position, ByteSpan row);

// The output of the last stage: the token sampled from this position, or kNoToken.
inline constexpr std::uint32_t kNoToken = 0xFFFFFFFF;
Hash256 hash_output(Position position, std::uint32_t token);

// Begins the hash of the keys and values of a layer at the first `positions`; their bytes follow in
// order.
Blake2b begin_kv_hash(std::uint32_t layer, std::uint32_t positions);

}  // namespace hearth::node
