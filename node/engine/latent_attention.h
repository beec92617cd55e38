// LatentAttention: the attention half of a layer where a position keeps one row for all heads
// (multi-head latent attention of DeepSeek-V2, 2024), in its absorbed form: a query head is
// projected into the space of these rows, attends over them, and the result is projected back. So
// past positions need no storage or work for each head.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/kernels.h"
#include "model/spec.h"
#include "node/engine/kv_cache.h"
#include "node/engine/loops.h"
#include "node/engine/stage_forward.h"
#include "node/engine/weights.h"

namespace hearth::node {

class LatentAttention {
 public:
  struct Step {
    std::span<const ForwardRow> rows;
    const float* cos_sin = nullptr;  // (rows, cos_sin_stride): of each row's position
    std::uint32_t cos_sin_stride = 0;
    const float* score_scales = nullptr;     // (rows)
    std::atomic<bool>* failed = nullptr;     // (rows)
    const kernels::QuantizedRows& residual;  // (rows, hidden), normed
  };

  // Takes all memory that steps will need. Its arguments outlive it.
  LatentAttention(const model::ModelSpec& spec, const std::vector<LayerWeights>& layers,
                  const kernels::Kernels& kernels, const KvCache& cache, const Loops& loops,
                  std::uint32_t batch_rows, unsigned threads);
  // Writes attention's addition to the residual, (rows, hidden), to `delta`. `index` counts from
  // the stage's first layer.
  void compute(const Step& step, std::uint32_t index, float* delta);

  // Bytes of its buffers: for each row of a batch, and for each thread.
  static std::uint64_t row_bytes(const model::ModelSpec& spec);
  static std::uint64_t thread_bytes(const model::ModelSpec& spec);

 private:
  struct Heads {  // of a layer: each head's part of a matrix
    std::vector<kernels::PackedMatrix> keys;
    std::vector<kernels::PackedMatrix> values;
  };
  struct Scratch {  // of one thread
    AlignedBuffer<float> query;
    AlignedBuffer<float> weights;
    std::vector<const std::byte*> pages;
  };

  // Queries and latents of all rows, turned and stored; the queries' plain values quantised.
  void project(const Step& step, std::uint32_t index);
  void store(const Step& step, std::uint32_t row, std::uint32_t index);
  void attend(const Step& step, std::uint32_t row, std::uint32_t head, std::uint32_t index,
              Scratch& scratch);
  // Products of each head's rows of head_quant_ with its own matrix: (heads, rows, ...).
  void multiply_heads(const std::vector<kernels::PackedMatrix>& matrices, std::uint32_t rows,
                      std::uint32_t in, std::uint32_t out_width, float* out);

  const model::ModelSpec& spec_;
  const model::Latent& latent_;
  const std::vector<LayerWeights>& layers_;
  const kernels::Kernels& kernels_;
  const KvCache& cache_;
  const Loops& loops_;
  std::vector<Heads> heads_;

  AlignedBuffer<float> query_down_;  // (rows, query_rank)
  AlignedBuffer<float> query_;       // (rows, heads, head_dim)
  AlignedBuffer<float> rows_;        // (rows, width + turned)
  AlignedBuffer<float> inner_;       // (heads, rows, width): queries, then attention's output
  AlignedBuffer<float> value_;       // (heads, rows, value)
  AlignedBuffer<float> mixed_;       // (rows, heads, value)
  QuantBuffer quant_;                // (rows, query_rank or heads * value)
  QuantBuffer head_quant_;           // (heads, rows, plain or width)
  std::vector<Loops::RowsProduct> products_;
  std::vector<Scratch> scratch_;
};

}  // namespace hearth::node
