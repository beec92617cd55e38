// Rows of the block types of GGUF files back to floats, plainly: the inverse of quantize_row.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "model/gguf/quantize.h"

namespace hearth::model {

inline constexpr std::size_t kBlockElements = 32;

inline float load_half(const std::byte* in) {
  std::uint16_t half = 0;
  std::memcpy(&half, in, sizeof(half));
  return float_from_half(half);
}

inline float load_bfloat(const std::byte* in) {
  std::uint16_t half = 0;
  std::memcpy(&half, in, sizeof(half));
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

inline std::array<int, kBlockElements> unpack_nibbles(const std::byte* in) {
  std::array<int, kBlockElements> codes{};
  for (std::size_t i = 0; i < kBlockElements / 2; ++i) {
    codes[i] = std::to_integer<int>(in[i]) & 15;
    codes[i + kBlockElements / 2] = std::to_integer<int>(in[i]) >> 4;
  }
  return codes;
}

inline void dequantize_block(TensorType type, const std::byte* in, float* out) {
  const float scale = load_half(in);
  if (type == TensorType::kQ8_0) {
    for (std::size_t i = 0; i < kBlockElements; ++i) {
      out[i] = static_cast<float>(static_cast<std::int8_t>(in[2 + i])) * scale;
    }
    return;
  }
  const bool has_minimum = type == TensorType::kQ4_1;
  const auto codes = unpack_nibbles(in + (has_minimum ? 4 : 2));
  const float minimum = has_minimum ? load_half(in + 2) : 0.0F;
  for (std::size_t i = 0; i < kBlockElements; ++i) {
    const int value = has_minimum ? codes[i] : codes[i] - 8;
    out[i] = static_cast<float>(value) * scale + minimum;
  }
}

inline Status dequantize_row(TensorType type, ByteSpan bytes, std::span<float> out) {
  REQUIRE(bytes.size() == row_bytes(type, out.size()), "the bytes are not those of the row");
  if (type == TensorType::kF32) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return ok_status();
  }
  if (type == TensorType::kF16) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = load_half(bytes.data() + 2 * i);
    return ok_status();
  }
  if (type == TensorType::kBF16) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = load_bfloat(bytes.data() + 2 * i);
    return ok_status();
  }
  const std::uint64_t block_bytes = row_bytes(type, kBlockElements);
  for (std::size_t block = 0; block < out.size() / kBlockElements; ++block) {
    dequantize_block(type, bytes.data() + block * block_bytes, out.data() + block * kBlockElements);
  }
  return ok_status();
}

}  // namespace hearth::model
