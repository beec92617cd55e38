// Weights as real files have them: normal numbers, rounded plainly to the block types that
// hearth_gpu_bench times.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "kernels/elementary.h"
#include "kernels/kernels.h"

namespace hearth::gpu {

using Floats = std::span<const float>;

inline void put_bytes(Bytes& out, const void* from, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(from);
  out.insert(out.end(), first, first + bytes);
}

inline float put_scale(Bytes& out, float value) {
  const std::uint16_t half = kernels::float_to_half(value);
  put_bytes(out, &half, sizeof half);
  return kernels::half_to_float(half);
}

inline int nearest(float value, float unit, int low, int high) {
  return unit == 0.0F ? 0 : std::clamp(static_cast<int>(std::lrint(value / unit)), low, high);
}

inline float largest(Floats values) {
  float most = 0.0F;
  for (const float v : values) most = std::fabs(v) > std::fabs(most) ? v : most;
  return most;
}

inline void put_q8_0(Floats x, Bytes& out) {
  const float d = put_scale(out, std::fabs(largest(x)) / 127.0F);
  for (const float v : x) out.push_back(static_cast<std::byte>(nearest(v, d, -127, 127)));
}

inline void put_q4_0(Floats x, Bytes& out) {
  const float d = put_scale(out, largest(x) / -8.0F);
  for (std::size_t i = 0; i < 16; ++i) {
    const int low = nearest(x[i], d, -8, 7) + 8;
    const int high = nearest(x[i + 16], d, -8, 7) + 8;
    out.push_back(static_cast<std::byte>(low | high << 4));
  }
}

inline void put_q4_k(Floats x, Bytes& out) {
  std::array<float, 8> scales{};
  std::array<float, 8> minimums{};
  for (std::size_t b = 0; b < 8; ++b) {
    const auto [low, high] = std::minmax_element(x.begin() + 32 * b, x.begin() + 32 * (b + 1));
    minimums[b] = std::max(0.0F, -*low);
    scales[b] = (*high + minimums[b]) / 15.0F;
  }
  const float d = put_scale(out, largest(scales) / 63.0F);
  const float m = put_scale(out, largest(minimums) / 63.0F);
  std::array<int, 8> s{};
  std::array<int, 8> t{};
  std::array<int, 12> packed{};
  for (std::size_t b = 0; b < 8; ++b) {
    s[b] = nearest(scales[b], d, 0, 63);
    t[b] = nearest(minimums[b], m, 0, 63);
    if (b < 4) {
      packed[b] |= s[b];
      packed[b + 4] |= t[b];
    } else {
      packed[b + 4] = (s[b] & 15) | (t[b] & 15) << 4;
      packed[b - 4] |= s[b] >> 4 << 6;
      packed[b] |= t[b] >> 4 << 6;
    }
  }
  for (const int p : packed) out.push_back(static_cast<std::byte>(p));
  const auto quant = [&](std::size_t b, std::size_t i) {
    const auto unit = d * static_cast<float>(s[b]);
    return nearest(x[32 * b + i] + m * static_cast<float>(t[b]), unit, 0, 15);
  };
  for (std::size_t b = 0; b < 8; b += 2) {
    for (std::size_t i = 0; i < 32; ++i) {
      out.push_back(static_cast<std::byte>(quant(b, i) | quant(b + 1, i) << 4));
    }
  }
}

inline void put_q6_k(Floats x, Bytes& out) {
  std::array<float, 16> scales{};
  for (std::size_t e = 0; e < 16; ++e) scales[e] = largest(x.subspan(16 * e, 16)) / -32.0F;
  const float d = kernels::half_to_float(kernels::float_to_half(largest(scales) / -128.0F));
  std::array<int, 16> s{};
  std::array<int, 256> q{};
  for (std::size_t i = 0; i < 256; ++i) {
    s[i / 16] = nearest(scales[i / 16], d, -128, 127);
    q[i] = nearest(x[i], d * static_cast<float>(s[i / 16]), -32, 31) + 32;
  }
  const auto at = [&](std::size_t half, std::size_t quarter, std::size_t i) {
    return q[128 * half + 32 * quarter + i];
  };
  for (std::size_t h = 0; h < 2; ++h) {
    for (std::size_t i = 0; i < 64; ++i) {
      const int low = at(h, i / 32, i % 32) & 15;
      out.push_back(static_cast<std::byte>(low | (at(h, 2 + i / 32, i % 32) & 15) << 4));
    }
  }
  for (std::size_t h = 0; h < 2; ++h) {
    for (std::size_t i = 0; i < 32; ++i) {
      int high = 0;
      for (std::size_t k = 0; k < 4; ++k) high |= at(h, k, i) >> 4 << (2 * k);
      out.push_back(static_cast<std::byte>(high));
    }
  }
  for (const int each : s) out.push_back(static_cast<std::byte>(each));
  put_scale(out, d);
}

// Rows of weights as a file has them, of one of the types above or F16.
inline Bytes normal_weights(kernels::WeightType type, std::uint32_t rows, std::uint32_t cols) {
  using kernels::WeightType;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  const std::size_t columns = kernels::PackedMatrix::file_block_columns(type);
  std::vector<float> x(columns);
  Bytes out;
  for (std::size_t i = 0; i < std::size_t{rows} * cols / columns; ++i) {
    for (float& v : x) v = normal(random);
    switch (type) {
      case WeightType::kQ8_0: put_q8_0(x, out); break;
      case WeightType::kQ4_0: put_q4_0(x, out); break;
      case WeightType::kQ4_K: put_q4_k(x, out); break;
      case WeightType::kQ6_K: put_q6_k(x, out); break;
      default:
        for (const float v : x) put_scale(out, v);
    }
  }
  return out;
}

}  // namespace hearth::gpu
