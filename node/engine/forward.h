// Forward: the layers of one stage over the rows of one step, on all threads of a pool. It holds
// the weights and the KV pages of the stage.
//
// Rows of several sequences share every matrix product. The caller of begin() runs the parts of a
// layer one after the other. Each part that is large enough is one parallel loop: products over the
// row groups of all matrices with the same input, attention over (row, kv head), everything else
// over rows.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/bytes.h"
#include "base/ids.h"
#include "kernels/experts.h"
#include "kernels/kernels.h"
#include "kernels/thread_pool.h"
#include "model/spec.h"
#include "node/engine/delta_net.h"
#include "node/engine/kv_cache.h"
#include "node/engine/latent_attention.h"
#include "node/engine/loops.h"
#include "node/engine/ranks/rank_rows.h"
#include "node/engine/stage_forward.h"
#include "node/engine/weights.h"

namespace hearth::node {

struct EngineOptions;

// The input that each layer of some models has beside the residual (CANONICAL.md, "gemma4"): made
// of a row's residual behind the embedding and of its token's row in a table.
class LayerInputs {
 public:
  using Fail = std::function<void(std::uint32_t row)>;
  // For steps of at most `rows` rows. `fail` is called for each row with a value that is not
  // finite. What it is given outlives it.
  LayerInputs(const model::ModelSpec& spec, const StageWeights& weights,
              const kernels::Kernels& kernels, const Loops& loops, std::uint32_t rows, Fail fail);

  // Makes the inputs of all layers from the residuals x (rows, hidden). `scratch` (rows, hidden) is
  // overwritten.
  void make(std::span<const ForwardRow> rows, const float* x,
            const kernels::QuantizedRows& scratch);
  // What a layer makes of its input and the residual, (rows, hidden).
  void compute(const LayerWeights& weights, std::uint32_t layer,
               const kernels::QuantizedRows& residual, std::uint32_t rows, float* delta);

  // Of its buffers, for each row of a batch.
  static std::uint64_t row_bytes(const model::ModelSpec& spec);

 private:
  const model::ModelSpec& spec_;
  const StageWeights& weights_;
  const kernels::Kernels& kernels_;
  const Loops& loops_;
  const std::size_t all_;        // values of a row
  AlignedBuffer<float> values_;  // (rows, layers, layer_input)
  AlignedBuffer<float> table_;   // likewise: their part from the table
  AlignedBuffer<float> gate_;    // (rows, layer_input); of the layer under way, as the next one
  QuantBuffer middle_;           // (rows, layer_input)
  const Fail fail_;
};

// The inputs of products and the additions to the residual where a group computes the stage: a rank
// computes its part, and the group puts the whole together. Without a group the part is the whole.
class RankParts {
 public:
  // For steps of at most `rows` rows. `own` is the model narrowed to this rank; it and `group`,
  // which may be null, outlive this, as do the buffers of the whole.
  RankParts(const model::ModelSpec& whole, const model::ModelSpec& own, const RankGroup* group,
            std::uint32_t rows, bool has_head, const QuantBuffer& inputs,
            const AlignedBuffer<float>& delta, RankRows::Failures failures);

  bool grouped() const { return rows_ != nullptr; }
  bool leads() const { return !grouped() || rows_->leads(); }
  IndexRange tokens() const;  // of the embedding and the head
  IndexRange values() const;  // of the residual
  // Where `width` columns of a product's next input are quantised; join() makes the input of them,
  // join_pairs() that of the experts' second product.
  kernels::QuantizedRows part(std::uint32_t rows, std::uint32_t width) const;
  using Ranges = const RankRows::Ranges& (RankRows::*)() const;
  Result<kernels::QuantizedRows> join(const kernels::QuantizedRows& part, Ranges ranges);
  Result<kernels::QuantizedRows> join_pairs(const kernels::QuantizedRows& part,
                                            const RankRows::Failures& failures);
  // Whether join_delta() follows attn_output, which else is whole here.
  bool divides_attention_output() const;
  // The additions that products here give, (rows, values()); join_delta() makes the whole of them.
  float* delta() const { return grouped() ? own_delta_.data() : delta_.data(); }
  Status join_delta(std::uint32_t rows);
  // Rounded residuals, (rows, hidden): of embeddings, and of values() at a layer's end.
  Status join_embeddings(std::span<const ForwardRow> rows, std::uint16_t* bits);
  Status join_residuals(std::uint32_t rows, std::uint16_t* bits);
  // Logits of tokens(); gather_logits() makes rank 0's `all` of them.
  float* logits(const AlignedBuffer<float>& all) const {
    return (grouped() ? logits_ : all).data();
  }
  Status gather_logits(std::uint32_t rows, float* all);

 private:
  const model::ModelSpec& own_;
  const QuantBuffer& inputs_;
  const AlignedBuffer<float>& delta_;
  const RankRows::Failures failures_;
  std::unique_ptr<RankRows> rows_;     // null without a group, and what follows empty
  QuantBuffer part_;                   // (rows, its heads or columns)
  QuantBuffer pairs_;                  // (pairs, columns of all ranks)
  AlignedBuffer<float> own_delta_;     // (rows, its values)
  AlignedBuffer<float> logits_;        // (kHeadRows, its tokens)
  std::vector<std::uint32_t> tokens_;  // of the rows
};

class Forward final : public StageForward {
 public:
  struct Setup {
    model::ModelSpec spec;  // of a rank: narrowed to its share
    StageWeights weights;
    const kernels::Kernels* kernels = nullptr;
    KvCache cache;
    std::unique_ptr<kernels::ThreadPool> pool;
    LayerRange layers;
    std::uint32_t batch_rows = 0;
    std::uint32_t states = 0;  // of sequences, where layers of the stage keep them
    // Of a rank; it outlives this. Null: the stage is computed here alone.
    const RankGroup* group = nullptr;
    const model::ModelSpec* whole = nullptr;  // the model of all ranks; during the call alone
  };

  // Takes all memory that steps will need. Throws std::bad_alloc.
  explicit Forward(Setup setup);

  // A step is computed as it begins.
  bool may_overlap() const override { return false; }
  Status begin(std::span<const ForwardRow> rows, const Outputs& outputs) override;
  bool ready() const override { return true; }
  Status finish() override { return ok_status(); }
  bool failed(std::uint32_t row) const override {
    return failed_[row].load(std::memory_order_relaxed);
  }
  std::uint16_t* input() override { return bits_.data(); }
  const std::uint16_t* output() const override { return bits_.data(); }
  PagePool& pages() override { return setup_.cache; }
  const PagePool& pages() const override { return setup_.cache; }
  Result<const std::byte*> page(std::uint32_t index, std::uint32_t layer) const override {
    return setup_.cache.page(index, layer);
  }
  StatePool* states() override { return delta_net_ ? &delta_net_->states() : nullptr; }
  ByteSpan state(std::uint32_t state, std::uint32_t layer) const override {
    return delta_net_->state(state, layer);
  }
  unsigned threads() const override { return pool_.threads(); }
  std::size_t weight_bytes() const override { return setup_.weights.bytes(); }
  Status verify_weights() override;

 private:
  using Activate = decltype(&kernels::Kernels::swiglu_quantize);

  struct Scratch {  // of one thread
    AlignedBuffer<float> attention;
    std::vector<const std::byte*> pages;
  };
  // Frequencies of the pairs of a head, and their cosines and sines at the position of each row.
  struct Angles {
    std::vector<double> frequencies;
    double magnitude = 1.0;
    std::uint32_t width = 0;       // of a head
    AlignedBuffer<float> cos_sin;  // (rows, width)
    const float* of(std::uint32_t row) const { return cos_sin.data() + std::size_t{row} * width; }
  };
  struct Expert {  // its part of a layer's matrices
    kernels::PackedMatrix gate;
    kernels::PackedMatrix up;
    kernels::PackedMatrix down;
  };
  // Buffers of a layer with experts beside gate_ and up_. A pair is a row and an expert that it
  // uses.
  struct Mixture {
    Mixture(const model::ModelSpec& spec, const StageWeights& weights, std::uint32_t rows);
    std::vector<std::vector<Expert>> experts;  // of each layer; none in one without
    std::vector<std::vector<float>> norms;     // of each layer's router; empty where it has none
    kernels::ExpertGroups groups;              // of the layer under way
    AlignedBuffer<float> logits;               // (rows, experts)
    QuantBuffer gathered;                      // (pairs, hidden)
    QuantBuffer middle;                        // (pairs, feed_forward)
    AlignedBuffer<float> out;                  // (pairs, hidden)
    AlignedBuffer<float> shared_logits;        // (rows); of the shared expert, as all below
    AlignedBuffer<float> shared_gate;          // (rows, shared_feed_forward)
    AlignedBuffer<float> shared_up;            // (rows, shared_feed_forward)
    QuantBuffer shared_middle;                 // (rows, shared_feed_forward)
    AlignedBuffer<float> shared_out;           // (rows, hidden)
    std::vector<Loops::RowsProduct> products;  // of the loop under way
  };

  void take_attention();  // the memory of attention over keys and values
  void take_feed_forward();
  void enter(std::uint32_t row);
  // `index` counts from the stage's first layer, here and below.
  Status layer(std::uint32_t index);
  // What attention adds to the residual, or what stands in its place.
  Status mix_positions(const LayerWeights& weights, std::uint32_t index);
  void attention(const LayerWeights& weights, std::uint32_t index);  // writes mixed_
  Status feed_forward(const LayerWeights& weights, std::uint32_t width);
  // The same as feed_forward() for a layer with experts: chooses each row's experts, computes them
  // with the rows grouped by expert, and adds the results.
  Status mix_experts(const LayerWeights& weights, std::uint32_t index);
  void choose_experts(const LayerWeights& weights, std::uint32_t row);
  Status compute_experts(const LayerWeights& weights, std::uint32_t index);
  void compute_shared_expert(const LayerWeights& weights);
  // For a layer with a feed-forward beside its experts; each has norms of its own.
  Status mix_beside(const LayerWeights& weights, std::uint32_t index);
  // Writes the sum of each row's experts to the addition to the residual.
  void add_all_experts(const LayerWeights& weights);
  // Columns [begin, end) of that of a row.
  void add_experts(const LayerWeights& weights, std::uint32_t row, std::uint32_t begin,
                   std::uint32_t end);
  Status head(const OnLogits& on_logits);
  // Biases, norms and angles of a row's heads, and its keys and values into the cache.
  void store_heads(std::uint32_t row, const LayerWeights& weights, std::uint32_t index);
  // Norms each head in place, or all as one row.
  void norm_heads(std::uint32_t row, float* x, std::uint32_t heads, std::uint32_t head_dim,
                  const std::vector<float>& weight);
  void turn_heads(float* x, std::uint32_t heads, std::uint32_t head_dim, const float* cos_sin);
  void attend(std::uint32_t row, std::uint32_t kv_head, std::uint32_t index, Scratch& scratch);
  // Adds entry `at` of the biases of length n to x (n); does nothing without biases.
  void add_bias(float* x, const std::vector<float>& biases, std::size_t at, std::uint32_t n) {
    if (!biases.empty()) kernels_.add(x, biases.data() + at * n, n);
  }
  // Adds `deltas` (rows, those values), normed where post_norm is not empty, to some values of the
  // residual of `row`; of a norm to all.
  void add_delta(std::uint32_t row, float* deltas, const IndexRange& values,
                 const std::vector<float>& post_norm);
  // These values of the residual as they leave a layer.
  void close_layer(std::uint32_t row, const IndexRange& values);
  // Row `t` of `out` from the residual of `row`, normed where `weight` is not empty.
  void norm(std::uint32_t row, const std::vector<float>& weight, const kernels::QuantizedRows& out,
            std::uint32_t t);
  void fail(std::uint32_t row) { failed_[row].store(true, std::memory_order_relaxed); }

  std::uint32_t rows() const { return static_cast<std::uint32_t>(rows_.size()); }

  Setup setup_;
  std::vector<std::uint64_t> digests_;  // of the weights as loaded
  const model::ModelSpec& spec_;
  const kernels::Kernels& kernels_;
  kernels::ThreadPool& pool_;
  const Loops loops_;
  const float embedding_scale_;
  const float score_scale_;  // of layers whose scores do not grow with the position
  // The feed-forward's activation; a pointer to a member, since the table is read at every call.
  const Activate activate_;

  AlignedBuffer<std::uint16_t> bits_;  // the residual as it enters and leaves
  AlignedBuffer<float> x_;
  AlignedBuffer<float> score_scales_;  // (rows), of layers whose scores grow
  Angles angles_;
  Angles local_angles_;         // of the local layers; empty in a stage without one
  std::vector<float> ones_;     // weights of norms that have none; empty without such norms
  AlignedBuffer<float> gated_;  // (rows, heads, 2, head_dim): queries and their gates
  AlignedBuffer<float> attention_gate_;  // (rows, heads * head_dim); both empty without a gate
  AlignedBuffer<float> query_;
  AlignedBuffer<float> key_;
  AlignedBuffer<float> value_;
  AlignedBuffer<float> mixed_;  // attention's output
  AlignedBuffer<float> gate_;
  AlignedBuffer<float> up_;
  AlignedBuffer<float> delta_;               // the next addition to the residual
  AlignedBuffer<float> logits_;              // (kHeadRows, vocabulary)
  QuantBuffer quant_;                        // the next product's input
  std::unique_ptr<RankParts> parts_;         // of quant_ and delta_
  std::unique_ptr<Mixture> mixture_;         // null in a model without experts
  std::unique_ptr<LatentAttention> latent_;  // null where keys and values are kept
  std::unique_ptr<DeltaNet> delta_net_;      // null where no layer of the stage has one
  std::unique_ptr<LayerInputs> inputs_;      // null where layers have no inputs of their own
  std::vector<Scratch> scratch_;
  std::unique_ptr<std::atomic<bool>[]> failed_;

  // The step under way.
  std::span<const ForwardRow> rows_;
  std::vector<std::uint32_t> sampled_;
};

// Checks that the memory holds the stage, and loads it on the processor or on the options' device.
// `own` is `spec`, or what is left of it for a rank.
Result<std::unique_ptr<StageForward>> load_forward(const model::GgufFile& file,
                                                   const model::ModelSpec& spec,
                                                   const model::ModelSpec& own,
                                                   const EngineOptions& options);

}  // namespace hearth::node
