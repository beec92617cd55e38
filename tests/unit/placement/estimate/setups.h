// A small model and card for the tests of estimates: 8 layers, 1 GB of memory beyond the margin.
#pragma once

#include "placement/estimate/speed.h"

namespace hearth::placement {

inline EstimateInput small_setup(std::uint32_t cards) {
  EstimateInput setup;
  setup.shape.key = "small";
  setup.shape.layers = 8;
  setup.shape.hidden = 1024;
  setup.shape.heads = 8;
  setup.shape.kv_heads = 4;
  setup.shape.head_dim = 128;
  setup.shape.feed_forward = 4096;
  setup.shape.vocabulary = 1000;
  setup.shape.context = 8192;
  setup.card.key = "card";
  setup.card.fp16_flops = 1e14;
  setup.card.int8_flops = 2e14;
  setup.card.memory_bytes = 2.0 * 1024.0 * 1024.0 * 1024.0;
  setup.card.memory_bytes_per_second = 1e11;
  setup.card.link_bytes_per_second = 1e10;
  setup.card.link_seconds = 1e-5;
  setup.card.watts = 200.0;
  setup.card.usd = 500.0;
  setup.card.runs = true;
  setup.network = {"lan", 1.25e8, 1e-4, 10.0, true};
  setup.cards = cards;
  setup.context = 1024;
  return setup;
}

}  // namespace hearth::placement
