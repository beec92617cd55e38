// CardDraws: the input of a GPU's sampler for the rows of a step, packed in pinned memory.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/sampler.h"
#include "node/engine/sampler.h"

namespace hearth::node {

// Arrays in a card's memory, or at the same sizes in pinned memory.
struct DrawArrays {
  kernels::cuda::SampleRow* rows = nullptr;   // (batch rows)
  kernels::cuda::SampleBias* bias = nullptr;  // these three: all rows, one after the other
  std::uint32_t* excluded = nullptr;
  kernels::cuda::SampleSeen* seen = nullptr;
  std::uint32_t* tokens = nullptr;                   // (batch rows): the answers
  kernels::cuda::SampleOutcome* outcomes = nullptr;  // (batch rows)

  // take(array, count) for each.
  template <typename Take>
  void place(std::uint32_t batch_rows, const Take& take) {
    take(rows, batch_rows);
    take(bias, kBiasMost);
    take(excluded, kBiasMost);
    take(seen, kSeenMost);
    take(tokens, batch_rows);
    take(outcomes, batch_rows);
  }
  // Limit of a step. The processor samples a sequence that needs more.
  static constexpr std::size_t kBiasMost = 16'384;
  static constexpr std::size_t kSeenMost = 131'072;
};

// A row's parameters for the GPU; the caller adds its lists.
kernels::cuda::SampleRow sample_row(const SamplerParams& params, std::uint32_t position);

class CardDraws {
 public:
  // A new step. `host`: pinned, and no longer read by a copy.
  void begin(const DrawArrays& host, std::uint32_t vocabulary);
  // False, without adding anything, when the lists have no room.
  bool add(const DrawRequest& request);
  std::uint32_t count() const { return rows_; }
  Status send(const DrawArrays& card, kernels::cuda::Stream stream) const;

 private:
  DrawArrays host_;
  std::uint32_t vocabulary_ = 0;
  std::uint32_t rows_ = 0;
  std::uint32_t bias_ = 0;
  std::uint32_t excluded_ = 0;
  std::uint32_t seen_ = 0;
};

}  // namespace hearth::node
