#include "placement/estimate/figures.h"

#include <cmath>

#include "base/check.h"

namespace hearth::placement {
namespace {

constexpr double kMatricesOfGatedFeedForward = 3.0;  // gate, up, down

double expert_parameters(const Shape& shape) {
  return kMatricesOfGatedFeedForward * shape.hidden * shape.feed_forward;
}

// What each row uses of a layer, whatever its experts.
double common_parameters(const Shape& shape) {
  const double shared = kMatricesOfGatedFeedForward * shape.hidden * shape.shared_feed_forward;
  const double router = double{1.0} * shape.hidden * shape.experts;
  return attention_parameters(shape) + shared + router;
}

}  // namespace

double attention_parameters(const Shape& shape) {
  const double queries = double{1.0} * shape.heads * shape.head_dim;
  const double keys = double{1.0} * shape.kv_heads * shape.head_dim;
  return shape.hidden * (2.0 * queries + 2.0 * keys);
}

double layer_parameters(const Shape& shape) {
  const double copies = shape.experts == 0 ? 1.0 : shape.experts;
  return common_parameters(shape) + copies * expert_parameters(shape);
}

// Of E experts, B rows that choose k each at random touch E * (1 - (1 - k/E)^B).
double layer_parameters_read(const Shape& shape, double rows) {
  INVARIANT(rows >= 1.0, "a step has a row");
  if (shape.experts == 0) return layer_parameters(shape);
  INVARIANT(shape.experts_used <= shape.experts, "a row uses some of the experts");
  const double missed = std::pow(1.0 - double{1.0} * shape.experts_used / shape.experts, rows);
  return common_parameters(shape) + shape.experts * (1.0 - missed) * expert_parameters(shape);
}

double layer_parameters_used(const Shape& shape) {
  const double copies = shape.experts == 0 ? 1.0 : shape.experts_used;
  return common_parameters(shape) + copies * expert_parameters(shape);
}

double head_parameters(const Shape& shape) { return double{1.0} * shape.vocabulary * shape.hidden; }

double parameters(const Shape& shape) {
  return shape.layers * layer_parameters(shape) + (shape.tied ? 1.0 : 2.0) * head_parameters(shape);
}

}  // namespace hearth::placement
