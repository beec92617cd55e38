// run_integer_peak, one entry an instruction set: each in a file compiled for it.
#pragma once

#include <cstdint>

namespace hearth::kernels {

std::uint64_t avx2_integer_peak(std::uint64_t rounds);
std::uint64_t avxvnni_integer_peak(std::uint64_t rounds);
std::uint64_t avx512_integer_peak(std::uint64_t rounds);

// Enough chains of dependent instructions to hide their latency, and so many rounds between two
// readings of the clock that the loop around them costs nothing.
inline constexpr int kPeakChains = 12;

}  // namespace hearth::kernels
