// The figures of four public articles on Llama 2 70B on consumer and data-centre GPUs (September
// 2023 to September 2024), each computed from its formula under the article's assumptions, and
// again with the wrong assumptions corrected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "placement/estimate/cost.h"
#include "placement/estimate/figures.h"

namespace hearth::placement {

struct ArticleFigure {
  // kGiven: the article states it, and others are computed from it. kFitted: an assumption was
  // chosen so that it results.
  enum class Kind : std::uint8_t { kComputed, kGiven, kFitted };

  std::string id;    // "pipeline.stage": the part before the first dot is its section
  std::string text;  // what it is
  std::string unit;
  double value = 0.0;  // under the article's assumptions
  std::optional<double> corrected;
  std::string changed;  // why the corrected value differs, or what else to know
  Kind kind = Kind::kComputed;
};

// What the articles and vendors say. `printed_*` as the articles print them.
struct ArticleInputs {
  Card printed_4090, printed_h100;
  Card rtx4090, h100;
  Network roce;    // 200 Gbit/s
  Shape llama70b;  // as it is, with 8 KV heads
  Shape qwen72b;   // the 72B model of the dual-4090 server
  double usd_per_kwh = 0.0;
};

std::vector<ArticleFigure> article_figures(const ArticleInputs& inputs);

// Adam in mixed precision: FP16 weights and gradients; FP32 weights, momentum and variance.
struct Training {
  double weights = 0.0;
  double gradients = 0.0;
  double optimizer = 0.0;
  double activations = 0.0;
  double total() const { return weights + gradients + optimizer + activations; }
};
// tokens * batch * hidden * layers * (10 + 24 / tensor_parallel), by Korthikanti et al., "Reducing
// Activation Recomputation in Large Transformer Models" (2022).
double activation_bytes(double tokens, double batch, double hidden, double layers,
                        double tensor_parallel);
// By Rajbhandari et al., "ZeRO" (2020).
Training training_bytes(double parameters, double activations);
// The fewest cards of `each` bytes that hold `bytes`.
double cards_for(double bytes, double each);

}  // namespace hearth::placement
