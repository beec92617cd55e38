#include "kernels/delta_net.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "kernels/elementary.h"
#include "kernels/matrix_view.h"
#include "kernels/preconditions.h"
#include "kernels/quantize_block.h"

namespace hearth::kernels {
namespace {

constexpr float kSoftplusLinear = 20.0F;  // from here on it is its argument
constexpr double kLn2OfDelta = 0x1.62e42fefa39efp-1;
constexpr std::uint32_t kChannels = 256;  // whose sums stay in the fastest cache

float softplus(float t) {
  if (t > kSoftplusLinear) return t;
  const double sum = 1.0 + static_cast<double>(exp2_of(t * kLog2E));
  return static_cast<float>(log2_canonical(sum) * kLn2OfDelta);
}

void check_delta(const DeltaShape& shape) {
  INVARIANT(shape.key_heads != 0 && shape.value_heads % shape.key_heads == 0,
            "as many value heads share each key head");
  INVARIANT(is_whole_blocks(shape.head) && shape.head <= kHeadDimMax,
            "a head fits the kernels' stacks");
  INVARIANT(shape.taps != 0, "a convolution reads its own position");
}

}  // namespace

bool is_delta_row(const DeltaShape& shape, const float* row) {
  return largest_magnitude(row, shape.channels()) <= std::bit_cast<std::uint32_t>(kAttentionMax);
}

bool short_convolution(const DeltaShape& shape, const float* const* rows, const float* weights,
                       float* out) {
  check_delta(shape);
  INVARIANT(rows[shape.taps - 1] != nullptr, "a convolution reads its own position");
  bool finite = true;
  for (std::uint32_t begin = 0; begin < shape.channels(); begin += kChannels) {
    const std::uint32_t n = std::min(kChannels, shape.channels() - begin);
    std::array<float, kChannels> sums{};
    for (std::uint32_t j = 0; j < shape.taps; ++j) {
      if (rows[j] == nullptr) continue;
      const float* row = rows[j] + begin;
      const float* tap = weights + std::size_t{begin} * shape.taps + j;
      for (std::uint32_t c = 0; c < n; ++c) {
        sums[c] += tap[std::size_t{c} * shape.taps] * row[c];
      }
    }
    for (std::uint32_t c = 0; c < n; ++c) {
      finite = finite && is_finite(sums[c]);
      out[begin + c] = sums[c];
    }
  }
  return finite;
}

bool delta_numbers(float a, float b, float t, DeltaNumbers& out) {
  if (!is_finite(b) || !is_finite(t)) {
    out = {};
    return false;
  }
  out = {sigmoid_of(b), exp2_of((a * softplus(t)) * kLog2E)};
  return true;
}

}  // namespace hearth::kernels
