// DeltaNet: the layers of a stage that have a gated delta net in place of attention, and the states
// that sequences keep there. The rows of a sequence are taken one after the other, its heads side
// by side; so a step may hold any rows of any sequences.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/bytes.h"
#include "base/ids.h"
#include "kernels/delta_net.h"
#include "kernels/kernels.h"
#include "model/spec.h"
#include "node/engine/kv_cache.h"
#include "node/engine/loops.h"
#include "node/engine/stage_forward.h"
#include "node/engine/weights.h"

namespace hearth::node {

class DeltaNet {
 public:
  struct Step {
    std::span<const ForwardRow> rows;
    std::atomic<bool>* failed = nullptr;     // (rows)
    const kernels::QuantizedRows& residual;  // (rows, hidden), normed
  };

  // Takes all memory that steps will need, for so many sequences at once. What it is given outlives
  // it.
  DeltaNet(const model::ModelSpec& spec, LayerRange range, const std::vector<LayerWeights>& layers,
           const kernels::Kernels& kernels, const Loops& loops, std::uint32_t batch_rows,
           std::uint32_t states);
  // What the layer adds to the residual, (rows, hidden). `index` counts from the stage's first
  // layer.
  void compute(const Step& step, std::uint32_t index, float* delta);

  StatePool& states() { return pool_; }
  // Of a layer, in the order of CANONICAL.md, section 11.
  ByteSpan state(std::uint32_t state, std::uint32_t index) const;

  // Of one sequence in the layers of a range; 0 where none keeps a state.
  static std::uint64_t state_bytes(const model::ModelSpec& spec, LayerRange range);
  // Of its buffers, for each row of a batch.
  static std::uint64_t row_bytes(const model::ModelSpec& spec);

 private:
  struct Run {  // rows [begin, end) of the step are of one sequence
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };

  void find_runs(const Step& step);
  float* state_of(std::uint32_t state, std::uint32_t index) const {
    return states_.data() + (std::size_t{state} * layers_with_ + places_[index]) * state_values_;
  }
  void project(const Step& step, std::uint32_t index);
  // A row's channels, gates and numbers of heads, from the products.
  void sort_row(const Step& step, std::uint32_t row, std::uint32_t index);
  void split_input(std::uint32_t row);
  void convolve(const Step& step, std::uint32_t row, std::uint32_t index);
  void keep_rows(const Step& step, const Run& run, std::uint32_t index);
  void go_on(const Step& step, const Run& run, std::uint32_t head, std::uint32_t index);
  void close_row(const Step& step, std::uint32_t row, std::uint32_t index);
  std::uint32_t key_head(std::uint32_t value_head) const;

  const model::ModelSpec& spec_;
  const kernels::DeltaShape shape_;
  const std::vector<LayerWeights>& layers_;
  const kernels::Kernels& kernels_;
  const Loops& loops_;
  std::vector<std::uint32_t> places_;  // of each layer of the stage, among those with a state
  std::uint32_t layers_with_ = 0;
  std::size_t state_values_ = 0;  // of a state in a layer, in whole cache lines
  StatePool pool_;
  AlignedBuffer<float> states_;  // (states, layers, state_values)

  AlignedBuffer<float> input_;  // (rows, channels + inner): of joint_input, as the file has them
  AlignedBuffer<float> mixed_;  // (rows, channels): before the convolution
  AlignedBuffer<float> heads_;  // (rows, channels): behind it
  AlignedBuffer<float> gate_;   // (rows, inner)
  AlignedBuffer<float>
      beta_;  // (rows, 2 * value_heads): of joint_numbers both, else the first half
  AlignedBuffer<float> alpha_;                    // (rows, value_heads)
  AlignedBuffer<kernels::DeltaNumbers> numbers_;  // (rows, value_heads)
  AlignedBuffer<float> out_;                      // (rows, inner)
  QuantBuffer quant_;                             // (rows, inner)

  // Of the step under way.
  std::vector<Run> runs_;
  std::vector<std::uint32_t> run_of_;  // of each row
};

}  // namespace hearth::node
