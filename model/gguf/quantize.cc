#include "model/gguf/quantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace hearth::model {
namespace {

constexpr std::size_t kBlockElements = 32;

Error not_served(TensorType type) {
  return Error::of(ErrorCode::kUnsupported, tensor_type_name(static_cast<std::uint32_t>(type)),
                   " is not one of F32, F16, BF16, Q8_0, Q4_0, Q4_1, MXFP4");
}

void store_half(float value, std::byte* out) {
  const std::uint16_t half = half_from_float(value);
  std::memcpy(out, &half, sizeof(half));
}

float load_half(const std::byte* in) {
  std::uint16_t half = 0;
  std::memcpy(&half, in, sizeof(half));
  return float_from_half(half);
}

// The high half of an fp32, ties to even; for finite values.
void store_bfloat(float value, std::byte* out) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto half = static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
  std::memcpy(out, &half, sizeof(half));
}

// round(value / scale) + bias in [low, high]; a zero scale has one code only.
int code(float value, float scale, int bias, int low, int high) {
  if (scale == 0.0F) return bias;
  const float ratio = std::clamp(value / scale, -1000.0F, 1000.0F);
  return std::clamp(static_cast<int>(std::lrint(ratio)) + bias, low, high);
}

void quantize_q8_0(const float* in, std::byte* out) {
  float largest = 0.0F;
  for (std::size_t i = 0; i < kBlockElements; ++i) largest = std::max(largest, std::fabs(in[i]));
  store_half(largest / 127.0F, out);
  const float scale = load_half(out);
  for (std::size_t i = 0; i < kBlockElements; ++i) {
    out[2 + i] = static_cast<std::byte>(code(in[i], scale, 0, -127, 127));
  }
}

// Codes 0 to 15, element i in the low half of byte i and element i + 16 in the high half.
void pack_nibbles(const std::array<int, kBlockElements>& codes, std::byte* out) {
  for (std::size_t i = 0; i < kBlockElements / 2; ++i) {
    out[i] = static_cast<std::byte>(codes[i] | (codes[i + kBlockElements / 2] << 4));
  }
}

// (code - 8) * scale: the value of the largest magnitude gets code 0, so the scale has its
// opposite sign.
void quantize_q4_0(const float* in, std::byte* out) {
  float extreme = 0.0F;
  for (std::size_t i = 0; i < kBlockElements; ++i) {
    if (std::fabs(in[i]) > std::fabs(extreme)) extreme = in[i];
  }
  store_half(extreme / -8.0F, out);
  const float scale = load_half(out);
  std::array<int, kBlockElements> codes{};
  for (std::size_t i = 0; i < kBlockElements; ++i) codes[i] = code(in[i], scale, 8, 0, 15);
  pack_nibbles(codes, out + 2);
}

// code * scale + minimum
void quantize_q4_1(const float* in, std::byte* out) {
  const auto [low, high] = std::minmax_element(in, in + kBlockElements);
  store_half((*high - *low) / 15.0F, out);
  store_half(*low, out + 2);
  const float scale = load_half(out);
  const float minimum = load_half(out + 2);
  std::array<int, kBlockElements> codes{};
  for (std::size_t i = 0; i < kBlockElements; ++i) {
    codes[i] = code(in[i] - minimum, scale, 0, 0, 15);
  }
  pack_nibbles(codes, out + 4);
}

// The scale is a power of two, in which the largest magnitude is from 8 up to 16; each value gets
// the code that is nearest, of two the lower one.
void quantize_mxfp4(const float* in, std::byte* out) {
  constexpr std::array<float, 8> kValues = {0, 1, 2, 3, 4, 6, 8, 12};
  float largest = 0.0F;
  for (std::size_t i = 0; i < kBlockElements; ++i) largest = std::max(largest, std::fabs(in[i]));
  const int exponent = largest == 0.0F ? -128 : std::clamp(std::ilogb(largest) - 3, -128, 60);
  out[0] = static_cast<std::byte>(exponent + 128);
  std::array<int, kBlockElements> codes{};
  for (std::size_t i = 0; i < kBlockElements; ++i) {
    const float magnitude = std::ldexp(std::fabs(in[i]), -exponent);
    int nearest = 0;
    for (int c = 1; c < 8; ++c) {
      const auto at = static_cast<std::size_t>(c);
      if (magnitude > (kValues[at - 1] + kValues[at]) / 2) nearest = c;
    }
    codes[i] = nearest + (std::signbit(in[i]) ? 8 : 0);
  }
  pack_nibbles(codes, out + 1);
}

bool is_served(TensorType type) {
  return type == TensorType::kF32 || type == TensorType::kF16 || type == TensorType::kBF16 ||
         type == TensorType::kQ8_0 || type == TensorType::kQ4_0 || type == TensorType::kQ4_1 ||
         type == TensorType::kMXFP4;
}

Status check_sizes(TensorType type, std::uint64_t elements, std::uint64_t bytes) {
  if (!is_served(type)) return not_served(type);
  const TensorTypeInfo* info = tensor_type_info(static_cast<std::uint32_t>(type));
  REQUIRE(elements % info->block_elements == 0, "a row of ", elements,
          " elements must be a multiple of the block size");
  REQUIRE(bytes == row_bytes(type, elements), "a row of ", elements, " elements takes ",
          row_bytes(type, elements), " bytes, not ", bytes);
  return ok_status();
}

}  // namespace

std::uint16_t half_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return sign | 0x7E00U;   // NaN
  if (magnitude >= 0x47800000U) return sign | 0x7C00U;  // 65536 and above
  if (magnitude < 0x33000000U) return sign;             // below half of the smallest subnormal
  const std::uint32_t exponent = magnitude >> 23;
  const std::uint32_t mantissa = (magnitude & 0x7FFFFFU) | 0x800000U;
  // Bits to drop: 13 from a normal number, more the further it lies below the normal range.
  const std::uint32_t drop = exponent >= 113 ? 13 : 126 - exponent;
  const std::uint32_t kept = mantissa >> drop;
  const std::uint32_t rest = mantissa & ((1U << drop) - 1U);
  const std::uint32_t half = 1U << (drop - 1);
  const std::uint32_t up = rest > half || (rest == half && (kept & 1U) != 0) ? 1U : 0U;
  // A normal number's leading bit adds one to the exponent field, and so may the rounding.
  const std::uint32_t base = exponent >= 113 ? (exponent - 113) << 10 : 0U;
  return static_cast<std::uint16_t>(sign | (base + kept + up));
}

float float_from_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 31U;
  const std::uint32_t mantissa = half & 1023U;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13));
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

std::uint64_t row_bytes(TensorType type, std::uint64_t elements) {
  const TensorTypeInfo* info = tensor_type_info(static_cast<std::uint32_t>(type));
  INVARIANT(info != nullptr, "row_bytes of a type that is not in the table");
  return elements / info->block_elements * info->block_bytes;
}

Status quantize_row(TensorType type, std::span<const float> row, MutableByteSpan out) {
  TRY_VOID(check_sizes(type, row.size(), out.size()));
  if (type == TensorType::kF32) {
    std::memcpy(out.data(), row.data(), out.size());
    return ok_status();
  }
  if (type == TensorType::kF16) {
    for (std::size_t i = 0; i < row.size(); ++i) store_half(row[i], out.data() + 2 * i);
    return ok_status();
  }
  if (type == TensorType::kBF16) {
    for (std::size_t i = 0; i < row.size(); ++i) store_bfloat(row[i], out.data() + 2 * i);
    return ok_status();
  }
  const std::uint64_t block_bytes = row_bytes(type, kBlockElements);
  for (std::size_t block = 0; block < row.size() / kBlockElements; ++block) {
    const float* in = row.data() + block * kBlockElements;
    std::byte* to = out.data() + block * block_bytes;
    if (type == TensorType::kQ8_0) quantize_q8_0(in, to);
    if (type == TensorType::kQ4_0) quantize_q4_0(in, to);
    if (type == TensorType::kQ4_1) quantize_q4_1(in, to);
    if (type == TensorType::kMXFP4) quantize_mxfp4(in, to);
  }
  return ok_status();
}

}  // namespace hearth::model
