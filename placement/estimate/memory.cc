#include "placement/estimate/memory.h"

namespace hearth::placement {
namespace {

constexpr double kFp32Bytes = 4.0;
constexpr double kKeyScaleValues = 32.0;

}  // namespace

double weight_bytes(double parameters, double bits) { return parameters * bits / 8.0; }

double kv_bytes_int8(const Shape& shape) {
  const double keys = shape.head_dim + shape.head_dim / kKeyScaleValues * kFp32Bytes;
  const double values = shape.head_dim + kFp32Bytes;
  return shape.kv_heads * (keys + values);
}

}  // namespace hearth::placement
