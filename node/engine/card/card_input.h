// CardInput: what a step sends to the GPU. It fills the step's pinned arrays with tokens,
// positions, page numbers and angles, and queues their copies on the upload stream. The pages that
// the step's attention reaches decide the shape of the step.
//
// One step at a time: send() copies what the last fill() prepared. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/thread_pool.h"
#include "node/engine/card/card_stage.h"
#include "node/engine/stage_forward.h"

namespace hearth::node {

// How far the attention of a step reaches, in pages and rounded up. A CUDA graph is made for one
// reach.
struct StepReach {
  std::uint32_t all = 0;    // in layers that see every position
  std::uint32_t local = 0;  // in local layers
};

class CardInput {
 public:
  // `pool` computes the angles. `stage` and `pool` outlive the input.
  CardInput(const CardStage& stage, kernels::ThreadPool& pool);

  // Fills the pinned arrays of step `set`; no copy reads them any more. `sampled` are the rows
  // whose logits the head computes.
  StepReach fill(std::uint32_t set, std::span<const ForwardRow> rows,
                 std::span<const std::uint32_t> sampled);
  Status send() const;

 private:
  StepReach fill_words(std::span<const ForwardRow> rows, std::span<const std::uint32_t> sampled);
  StepReach rounded(const StepReach& reach) const;
  void fill_angles(std::span<const ForwardRow> rows);

  const CardStage& stage_;
  kernels::ThreadPool& pool_;
  std::vector<double> frequencies_;
  std::vector<double> local_frequencies_;
  std::optional<std::uint32_t> local_layer_;  // one of the stage's local layers, if it has any

  // The step that the last fill() prepared.
  std::uint32_t set_ = 0;
  std::uint32_t rows_ = 0;
  std::uint32_t entries_ = 0;  // page numbers
};

}  // namespace hearth::node
