// CardForward: the layers of one stage on an NVIDIA card, the same bits as Forward.
//
//   upload stream    tokens, positions, page numbers, angles, the residual that came in
//   compute stream   the layers, and the tokens; the layers of up to kGraphRows rows as one CUDA
//                    graph a shape of step
//   download stream  the residual that leaves, flags, tokens; logits where the host asks for them:
//                    those of some rows while those of the next are computed and threads of the
//                    host read the ones before
//
// A step is queued on all three as it begins, so that while it is computed the next one comes in
// and the one before goes out. One whose logits the host reads is queued up to there: its head
// follows as it is finished, and no other begins before.
//
// After load only the making of a graph takes memory, of the driver's. When a call to the card
// fails, or nothing comes back for longer than the limit, the card is lost (card_context.h);
// whatever is asked of this object afterwards is answered with the same error and no further word
// to the card, not even to free what it holds: the process is to end.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/runtime.h"
#include "kernels/thread_pool.h"
#include "node/engine/card/card_buffers.h"
#include "node/engine/card/card_context.h"
#include "node/engine/card/card_draws.h"
#include "node/engine/card/card_graphs.h"
#include "node/engine/card/card_segments.h"
#include "node/engine/card/card_weights.h"
#include "node/engine/stage_forward.h"
#include "node/engine/watchdog.h"

namespace hearth::node {

class CardForward final : public StageForward {
 public:
  struct Setup {
    std::shared_ptr<CardContext> context;
    model::ModelSpec spec;
    LayerRange layers;
    std::uint32_t batch_rows = 0;
    std::uint32_t kv_pages = 0;
    std::size_t score_floats = kScoreFloats;
    std::unique_ptr<kernels::ThreadPool> pool;  // packs and samples
    std::chrono::milliseconds step_limit{60'000};
    std::function<void(const std::string&)> say;
    CardWeights::Progress progress;
    std::function<bool()> cancelled = {};
  };
  // Bytes of one allocation that holds everything, by what they are for.
  struct Bytes {
    std::uint64_t weights = 0;
    std::uint64_t buffers = 0;
    std::uint64_t kv_page = 0;
    std::uint64_t all(std::uint32_t pages) const { return weights + buffers + kv_page * pages; }
  };
  // Of a stage; the page tables in the buffers grow with kv_pages.
  static Result<Bytes> bytes_of(const model::GgufFile& file, const model::ModelSpec& spec,
                                LayerRange layers, std::uint32_t batch_rows, std::uint32_t kv_pages,
                                std::size_t score_floats);
  // Takes all memory and loads the weights.
  static Result<std::unique_ptr<CardForward>> load(const model::GgufFile& file, Setup setup);
  ~CardForward() override;

  bool may_overlap() const override;
  Status begin(std::span<const ForwardRow> rows, const Outputs& outputs) override;
  bool ready() const override;
  Status finish() override;
  bool failed(std::uint32_t row) const override;
  std::uint16_t* input() override { return held_->host.steps[next_set()].bits; }
  const std::uint16_t* output() const override { return held_->host.steps[finished_].bits; }
  PagePool& pages() override { return pool_of_pages_; }
  const PagePool& pages() const override { return pool_of_pages_; }
  Result<const std::byte*> page(std::uint32_t index, std::uint32_t layer) const override;
  unsigned threads() const override { return setup_.pool->threads(); }
  std::size_t weight_bytes() const override { return weights_.bytes(); }
  Status verify_weights() override;

 private:
  // How far the attention of a step reaches, in pages and rounded up: what a graph is made for.
  struct Reach {
    std::uint32_t all = 0;
    std::uint32_t local = 0;
    std::uint32_t entries = 0;  // page numbers of the step; in no graph
  };
  struct StepEvents {
    kernels::cuda::OwnedEvent uploaded;
    kernels::cuda::OwnedEvent computed;
    kernels::cuda::OwnedEvent received;
  };
  struct Held {
    kernels::cuda::DeviceMemory memory;
    kernels::cuda::OwnedStream upload;
    kernels::cuda::OwnedStream compute;
    kernels::cuda::OwnedStream download;
    StepEvents events[kStepsUnderWay];
    kernels::cuda::OwnedEvent logits_made[2];
    kernels::cuda::OwnedEvent logits_sent[2];
    CardGraphs graphs;
    HostBuffers host;
    kernels::cuda::PinnedMemory digests;  // of the tensors, as a check of the weights finds them
  };

  explicit CardForward(Setup setup);
  Status take_memory(const model::GgufFile& file);
  Status load_weights(const model::GgufFile& file);
  Status clear_memory();
  // Runs `calls` to the card under the watchdog.
  template <typename Calls>
  Status guarded(const Calls& calls, CardContext::Loses loses = CardContext::Loses::kAlways) const;
  std::optional<Error> lost() const { return setup_.context->lost(); }

  struct HeadTile {  // of the sampled rows
    std::uint32_t begin = 0;
    std::uint32_t rows = 0;
    unsigned half = 0;
  };
  // Begun and not finished.
  struct Step {
    std::uint32_t rows = 0;
    // Rows whose token the card draws, then those of them whose logits are wanted too, from
    // logits_from on, then those whose logits alone are.
    std::vector<std::uint32_t> sampled;
    std::uint32_t logits_from = 0;
    CardDraws draws;
    const Outputs* outputs = nullptr;
    bool reads_logits() const { return logits_from < sampled.size(); }
  };

  Status start();
  Status complete();
  void sort_sampled();
  Reach fill_words();
  void fill_angles();
  Status send(std::uint32_t entries);
  Status run_layers(const Reach& reach);
  void say_graphs(std::uint64_t made) const;
  Status all_layers(const Reach& reach);
  Status enter();
  Status layer(std::uint32_t index, const Reach& reach);
  Status attention(std::uint32_t index, const Reach& reach);
  Status store_heads(std::uint32_t index);
  Status attend(std::uint32_t index, const Reach& reach);
  Status attend_rows(kernels::cuda::AttentionRows args, const AttentionSegment& segment);
  Status feed_forward(std::uint32_t index);
  Status close_half(const CardVector& post_norm, std::uint16_t* bits, const CardVector* norm);
  Status norm(const float* x, const CardVector& weight, std::uint32_t rows, std::uint32_t* failed);
  Status multiply(const kernels::cuda::CardMatrix& w, std::uint32_t rows, float* out);
  template <typename Call>
  Status for_tiles(const Call& call);
  Status draw_tokens();
  Status read_logits();
  Status compute_logits(const HeadTile& tile);
  Status send_logits(const HeadTile& tile);
  Status draw(const HeadTile& tile, std::uint32_t rows);
  Status receive();
  Status hand_on(const HeadTile& tile);
  void hand_on_tokens(std::uint32_t begin, std::uint32_t end);
  // Of a tile's rows, those in front of row `count` of the sampled ones.
  static std::uint32_t before(const HeadTile& tile, std::uint32_t count) {
    return std::clamp(count, tile.begin, tile.begin + tile.rows) - tile.begin;
  }
  kernels::QuantizedRows quant(std::uint32_t rows, std::uint32_t cols) const;
  // Of steps_: the lowest that is free.
  std::uint32_t next_set() const {
    return under_way_ == 0 ? 0 : (oldest_ + under_way_) % kStepsUnderWay;
  }
  Step& step() { return steps_[set_]; }
  std::uint32_t rows() const { return steps_[set_].rows; }
  const StepArrays& card() const { return buffers_.steps[set_]; }
  const StepArrays& host() const { return held_->host.steps[set_]; }
  const StepEvents& events() const { return held_->events[set_]; }
  kernels::cuda::Stream compute() const { return held_->compute.get(); }
  StepWords card_words() const { return StepWords::at(card().words, setup_.batch_rows); }

  const Setup setup_;
  const model::ModelSpec& spec_;
  const CardShape shape_;
  std::vector<double> frequencies_;
  std::vector<double> local_frequencies_;
  std::optional<std::uint32_t> local_layer_;  // one of the stage's, where it has any
  PagePool pool_of_pages_;
  std::unique_ptr<Held> held_;
  CardWeights weights_;
  CardBuffers buffers_;
  std::uint64_t* digests_ = nullptr;
  std::byte* kv_ = nullptr;
  std::size_t kv_layer_bytes_ = 0;

  mutable Watchdog watchdog_;

  std::array<Step, kStepsUnderWay> steps_;  // from oldest_ on, as many as are under way
  std::uint32_t oldest_ = 0;
  std::uint32_t under_way_ = 0;
  std::uint32_t finished_ = 0;  // which of them was last

  // Of the half step that runs.
  std::uint32_t set_ = 0;             // which of steps_
  std::span<const ForwardRow> rows_;  // of one that begins, as the rest
  std::vector<AttentionSegment> segments_;
  std::vector<std::uint32_t> undrawn_;  // the last part of the sampled rows, while they are sorted
};

}  // namespace hearth::node
