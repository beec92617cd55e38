// The sampler on a card: the same token as CANONICAL.md, "Sampler", for every parameter. Log
// probabilities are not computed here: for them, the caller copies the logits to the host's
// sampler.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "kernels/cuda/stream.h"

namespace hearth::kernels::cuda {

// A token's bias, and how often a sequence has seen a token; each token occurs once.
struct SampleBias {
  std::uint32_t token = 0;  // below the vocabulary
  std::int32_t value = 0;   // 2^-16 units
};
struct SampleSeen {
  std::uint32_t token = 0;  // below the vocabulary
  std::uint32_t generated = 0;
};

// Parameters of one row in the sampler's fixed point, and its parts of the lists.
struct SampleRow {
  std::uint64_t seed = 0;
  std::uint64_t exponent_factor = 0;  // log2(e) / temperature in 2^-32 units; 0: greedy
  std::uint64_t top_p = 0;            // 2^-32 units; 2^32 or more: off
  std::uint64_t min_p = 0;            // of the largest weight, 2^-40 units
  std::uint32_t top_k = 0;            // 0: off
  std::uint32_t position = 0;         // of the new token
  std::int32_t repetition = 1 << 16;  // these three in 2^-16 units
  std::int32_t presence = 0;
  std::int32_t frequency = 0;
  bool penalties = false;  // any of the three: `seen` counts
  std::uint32_t bias_begin = 0;
  std::uint32_t bias_end = 0;
  std::uint32_t excluded_begin = 0;
  std::uint32_t excluded_end = 0;
  std::uint32_t seen_begin = 0;
  std::uint32_t seen_end = 0;
};

enum class SampleOutcome : std::uint32_t {
  kToken = 0,
  kNotFinite = 1,    // a logit is not finite
  kAllExcluded = 2,  // the bias excludes every token
};

// All pointers are to device memory, logits and scratch aligned to 16 bytes. Lists that no row uses
// may be null.
struct SampleBatch {
  std::uint32_t rows = 0;
  std::uint32_t vocabulary = 0;
  const float* logits = nullptr;  // (rows, vocabulary)
  const SampleRow* params = nullptr;
  const SampleBias* bias = nullptr;         // in the order in which they are added
  const std::uint32_t* excluded = nullptr;  // tokens
  const SampleSeen* seen = nullptr;
  std::int32_t* scratch = nullptr;  // (rows, vocabulary), whose contents do not matter
  std::uint32_t* tokens = nullptr;  // (rows); no meaning where the outcome is not kToken
  SampleOutcome* outcomes = nullptr;
};

// kInvalidInput for an empty vocabulary, or one above 2^30.
Status sample(const SampleBatch& batch, Stream stream);

}  // namespace hearth::kernels::cuda
