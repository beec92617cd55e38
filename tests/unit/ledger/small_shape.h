// The shape of a stage of a model that is as small as dispute games allow.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "ledger/trace.h"

namespace hearth::testing {

inline ledger::TraceShape small_shape(LayerRange layers, std::uint32_t prompt) {
  ledger::TraceShape shape;
  shape.layer_begin = layers.begin;
  shape.layer_end = layers.end;
  shape.layers = 4;
  shape.hidden = shape.feed_forward = shape.head_dim = 32;
  shape.heads = shape.kv_heads = 1;
  shape.vocabulary = 300;
  shape.prompt = prompt;
  shape.frequencies.assign(16, 1.0);
  shape.local_frequencies.assign(16, 1.0);
  return shape;
}

}  // namespace hearth::testing
