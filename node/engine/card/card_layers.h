// CardLayers: the layers of a step, as kernels on the compute stream of a GPU, in the order of
// Forward. A decode step of up to 64 rows runs as a CUDA graph, one for each shape of step.
//
// One step is queued at a time, and run() returns as soon as it is queued. After load only the
// making of a graph takes memory, and the driver takes it. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/cuda/attention.h"
#include "node/engine/card/card_graphs.h"
#include "node/engine/card/card_input.h"
#include "node/engine/card/card_stage.h"
#include "node/engine/stage_forward.h"

namespace hearth::node {

// Rows of a step that attend together.
struct AttentionSegment {
  std::uint32_t begin = 0;
  std::uint32_t rows = 0;
  bool prompt = false;  // rows of one sequence, for cuda::attention_prompt; else cuda::attention
};

// The segments of a step, in order; neighbours that decode are one. `group`: query heads a kv head.
void attention_segments(std::span<const ForwardRow> rows, std::uint32_t group,
                        std::vector<AttentionSegment>& segments);

class CardLayers {
 public:
  // `say`, if not empty, gets a line now and then about the memory that graphs take. `stage`
  // outlives the layers.
  CardLayers(const CardStage& stage, std::function<void(const std::string&)> say);

  // Queues the layers of the step whose input is in the arrays `set`. `reach` is what
  // CardInput::fill() returned for the same rows.
  Status run(std::uint32_t set, std::span<const ForwardRow> rows, const StepReach& reach);

 private:
  void say_graphs(std::uint64_t made) const;
  Status all_layers() const;
  Status enter() const;
  Status layer(std::uint32_t index) const;
  Status attention(std::uint32_t index) const;
  Status store_heads(std::uint32_t index) const;
  Status attend(std::uint32_t index) const;
  Status attend_rows(kernels::cuda::AttentionRows args, const AttentionSegment& segment) const;
  Status feed_forward(std::uint32_t index) const;
  Status close_half(const CardVector& post_norm, std::uint16_t* bits, const CardVector* norm) const;
  const model::ModelSpec& spec() const { return stage_.spec(); }
  const CardBuffers& buffers() const { return stage_.buffers(); }
  const StepArrays& card() const { return stage_.card(set_); }

  const CardStage& stage_;
  const std::function<void(const std::string&)> say_;
  CardGraphs graphs_;

  // The step that is queued.
  std::uint32_t set_ = 0;  // which step arrays
  std::uint32_t rows_ = 0;
  StepReach reach_;
  std::vector<AttentionSegment> segments_;
};

}  // namespace hearth::node
