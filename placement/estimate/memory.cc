#include "placement/estimate/memory.h"

#include <cmath>

#include "base/check.h"

namespace hearth::placement {
namespace {

constexpr double kFp16Bytes = 2.0;
constexpr double kFp32Bytes = 4.0;
constexpr double kKeyScaleValues = 32.0;

}  // namespace

double weight_bytes(double parameters, double bits) { return parameters * bits / 8.0; }

double kv_bytes_fp16(std::uint32_t layers, double values) {
  return 2.0 * layers * values * kFp16Bytes;
}

double kv_bytes_int8(const Shape& shape) {
  const double keys = shape.head_dim + shape.head_dim / kKeyScaleValues * kFp32Bytes;
  const double values = shape.head_dim + kFp32Bytes;
  return shape.kv_heads * (keys + values);
}

double activation_bytes(double tokens, double batch, double hidden, double layers,
                        double tensor_parallel) {
  return tokens * batch * hidden * layers * (10.0 + 24.0 / tensor_parallel);
}

Training training_bytes(double parameters, double activations) {
  return {kFp16Bytes * parameters, kFp16Bytes * parameters, 3.0 * kFp32Bytes * parameters,
          activations};
}

double cards_for(double bytes, double each) {
  INVARIANT(each > 0.0, "a card has memory");
  return std::ceil(bytes / each);
}

}  // namespace hearth::placement
