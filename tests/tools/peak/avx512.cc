#include <immintrin.h>

#include "tests/tools/peak/entries.h"

namespace hearth::kernels {

std::uint64_t avx512_integer_peak(std::uint64_t rounds) {
  __m512i sums[kPeakChains];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  const __m512i a = _mm512_set1_epi8(3);
  const __m512i b = _mm512_set1_epi8(1);
  for (std::uint64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (__m512i& sum : sums) {
      asm volatile("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    }
  }
  for (__m512i& sum : sums) asm volatile("" : "+v"(sum));
  return rounds * kPeakChains * 64 * 2;
}

}  // namespace hearth::kernels
