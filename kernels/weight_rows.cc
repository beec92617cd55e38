#include "kernels/weight_rows.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "kernels/elementary.h"

namespace hearth::kernels {
namespace {

std::uint16_t read_half(const std::byte* bytes) {
  std::uint16_t half = 0;
  std::memcpy(&half, bytes, sizeof half);
  return half;
}

// |half| as an integer multiple of 2^-24; exact for every finite half.
std::uint64_t half_units(std::uint16_t half) {
  const std::uint32_t exponent = (half >> 10) & 0x1FU;
  const std::uint64_t mantissa = half & 0x3FFU;
  return exponent == 0 ? mantissa : (mantissa | 0x400U) << (exponent - 1);
}

// Sum of |q| over the quads [begin, end).
std::uint32_t magnitudes(WeightType type, const FileBlock& block, std::uint32_t begin,
                         std::uint32_t end) {
  const std::int8_t* codebook = codebook_of(type);
  std::uint32_t sum = 0;
  for (std::uint32_t i = begin * 4; i < end * 4; ++i) {
    const int stored = static_cast<int>((block.quads[i / 4] >> (i % 4 * 8)) & 0xFFU);
    const int q = codebook != nullptr ? codebook[stored] : stored - layout_of(type).zero;
    sum += static_cast<std::uint32_t>(std::abs(q));
  }
  return sum;
}

std::uint32_t magnitude_of_scale(std::uint8_t scale) {
  return static_cast<std::uint32_t>(std::abs(static_cast<std::int8_t>(scale)));
}

// The share of one block in S, in units of 2^-24.
std::uint64_t block_units(WeightType type, const FileBlock& block, std::uint64_t d,
                          std::uint64_t m) {
  const WeightLayout layout = layout_of(type);
  if (layout.form == BlockForm::kTwoScales) {
    const std::uint64_t low =
        magnitude_of_scale(block.integers.scales[0]) * magnitudes(type, block, 0, 4);
    const std::uint64_t high =
        magnitude_of_scale(block.integers.scales[1]) * magnitudes(type, block, 4, 8);
    return d * (low + high) + m * 16 * (block.integers.minimums[0] + block.integers.minimums[1]);
  }
  const std::uint64_t sum = magnitudes(type, block, 0, 8);
  if (layout.integer_bytes == 0) return d * sum + m * kBlock;
  return d * magnitude_of_scale(block.integers.scales[0]) * sum +
         m * block.integers.minimums[0] * kBlock;
}

float widen(WeightType type, const std::byte* at) {
  if (type == WeightType::kF16) return half_to_float(read_half(at));
  if (type == WeightType::kBF16) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(read_half(at)) << 16);
  }
  float value = 0.0F;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

// Smallest B >= kWeightExponentMin with units * 2^-(24 + fraction) <= 2^B. As B is an integer above
// -25, it is the one of the sum that is rounded up to 2^-24.
std::int32_t quantised_exponent(const WeightLayout& layout, unsigned __int128 units) {
  units = (units + (1U << layout.fraction) - 1) >> layout.fraction;
  if (units == 0) return kWeightExponentMin;
  const unsigned __int128 last = units - 1;
  const auto high = static_cast<std::uint64_t>(last >> 64);
  const auto low = static_cast<std::uint64_t>(last);
  const int width = high != 0 ? 64 + std::bit_width(high) : std::bit_width(low);
  return width + kWeightExponentMin;
}

std::int32_t floating_exponent(float largest, std::uint32_t cols) {
  if (largest == 0.0F) return kWeightExponentMin;
  const int width = std::bit_width(cols - 1);
  return std::max(kWeightExponentMin, smallest_exponent(largest) + width);
}

Status check_weight_shape(WeightType type, std::uint32_t rows, std::uint32_t cols) {
  const WeightLayout layout = layout_of(type);
  REQUIRE(rows > 0 && cols > 0, "a weight matrix has no rows or no columns");
  REQUIRE(cols % layout.columns() == 0, "columns of a weight matrix (", cols,
          ") are not a multiple of ", layout.columns());
  return ok_status();
}

Status check_weight_bytes(WeightType type, std::uint32_t rows, std::uint32_t cols,
                          std::size_t bytes) {
  const WeightLayout layout = layout_of(type);
  const std::size_t row_bytes = std::size_t{cols} / layout.columns() * layout.file_bytes;
  REQUIRE(bytes / row_bytes == rows && bytes % row_bytes == 0, "a weight matrix of ", rows, " x ",
          cols, " has ", bytes, " bytes, not the size of its type");
  return ok_status();
}

Error refused_weight(WeightType type, std::uint32_t row, std::uint32_t block) {
  const bool floats = layout_of(type).form == BlockForm::kFloat;
  if (layout_of(type).power) {
    return Error::invalid("the scale of block ", block, " of row ", row,
                          " of a weight matrix is above 2^60 (its byte must be at most ", kPowerMax,
                          ")");
  }
  return Error::invalid(floats ? "a value" : "the scale", " of block ", block, " of row ", row,
                        " of a weight matrix is not finite", (floats ? " or above 2^64" : ""));
}

bool RowMagnitude::add(const std::byte* file) {
  if (layout_.form == BlockForm::kFloat) {
    const std::size_t width = layout_.file_bytes / kBlock;
    for (std::uint32_t k = 0; k < kBlock; ++k) {
      const float magnitude = magnitude_of(widen(type_, file + k * width));
      if (!(magnitude <= kWeightMax)) return false;
      largest_ = std::max(largest_, magnitude);
    }
    return true;
  }
  if (layout_.power) {
    power_ = std::to_integer<std::uint32_t>(file[layout_.d_offset]);
    return power_ <= kPowerMax;
  }
  const std::uint16_t d = read_d(type_, file + layout_.d_offset);
  const std::uint16_t m = layout_.minimum ? read_half(file + layout_.d_offset + 2) : 0;
  d_ = half_units(d);
  m_ = half_units(m);
  return half_is_finite(d) && half_is_finite(m);
}

void RowMagnitude::add(const FileBlock& block) {
  if (layout_.power) {
    units_ += power_units(power_, magnitudes(type_, block, 0, 8));
  } else {
    units_ += block_units(type_, block, d_, m_);
  }
}

std::int32_t RowMagnitude::exponent(std::uint32_t cols) const {
  return layout_.form == BlockForm::kFloat ? floating_exponent(largest_, cols)
                                           : quantised_exponent(layout_, units_);
}

}  // namespace hearth::kernels
