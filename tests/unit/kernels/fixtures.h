// Random inputs of the kernels and the buffers they need, for tests and benchmarks.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

// Blocks of a weight matrix as a file holds them. `scale`: of the fp16 scales; any bits for quants.
inline Bytes weight_blocks(Generator& random, WeightType type, std::uint32_t rows,
                           std::uint32_t cols, float scale = 0.01F) {
  const std::size_t block_bytes = PackedMatrix::file_block_bytes(type);
  Bytes bytes(std::size_t{rows} * (cols / kBlock) * block_bytes);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  for (std::size_t at = 0; at < bytes.size(); at += block_bytes) {
    const int halves = type == WeightType::kQ4_1 ? 2 : 1;
    for (int i = 0; i < halves; ++i) {
      const float value = std::clamp(normal(random, scale), -65504.0F, 65504.0F);
      const std::uint16_t half = float_to_half(value);
      std::memcpy(bytes.data() + at + static_cast<std::size_t>(i) * 2, &half, 2);
    }
  }
  return bytes;
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
