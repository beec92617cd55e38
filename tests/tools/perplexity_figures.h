// The figures of a scored text, as llama-perplexity defines them: perplexity, and the divergence
// from the log probabilities that another run gave to the same positions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "tests/tools/logits_base.h"

namespace hearth::cli {

// Of one position; natural logarithms.
struct Score {
  double surprise = 0.0;  // -ln p(next token)
  // Only with a base:
  double base_surprise = 0.0;
  double divergence = 0.0;  // sum over tokens of p_base * ln(p_base / p)
  bool same_top = false;    // both runs give the largest probability to the same token
};

// `base` may be null. kNumeric when the logits are not finite where it matters.
Result<Score> score_position(std::span<const float> logits, TokenId next,
                             const model::LogitsRow* base);

struct Estimate {
  double mean = 0.0;
  double error = 0.0;  // standard error of the mean; 0 for a single value
};

struct Perplexity {
  double value = 0.0;
  double error = 0.0;
};
Perplexity perplexity_of(std::span<const Score> scores);

struct Divergence {
  Estimate mean;
  double median = 0.0;
  double p99 = 0.0;
  double largest = 0.0;
  Perplexity base;      // of the base run
  Estimate log_ratio;   // ln(perplexity / base perplexity)
  double same_top = 0;  // share of the positions
  Estimate p_delta;     // p - p_base of the next token
  double rms_p_delta = 0.0;
};
Divergence divergence_of(std::span<const Score> scores);  // at least one, all with a base

}  // namespace hearth::cli
