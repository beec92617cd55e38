// CardHead: the sampled rows of a step on a GPU. It computes their logits, a tile of rows at a
// time, draws the tokens there, and hands tokens and logits to the step's outputs.
//
// The GPU draws the tokens of a step that the host needs no logits of: draw_tokens() queues all of
// it. read_logits() waits for the GPU and runs the host's part, while the GPU computes the next
// tile. Its callbacks run on the threads of the pool.
//
// A step is known by the number of its arrays, below kStepsUnderWay. One thread at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/cuda/runtime.h"
#include "kernels/thread_pool.h"
#include "node/engine/card/card_draws.h"
#include "node/engine/card/card_stage.h"
#include "node/engine/stage_forward.h"

namespace hearth::node {

class CardHead {
 public:
  // `pool` runs on_logits. `stage` and `pool` outlive the head.
  CardHead(const CardStage& stage, kernels::ThreadPool& pool);
  // At load, once the stage has its memory.
  Status make_events();

  // Begins step `set` and sorts its sampled rows. `outputs` stays until finish().
  void begin(std::uint32_t set, std::span<const ForwardRow> rows,
             const StageForward::Outputs& outputs);
  std::span<const std::uint32_t> sampled(std::uint32_t set) const { return steps_[set].sampled; }
  // The host reads logits of the step, so its head is computed by read_logits() as it is finished.
  bool reads_logits(std::uint32_t set) const { return steps_[set].reads_logits(); }

  // Queues the parameters of the draws on the upload stream.
  Status send(std::uint32_t set) const;
  // One of the two, by reads_logits(), behind the step's layers.
  Status draw_tokens(std::uint32_t set) const;
  Status read_logits(std::uint32_t set) const;
  // Queues on the download stream the failure flags, and the tokens that read_logits() has not
  // sent.
  Status receive(std::uint32_t set) const;
  // Called once the received data is in pinned memory: adds the failure flags to those of the rows,
  // and passes on the tokens that read_logits() has not passed on.
  void finish(std::uint32_t set);

 private:
  // Some of the sampled rows, whose logits are in one half of the buffers.
  struct Tile {
    std::uint32_t begin = 0;
    std::uint32_t rows = 0;
    unsigned half = 0;
  };
  struct Step {
    std::uint32_t set = 0;
    // In three parts: rows whose token the GPU draws; from logits_from on, rows whose token it
    // draws and whose logits the host reads; from draws.count() on, rows whose logits alone the
    // host reads.
    std::vector<std::uint32_t> sampled;
    std::uint32_t logits_from = 0;
    CardDraws draws;
    const StageForward::Outputs* outputs = nullptr;  // null: not under way
    bool reads_logits() const { return logits_from < sampled.size(); }
  };

  template <typename Call>
  Status for_tiles(const Step& of, const Call& call) const;
  Status compute_logits(const Step& of, const Tile& tile) const;
  Status draw(const Step& of, const Tile& tile, std::uint32_t rows) const;
  Status send_logits(const Step& of, const Tile& tile) const;
  Status hand_on(const Step& of, const Tile& tile) const;
  void hand_on_tokens(const Step& of, std::uint32_t begin, std::uint32_t end) const;
  // How many of the tile's rows stand in front of row `count` of the sampled ones.
  static std::uint32_t before(const Tile& tile, std::uint32_t count) {
    return std::clamp(count, tile.begin, tile.begin + tile.rows) - tile.begin;
  }

  const CardStage& stage_;
  kernels::ThreadPool& pool_;
  kernels::cuda::OwnedEvent logits_made_[2];
  kernels::cuda::OwnedEvent logits_sent_[2];
  std::array<Step, kStepsUnderWay> steps_;
  std::vector<std::uint32_t> undrawn_;  // the last part of the sampled rows, while they are sorted
};

}  // namespace hearth::node
