// CardForward: the layers of one stage on an NVIDIA GPU, with the same bits as Forward. It owns the
// stage's memory (CardStage) and the three parts of a step (CardInput, CardLayers, CardHead), and
// keeps the order of the steps.
//
//   upload stream    tokens, positions, page numbers, angles, the residual that comes in
//   compute stream   the layers, and the tokens
//   download stream  the residual that leaves, flags, tokens; logits if the host reads them: those
//                    of some rows, while the GPU computes those of the next and threads of the host
//                    read the ones before
//
// begin() queues a step on all three streams. While the GPU computes it, the next step comes in and
// the previous one goes out. A step whose logits the host reads is queued up to its head: finish()
// queues the head, and no other step begins before.
//
// After load only the making of a graph takes memory, and the driver takes it. The GPU is lost
// (card_context.h) when a call to it fails, or when no call returns for longer than step_limit.
// Every later method returns the same error and makes no call to the GPU, not even to free memory:
// the process is to end. One thread at a time.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kernels/cuda/runtime.h"
#include "kernels/thread_pool.h"
#include "node/engine/card/card_context.h"
#include "node/engine/card/card_head.h"
#include "node/engine/card/card_input.h"
#include "node/engine/card/card_layers.h"
#include "node/engine/card/card_stage.h"
#include "node/engine/card/watchdog.h"
#include "node/engine/stage_forward.h"

namespace hearth::node {

class CardForward final : public StageForward {
 public:
  struct Setup {
    std::shared_ptr<CardContext> context;
    model::ModelSpec spec;
    CardShape shape;                            // its spec is the one above
    std::unique_ptr<kernels::ThreadPool> pool;  // packs weights and samples
    std::chrono::milliseconds step_limit = kCardStepLimit;
    std::function<void(const std::string&)> say;
    CardWeights::Progress progress;
    std::function<bool()> cancelled = {};
  };
  // Takes all memory and loads the weights.
  static Result<std::unique_ptr<CardForward>> load(const model::GgufFile& file, Setup setup);
  ~CardForward() override;

  bool may_overlap() const override;
  Status begin(std::span<const ForwardRow> rows, const Outputs& outputs) override;
  bool ready() const override;
  Status finish() override;
  bool failed(std::uint32_t row) const override;
  std::uint16_t* input() override { return stage_.host(next_set()).bits; }
  const std::uint16_t* output() const override { return stage_.host(finished_).bits; }
  PagePool& pages() override { return pool_of_pages_; }
  const PagePool& pages() const override { return pool_of_pages_; }
  Result<const std::byte*> page(std::uint32_t index, std::uint32_t layer) const override;
  // The card computes no family whose sequences keep a state.
  StatePool* states() override { return nullptr; }
  ByteSpan state(std::uint32_t /*state*/, std::uint32_t /*layer*/) const override { return {}; }
  unsigned threads() const override { return setup_.pool->threads(); }
  std::size_t weight_bytes() const override { return stage_.weights().bytes(); }
  Status verify_weights() override;

 private:
  struct StepEvents {
    kernels::cuda::OwnedEvent uploaded;
    kernels::cuda::OwnedEvent computed;
    kernels::cuda::OwnedEvent received;
  };

  explicit CardForward(Setup setup);
  CardShape shape() const;
  Status make_events();
  // Runs `calls` to the GPU under the watchdog.
  template <typename Calls>
  Status guarded(const Calls& calls, CardContext::Loses loses = CardContext::Loses::kAlways) const;
  std::optional<Error> lost() const { return setup_.context->lost(); }

  Status start(std::uint32_t set, std::span<const ForwardRow> rows, const Outputs& outputs);
  Status receive(std::uint32_t set);
  Status complete(std::uint32_t set);
  // The arrays of the step that begins next: those after the steps under way, or the first.
  std::uint32_t next_set() const {
    return under_way_ == 0 ? 0 : (oldest_ + under_way_) % kStepsUnderWay;
  }

  const Setup setup_;
  PagePool pool_of_pages_;
  CardStage stage_;
  CardInput input_;
  CardLayers layers_;
  CardHead head_;
  StepEvents events_[kStepsUnderWay];
  mutable Watchdog watchdog_;

  // Steps by the number of their arrays: from oldest_ on, as many as are under way.
  std::array<std::uint32_t, kStepsUnderWay> rows_{};
  std::array<bool, kStepsUnderWay> embeds_{};  // some row of the step is embedded
  std::uint32_t oldest_ = 0;
  std::uint32_t under_way_ = 0;
  std::uint32_t finished_ = 0;  // the step finished last
};

}  // namespace hearth::node
