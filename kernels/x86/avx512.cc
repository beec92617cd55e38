// The AVX-512 table and those of its entries that AVX2 writes otherwise.
#include "kernels/x86/avx512.h"

#include "kernels/simd/row_entries.h"

namespace hearth::kernels {
namespace {

void add(float* x, const float* y, std::uint32_t n) {
  for (std::uint32_t i = 0; i < n; i += 16) {
    const __mmask16 mask = lanes_below(n - i);
    const __m512 sum =
        _mm512_add_ps(_mm512_maskz_loadu_ps(mask, x + i), _mm512_maskz_loadu_ps(mask, y + i));
    _mm512_mask_storeu_ps(x + i, mask, sum);
  }
}

bool residual_round(float* x, std::uint16_t* bits, std::uint32_t n, int shift) {
  check_residual(shift);
  const __m512 down = _mm512_set1_ps(power_of_two(-shift));
  const __m512 up = _mm512_set1_ps(power_of_two(shift));
  const __m256i limit = _mm256_set1_epi16(0x7C00);
  __mmask16 out_of_range = 0;
  for (std::uint32_t i = 0; i < n; i += 16) {
    const __mmask16 mask = lanes_below(n - i);
    const __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), down);
    const __m256i half = _mm512_cvtps_ph(scaled, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    out_of_range |= _mm256_cmpeq_epi16_mask(_mm256_and_si256(half, limit), limit);
    _mm256_mask_storeu_epi16(bits + i, mask, half);
    _mm512_mask_storeu_ps(x + i, mask, _mm512_mul_ps(_mm512_cvtph_ps(half), up));
  }
  return out_of_range == 0;
}

void residual_expand(const std::uint16_t* bits, float* x, std::uint32_t n, int shift) {
  check_residual(shift);
  const __m512 up = _mm512_set1_ps(power_of_two(shift));
  for (std::uint32_t i = 0; i < n; i += 16) {
    const __mmask16 mask = lanes_below(n - i);
    const __m512 value = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, bits + i));
    _mm512_mask_storeu_ps(x + i, mask, _mm512_mul_ps(value, up));
  }
}

}  // namespace

constinit const Kernels kAvx512Kernels = table("avx512", avx512::matmul, avx512::matmul_partial);

}  // namespace hearth::kernels
