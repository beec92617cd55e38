#include <immintrin.h>

#include "tests/tools/peak/entries.h"

namespace hearth::kernels {

std::uint64_t avxvnni_integer_peak(std::uint64_t rounds) {
  __m256i sums[kPeakChains];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  const __m256i a = _mm256_set1_epi8(3);
  const __m256i b = _mm256_set1_epi8(1);
  for (std::uint64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (__m256i& sum : sums) {
      asm volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
    }
  }
  for (__m256i& sum : sums) asm volatile("" : "+x"(sum));
  return rounds * kPeakChains * 32 * 2;
}

}  // namespace hearth::kernels
