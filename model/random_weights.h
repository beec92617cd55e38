// Rows of random weights straight in a file's block format, for synthetic models of the types
// that quantize.h does not write: every quant (but 2 in TQ2_0) and every integer scale is a
// random one, and the fp16 scales are set so that the weights have mean about 0 and the
// deviation asked for.
#pragma once

#include <cstdint>
#include <functional>

#include "base/bytes.h"
#include "model/gguf/gguf.h"

namespace hearth::model {

// Every type that quantize.h does not write.
bool has_random_blocks(TensorType type);

// Fills `row`, whole blocks of the type. `next` gives 64 random bits.
void fill_random_blocks(TensorType type, float deviation,
                        const std::function<std::uint64_t()>& next, MutableByteSpan row);

}  // namespace hearth::model
