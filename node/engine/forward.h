// Forward: the layers of one stage over the rows of one step, on all threads of a team.
//
// Rows of several sequences share every matrix product. Products are split over threads by output
// rows, attention by (row, kv head), everything else by row. A step of one row is computed the
// other way round: each thread repeats the cheap row operations on a copy of its own, which costs
// less than waiting for another one to do them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "kernels/kernels.h"
#include "model/spec.h"
#include "node/engine/aligned_buffer.h"
#include "node/engine/kv_cache.h"
#include "node/engine/team.h"
#include "node/engine/weights.h"

namespace hearth::node {

struct ForwardRow {
  TokenId token = 0;
  Position position = 0;
  const BlockTable* pages = nullptr;  // holds at least position + 1 positions
  bool sample = false;
};

// Memory for quantised rows.
class QuantBuffer {
 public:
  QuantBuffer() = default;
  QuantBuffer(std::uint32_t rows, std::uint32_t most_cols);
  kernels::QuantizedRows view(std::uint32_t rows, std::uint32_t cols) const;

 private:
  AlignedBuffer<std::int8_t> values_;
  AlignedBuffer<float> scales_;
  AlignedBuffer<float> sums_;
  AlignedBuffer<std::int32_t> block_sums_;
  AlignedBuffer<std::int32_t> exponents_;
};

class Forward {
 public:
  struct Setup {
    const model::ModelSpec* spec = nullptr;
    const StageWeights* weights = nullptr;
    const kernels::Kernels* kernels = nullptr;
    KvCache* cache = nullptr;
    Team* team = nullptr;
    LayerRange layers;
    std::uint32_t batch_rows = 0;
  };
  // Logits of row `row`, on the member `member` of the team.
  using Sampler =
      std::function<void(std::uint32_t row, std::uint32_t member, std::span<const float> logits)>;

  // Takes all memory that steps will need. Throws std::bad_alloc.
  explicit Forward(const Setup& setup);

  // `bits`: rows x hidden, the residual; read, unless this is the first stage, and rewritten.
  void run(std::span<const ForwardRow> rows, std::uint16_t* bits, const Sampler& sampler);
  // Of the last run: the row left the numeric range, and what was computed for it means nothing.
  bool failed(std::uint32_t row) const { return failed_[row].load(std::memory_order_relaxed); }

 private:
  // What one thread works on: its own copy of everything for a step of one row, else the memory
  // that all share, of which it fills rows [begin, end).
  struct Lane {
    std::uint32_t member = 0;
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    bool replicated = false;
    float* x = nullptr;             // (rows, hidden)
    std::uint16_t* bits = nullptr;  // (rows, hidden)
    float* cos_sin = nullptr;       // (rows, head_dim)
    const QuantBuffer* quant = nullptr;
  };
  struct Private {
    AlignedBuffer<float> x;
    AlignedBuffer<std::uint16_t> bits;
    AlignedBuffer<float> cos_sin;
    QuantBuffer quant;
    AlignedBuffer<float> attention;
    std::vector<const std::byte*> pages;
  };

  Lane lane_of(std::uint32_t member);
  void work(std::uint32_t member);
  void enter(const Lane& lane);
  void layer(const Lane& lane, std::uint32_t index);
  void attention(const Lane& lane, const LayerWeights& weights, std::uint32_t index);
  void feed_forward(const Lane& lane, const LayerWeights& weights);
  void head(const Lane& lane);
  void rotate_and_store(const Lane& lane, std::uint32_t row, std::uint32_t kv_head,
                        const LayerWeights& weights, std::uint32_t index);
  void attend(const Lane& lane, std::uint32_t row, std::uint32_t kv_head, std::uint32_t index);
  // Rows are complete: waits for the others, unless everybody has his own copy.
  void meet(const Lane& lane);
  void fail(std::uint32_t row) { failed_[row].store(true, std::memory_order_relaxed); }

  struct Product {
    const kernels::PackedMatrix* matrix;
    float* out;
  };
  // Several products of the same rows, as one piece of work split over the team.
  void multiply(const Lane& lane, const kernels::QuantizedRows& x,
                std::initializer_list<Product> products);

  const Setup setup_;
  const model::ModelSpec& spec_;
  const kernels::Kernels& kernels_;
  const std::uint32_t wide_;    // heads * head_dim
  const std::uint32_t narrow_;  // kv_heads * head_dim
  const std::vector<double> frequencies_;
  float score_scale_ = 0.0F;
  float embedding_scale_ = 1.0F;

  AlignedBuffer<float> x_;
  AlignedBuffer<float> cos_sin_;
  AlignedBuffer<float> query_;
  AlignedBuffer<float> key_;
  AlignedBuffer<float> value_;
  AlignedBuffer<float> mixed_;  // what attention gives
  AlignedBuffer<float> gate_;
  AlignedBuffer<float> up_;
  AlignedBuffer<float> delta_;   // what is added to the residual
  AlignedBuffer<float> logits_;  // (kHeadRows, vocabulary)
  QuantBuffer quant_;
  std::vector<Private> private_;
  std::unique_ptr<std::atomic<bool>[]> failed_;

  // Of the run under way.
  std::span<const ForwardRow> rows_;
  std::uint16_t* bits_ = nullptr;
  const Sampler* sampler_ = nullptr;
  std::vector<std::uint32_t> sampled_;
};

}  // namespace hearth::node
