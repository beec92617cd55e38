// The parts of loading packed weights that both widths share: the scales of super-blocks, and
// floating weights. Internal linkage throughout.
#pragma once

#include "kernels/matrix_view.h"
#include "kernels/simd/vectors.h"

#if defined(HEARTH_VECTORS)
namespace hearth::kernels {
namespace {

// D * G and M * G, one row a lane, G = 2^-B of the row: of a super-block without its integer
// scales, or of a block. Products with a power of two, and with integer scales, are exact,
// but for what CANONICAL.md says of MXFP4.
struct Scales {
  Floats scale;
  Floats minimum;
};

// `header` at the first row's d.
template <WeightType type>
inline Scales load_header(const std::byte* header, Floats factor) {
  constexpr WeightLayout kLayout = layout_of(type);
  if constexpr (kLayout.power) {  // a quarter of these powers, and none is subnormal before G
    return {load_powers(header) * (factor * splat(0.25F)), Floats{}};
  }
  Scales s = {load_halves(header) * factor, Floats{}};
  if constexpr (kLayout.fraction != 0) {
    s.scale = s.scale * splat(1.0F / static_cast<float>(1 << kLayout.fraction));
  }
  if constexpr (kLayout.minimum) {
    s.minimum = load_halves(header + kRowGroup * 2) * factor;
    if constexpr (kLayout.blocks > 1) s.minimum = -s.minimum;
  }
  return s;
}

// One column of a block of a floating type, times G; `at` at the first row's weight.
template <WeightType type>
inline Floats load_floats(const std::byte* at, Floats factor) {
  if constexpr (type == WeightType::kF32) {
    return load(reinterpret_cast<const float*>(at)) * factor;
  } else if constexpr (type == WeightType::kF16) {
    return load_halves(at) * factor;
  } else {
    return load_brains(at) * factor;
  }
}

}  // namespace
}  // namespace hearth::kernels
#endif
