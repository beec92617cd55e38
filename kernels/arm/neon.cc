// The NEON tables and those of their entries that x86 writes otherwise.
#include "kernels/arm/neon.h"

#if defined(__aarch64__)
#include "kernels/simd/row_entries.h"

namespace hearth::kernels {
namespace {

void add(float* x, const float* y, std::uint32_t n) {
  std::uint32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(x + i, load(x + i) + load(y + i));
  for (; i < n; ++i) x[i] += y[i];
}

// The residual 4 values at a time; a last few go through buffers of 4.
bool residual_round(float* x, std::uint16_t* bits, std::uint32_t n, int shift) {
  check_residual(shift);
  const Floats down = splat(power_of_two(-shift));
  const Floats up = splat(power_of_two(shift));
  const uint16x4_t limit = vdup_n_u16(0x7C00);
  uint16x4_t out_of_range = vdup_n_u16(0);
  for (std::uint32_t i = 0; i < n; i += kLanes) {
    const std::uint32_t count = n - i < kLanes ? n - i : kLanes;
    float values[kLanes] = {};
    std::memcpy(values, x + i, count * sizeof(float));
    const uint16x4_t half = vreinterpret_u16_f16(vcvt_f16_f32(load(values) * down));
    out_of_range = vorr_u16(out_of_range, vceq_u16(vand_u16(half, limit), limit));
    store_first(count, x + i, halves_to_floats(half) * up);
    std::memcpy(bits + i, &half, count * sizeof(std::uint16_t));
  }
  return vmaxv_u16(out_of_range) == 0;
}

void residual_expand(const std::uint16_t* bits, float* x, std::uint32_t n, int shift) {
  check_residual(shift);
  const Floats up = splat(power_of_two(shift));
  for (std::uint32_t i = 0; i < n; i += kLanes) {
    const std::uint32_t count = n - i < kLanes ? n - i : kLanes;
    uint16x4_t half = vdup_n_u16(0);
    std::memcpy(&half, bits + i, count * sizeof(std::uint16_t));
    store_first(count, x + i, halves_to_floats(half) * up);
  }
}

}  // namespace

constinit const Kernels kNeonKernels = table("neon", neon::matmul, neon::matmul_partial);
constinit const Kernels kDotprodKernels =
    table("dotprod", dotprod::matmul, dotprod::matmul_partial);
constinit const Kernels kI8mmKernels = table("i8mm", i8mm::matmul, i8mm::matmul_partial);

}  // namespace hearth::kernels
#endif
