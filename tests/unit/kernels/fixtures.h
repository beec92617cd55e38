// Random inputs of the kernels and the buffers they need, for tests and benchmarks.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "base/bytes.h"
#include "kernels/elementary.h"
#include "kernels/kernels.h"

namespace hearth::kernels::fixtures {

using Generator = std::mt19937;

// A standard normal value scaled by `scale`.
inline float normal(Generator& random, float scale = 1.0F) {
  return std::normal_distribution<float>()(random) * scale;
}

inline std::vector<float> normals(Generator& random, std::size_t n, float scale = 1.0F) {
  std::vector<float> values(n);
  for (float& v : values) v = normal(random, scale);
  return values;
}

// Values of every magnitude, zeros of both signs and subnormals among them.
inline std::vector<float> wild(Generator& random, std::size_t n, int low = -140, int high = 30) {
  std::vector<float> values(n);
  std::uniform_int_distribution<int> exponents(low, high);
  for (float& v : values) {
    v = std::ldexp(normal(random), exponents(random));
    if (random() % 16 == 0) v = random() % 2 == 0 ? 0.0F : -0.0F;
  }
  return values;
}

inline constexpr WeightType kAllTypes[] = {
    WeightType::kF32,     WeightType::kF16,    WeightType::kBF16,   WeightType::kQ8_0,
    WeightType::kQ4_0,    WeightType::kQ4_1,   WeightType::kQ5_0,   WeightType::kQ5_1,
    WeightType::kIQ4_NL,  WeightType::kQ2_K,   WeightType::kQ3_K,   WeightType::kQ4_K,
    WeightType::kQ5_K,    WeightType::kQ6_K,   WeightType::kIQ4_XS, WeightType::kMXFP4,
    WeightType::kIQ2_XXS, WeightType::kIQ2_XS, WeightType::kIQ2_S,  WeightType::kIQ3_XXS,
    WeightType::kIQ3_S,   WeightType::kIQ1_S,  WeightType::kIQ1_M,  WeightType::kTQ1_0,
    WeightType::kTQ2_0};
static_assert(std::size(kAllTypes) == kWeightTypes);

inline bool is_floating(WeightType type) { return type <= WeightType::kBF16; }

// Where the fp16 numbers of a file block are, or the byte that stands for one.
inline std::vector<std::size_t> half_offsets(WeightType type) {
  switch (type) {
    case WeightType::kQ4_1:
    case WeightType::kQ5_1:
    case WeightType::kQ4_K:
    case WeightType::kQ5_K: return {0, 2};
    case WeightType::kQ2_K: return {80, 82};
    case WeightType::kQ3_K: return {108};
    case WeightType::kQ6_K: return {208};
    case WeightType::kIQ1_M: return {48};
    case WeightType::kTQ1_0: return {52};
    case WeightType::kTQ2_0: return {64};
    default: return {0};
  }
}

// The fp16 number at `at`; in IQ1_M the highest four bits of four uint16 hold it.
inline void put_half(WeightType type, std::uint16_t half, std::byte* at) {
  if (type != WeightType::kIQ1_M) {
    std::memcpy(at, &half, 2);
    return;
  }
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned low = std::to_integer<unsigned>(at[2 * i + 1]) & 15U;
    at[2 * i + 1] = static_cast<std::byte>(low | (half >> (4 * i) & 15U) << 4);
  }
}

// A scale of that magnitude at least, or as near to it as the type has one.
inline void put_scale(WeightType type, float value, std::byte* at) {
  if (type == WeightType::kMXFP4) {
    *at = static_cast<std::byte>(value == 0.0F ? 0 : std::max(0, 128 + std::ilogb(value)));
    return;
  }
  put_half(type, float_to_half(value), at);
}

// A scale that is refused: a half that is not finite, or one above the largest power of two.
inline void put_refused_scale(WeightType type, std::uint16_t half, std::byte* at) {
  const std::uint32_t power = kPowerMax + 1 + half % (255 - kPowerMax);
  if (type == WeightType::kMXFP4) *at = static_cast<std::byte>(power);
  if (type != WeightType::kMXFP4) put_half(type, half, at);
}

inline void put_float(WeightType type, float value, std::byte* at) {
  if (type == WeightType::kF32) std::memcpy(at, &value, 4);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint16_t half =
      type == WeightType::kF16 ? float_to_half(value) : static_cast<std::uint16_t>(bits >> 16);
  if (type != WeightType::kF32) std::memcpy(at, &half, 2);
}

// Blocks of a weight matrix as a file holds them. `scale`: of the fp16 scales, or of the floating
// weights; any bits for quants and integer scales.
inline Bytes weight_blocks(Generator& random, WeightType type, std::uint32_t rows,
                           std::uint32_t cols, float scale = 0.01F) {
  const std::size_t block_bytes = PackedMatrix::file_block_bytes(type);
  Bytes bytes(std::size_t{rows} * (cols / PackedMatrix::file_block_columns(type)) * block_bytes);
  const auto value = [&] { return std::clamp(normal(random, scale), -65504.0F, 65504.0F); };
  if (is_floating(type)) {
    const std::size_t width = block_bytes / kBlock;
    for (std::size_t at = 0; at < bytes.size(); at += width) put_float(type, value(), &bytes[at]);
    return bytes;
  }
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  for (std::size_t at = 0; at < bytes.size(); at += block_bytes) {
    for (const std::size_t offset : half_offsets(type)) {
      put_scale(type, value(), bytes.data() + at + offset);
    }
  }
  return bytes;
}

// `cols` rounded up to what a row of the type can have.
inline std::uint32_t columns_of(WeightType type, std::uint32_t cols) {
  const std::uint32_t columns = PackedMatrix::file_block_columns(type);
  return (cols + columns - 1) / columns * columns;
}

inline PackedMatrix weights(Generator& random, WeightType type, std::uint32_t rows,
                            std::uint32_t cols, float scale = 0.01F) {
  return PackedMatrix::pack(type, rows, cols, weight_blocks(random, type, rows, cols, scale))
      .value();
}

// Owns what a QuantizedRows points to.
struct Activations {
  Activations(std::uint32_t rows, std::uint32_t cols)
      : values(std::size_t{rows} * cols, 99),
        scales(std::size_t{rows} * (cols / kBlock), -1.0F),
        sums(scales.size(), -1.0F),
        block_sums(scales.size(), -1),
        exponents(rows, 999),
        view{rows,
             cols,
             values.data(),
             scales.data(),
             sums.data(),
             block_sums.data(),
             exponents.data()} {}
  Activations(const Activations&) = delete;
  Activations& operator=(const Activations&) = delete;

  bool operator==(const Activations& other) const {
    const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
      return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
    };
    return values == other.values && same(scales, other.scales) && same(sums, other.sums) &&
           block_sums == other.block_sums && exponents == other.exponents;
  }

  std::vector<std::int8_t> values;
  std::vector<float> scales;
  std::vector<float> sums;
  std::vector<std::int32_t> block_sums;
  std::vector<std::int32_t> exponents;
  QuantizedRows view;
};

inline std::unique_ptr<Activations> activations(Generator& random, std::uint32_t rows,
                                                std::uint32_t cols, bool extreme = false) {
  auto result = std::make_unique<Activations>(rows, cols);
  const Kernels* scalar = kernels_named("scalar").value();
  for (std::uint32_t t = 0; t < rows; ++t) {
    std::vector<float> x = extreme ? wild(random, cols) : normals(random, cols, 3.0F);
    if (extreme && t % 5 == 4) x.assign(cols, 0.0F);
    scalar->quantize(x.data(), result->view, t);
  }
  return result;
}

struct FreeAligned {
  void operator()(void* data) const { ::operator delete[](data, std::align_val_t{64}); }
};

// 64-byte aligned memory filled with a pattern that is garbage as a float and as an int8.
template <typename T>
std::unique_ptr<T[], FreeAligned> aligned(std::size_t count) {
  void* data = ::operator new[](count * sizeof(T) + 64, std::align_val_t{64});
  std::memset(data, 0xFF, count * sizeof(T) + 64);
  return std::unique_ptr<T[], FreeAligned>(static_cast<T*>(data));
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace hearth::kernels::fixtures
