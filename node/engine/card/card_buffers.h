// CardBuffers: the working memory of one stage on a card, taken at load, and its counterpart in
// pinned memory. A step's input has fixed addresses, so that a captured graph reads it again in
// every step.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/runtime.h"
#include "kernels/kernels.h"
#include "model/spec.h"
#include "node/engine/card/card_draws.h"
#include "node/engine/card/placement.h"
#include "node/engine/stage_forward.h"

namespace hearth::node {

// Scores that an attention call has room for, unless one row takes more.
inline constexpr std::size_t kScoreFloats = 16 << 20;

// The sizes of a step, which give the buffers' sizes.
struct CardShape {
  const model::ModelSpec* spec = nullptr;
  LayerRange layers;
  std::uint32_t rows = 0;      // of a step at most
  std::uint32_t kv_pages = 0;  // of the pool
  std::size_t score_floats = kScoreFloats;

  bool is_first() const { return layers.begin == 0; }
  bool is_last() const { return layers.end == spec->layers; }
  bool has_local() const;
  std::uint32_t wide() const { return spec->heads * spec->head_dim; }
  std::uint32_t narrow() const { return spec->kv_heads * spec->head_dim; }
  std::uint32_t head_rows() const;  // sampled rows whose logits are computed at once
};

// The words that a step sends, in card memory and, at the same places, in pinned memory. Arrays of
// `rows` words each; the page numbers come last, for only those in use are sent.
struct StepWords {
  static StepWords at(std::uint32_t* words, std::uint32_t rows);
  static std::size_t count(std::uint32_t rows, std::uint32_t pages);

  std::uint32_t* entries = nullptr;  // (1): numbers in `pages`
  std::uint32_t* tokens = nullptr;
  std::uint32_t* slots = nullptr;         // of the position in its page
  std::uint32_t* first = nullptr;         // in `pages`: the sequence's first
  std::uint32_t* own = nullptr;           // in `pages`: the position's own
  std::uint32_t* ends = nullptr;          // one past the position
  std::uint32_t* begins = nullptr;        // first visible position of a layer that sees all
  std::uint32_t* local_begins = nullptr;  // and of a local one
  std::uint32_t* sampled = nullptr;       // rows whose logits are wanted
  std::uint32_t* pages = nullptr;
};

// The arrays that a step copies to and from the GPU, in its memory or, with the same sizes, in
// pinned memory. Each step under way has its own, so one step is copied while another is computed.
struct StepArrays {
  std::uint32_t* words = nullptr;
  float* angles = nullptr;               // (rows, head_dim / 2, 2)
  float* local_angles = nullptr;         // likewise; only in a stage with local layers
  std::uint16_t* bits = nullptr;         // (rows, hidden): the residual as it enters and leaves
  std::uint32_t* failed = nullptr;       // (rows)
  std::uint32_t* head_failed = nullptr;  // (rows): of the sampled ones
  DrawArrays draws;                      // last stage

  // take(array, count) for each.
  template <typename Take>
  void place(const CardShape& shape, const Take& take) {
    const std::size_t rows = shape.rows;
    take(words, StepWords::count(shape.rows, shape.kv_pages));
    take(angles, rows * shape.spec->head_dim);
    take(local_angles, shape.has_local() ? rows * shape.spec->head_dim : 0);
    take(bits, rows * shape.spec->hidden);
    take(failed, rows);
    take(head_failed, rows);
    if (shape.is_last()) draws.place(shape.rows, take);
  }
};

struct CardBuffers {
  static CardBuffers place(const CardShape& shape, Placement& placement);

  StepArrays steps[kStepsUnderWay];
  const std::byte** tables = nullptr;
  const std::byte* const** token_tables = nullptr;
  std::byte** token_pages = nullptr;

  float* x = nullptr;  // (rows, hidden): the residual
  float* query = nullptr;
  float* key = nullptr;
  float* value = nullptr;
  float* mixed = nullptr;
  float* gate = nullptr;
  float* up = nullptr;
  float* delta = nullptr;
  kernels::QuantizedRows quant;          // room for the widest rows
  float* logits[2] = {};                 // (head_rows, vocabulary) each; last stage, as the next
  std::int32_t* draw_scratch = nullptr;  // (head_rows, vocabulary)
  kernels::cuda::ProductSpace product;
  std::size_t product_sums = 0;
  std::size_t product_tickets = 0;
  kernels::cuda::AttentionSpace attention;
  std::size_t score_floats = 0;
  std::size_t attention_state = 0;
};

// Pinned.
struct HostBuffers {
  static Result<HostBuffers> allocate(const CardShape& shape);

  kernels::cuda::PinnedMemory memory;
  StepArrays steps[kStepsUnderWay];
  float* logits[2] = {};
  std::byte* page = nullptr;  // one layer's share of a KV page
};

}  // namespace hearth::node
