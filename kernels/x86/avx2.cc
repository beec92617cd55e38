// The AVX2 and AVX-VNNI tables and those of their entries that AVX-512 writes otherwise.
#include "kernels/x86/avx2.h"

#include "kernels/simd/row_entries.h"

namespace hearth::kernels {
namespace {

void add(float* x, const float* y, std::uint32_t n) {
  std::uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(x + i, _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
  }
  for (; i < n; ++i) x[i] += y[i];
}

// The residual 8 values at a time; a last few go through buffers of 8.
bool residual_round(float* x, std::uint16_t* bits, std::uint32_t n, int shift) {
  check_residual(shift);
  const __m256 down = _mm256_set1_ps(power_of_two(-shift));
  const __m256 up = _mm256_set1_ps(power_of_two(shift));
  const __m128i limit = _mm_set1_epi16(0x7C00);
  __m128i out_of_range = _mm_setzero_si128();
  for (std::uint32_t i = 0; i < n; i += 8) {
    const std::uint32_t count = n - i < 8 ? n - i : 8;
    float values[8] = {};
    std::uint16_t halves[8];
    std::memcpy(values, x + i, count * sizeof(float));
    const __m256 small = _mm256_mul_ps(_mm256_loadu_ps(values), down);
    const __m128i half = _mm256_cvtps_ph(small, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    out_of_range = _mm_or_si128(out_of_range, _mm_cmpeq_epi16(_mm_and_si128(half, limit), limit));
    _mm256_storeu_ps(values, _mm256_mul_ps(_mm256_cvtph_ps(half), up));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(halves), half);
    std::memcpy(x + i, values, count * sizeof(float));
    std::memcpy(bits + i, halves, count * sizeof(std::uint16_t));
  }
  return _mm_testz_si128(out_of_range, out_of_range) != 0;
}

void residual_expand(const std::uint16_t* bits, float* x, std::uint32_t n, int shift) {
  check_residual(shift);
  const __m256 up = _mm256_set1_ps(power_of_two(shift));
  for (std::uint32_t i = 0; i < n; i += 8) {
    const std::uint32_t count = n - i < 8 ? n - i : 8;
    float values[8];
    std::uint16_t halves[8] = {};
    std::memcpy(halves, bits + i, count * sizeof(std::uint16_t));
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves));
    _mm256_storeu_ps(values, _mm256_mul_ps(_mm256_cvtph_ps(half), up));
    std::memcpy(x + i, values, count * sizeof(float));
  }
}

}  // namespace

constinit const Kernels kAvx2Kernels = table("avx2", avx2::matmul, avx2::matmul_partial);
constinit const Kernels kAvxVnniKernels =
    table("avxvnni", avxvnni::matmul, avxvnni::matmul_partial);

}  // namespace hearth::kernels
