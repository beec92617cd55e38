// Measured peak rates of this processor: a benchmark prints them beside a kernel's rate.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "kernels/kernels.h"

namespace hearth::kernels {

// `rounds` rounds of independent 8-bit multiply-adds in registers, with the instructions that the
// matrix product of `table` is made of. Gives the operations done, two a multiply-add.
std::uint64_t run_integer_peak(const Kernels& table, std::uint64_t rounds);

// Reads every cache line of `bytes` in order; gives a value that depends on all of them.
std::uint64_t read_lines(ByteSpan bytes);

}  // namespace hearth::kernels
