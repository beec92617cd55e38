// How fast a card reads weights.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace hearth::node {

// Bytes of Q8_0 weights a second, with the kernel of decoding, over a matrix of zeros of that
// shape, which should be larger than the card's cache; takes its memory and gives it back. On the
// card that the thread has chosen.
Result<double> measure_card_rate(std::uint32_t rows, std::uint32_t cols);

}  // namespace hearth::node
