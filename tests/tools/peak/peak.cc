#include "tests/tools/peak/peak.h"

#include <cstring>

#include "kernels/tables.h"
#include "tests/tools/peak/entries.h"

namespace hearth::kernels {
namespace {

std::uint64_t scalar_integer_peak(std::uint64_t rounds) {
  std::uint32_t sums[kPeakChains] = {};
  for (std::uint64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (std::uint32_t& sum : sums) {
      sum = sum * 3 + 1;
      asm("" : "+r"(sum));
    }
  }
  return rounds * kPeakChains * 2;
}

}  // namespace

std::uint64_t run_integer_peak([[maybe_unused]] const Kernels& table, std::uint64_t rounds) {
#if defined(__x86_64__)
  if (&table == &kAvx2Kernels) return avx2_integer_peak(rounds);
  if (&table == &kAvxVnniKernels) return avxvnni_integer_peak(rounds);
  if (&table == &kAvx512Kernels) return avx512_integer_peak(rounds);
#endif
  return scalar_integer_peak(rounds);
}

std::uint64_t read_lines(ByteSpan bytes) {
  constexpr std::size_t kLine = 64;
  std::uint64_t sums[8] = {};
  for (std::size_t at = 0; at + kLine <= bytes.size(); at += kLine) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at + i * 8, 8);
      sums[i] += word;
    }
  }
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all ^= sum;
  return all;
}

}  // namespace hearth::kernels
