#include "node/engine/card/card_head.h"

#include "base/check.h"
#include "kernels/cuda/sampler.h"
#include "kernels/cuda/step.h"

namespace hearth::node {
namespace {

namespace cuda = kernels::cuda;

Result<TokenId> token_of(cuda::SampleOutcome outcome, std::uint32_t token) {
  switch (outcome) {
    case cuda::SampleOutcome::kToken: return static_cast<TokenId>(token);
    case cuda::SampleOutcome::kNotFinite:
      return Error{ErrorCode::kNumeric, "a logit is not finite"};
    case cuda::SampleOutcome::kAllExcluded: break;
  }
  return Error{ErrorCode::kNumeric, "the logit bias excludes every token of the vocabulary"};
}

}  // namespace

CardHead::CardHead(const CardStage& stage, kernels::ThreadPool& pool) : stage_(stage), pool_(pool) {
  for (std::uint32_t set = 0; set < kStepsUnderWay; ++set) {
    steps_[set].set = set;
    steps_[set].sampled.reserve(stage.shape().rows);
  }
  undrawn_.reserve(stage.shape().rows);
}

Status CardHead::make_events() {
  for (cuda::OwnedEvent* event :
       {&logits_made_[0], &logits_made_[1], &logits_sent_[0], &logits_sent_[1]}) {
    TRY(*event, cuda::make_event());
  }
  return ok_status();
}

void CardHead::begin(std::uint32_t set, std::span<const ForwardRow> rows,
                     const StageForward::Outputs& outputs) {
  INVARIANT(set < kStepsUnderWay, "each step under way has its own arrays");
  INVARIANT(rows.size() <= stage_.shape().rows, "the arrays hold the step");
  Step& of = steps_[set];
  INVARIANT(of.outputs == nullptr, "a step is finished before its arrays serve the next");
  of.outputs = &outputs;
  of.sampled.clear();
  undrawn_.clear();
  of.draws.begin(stage_.host(set).draws, stage_.spec().vocabulary);
  for (const bool observed : {false, true}) {
    for (std::uint32_t i = 0; i < rows.size(); ++i) {
      const ForwardRow& row = rows[i];
      if (!row.sample || row.observed != observed) continue;
      const bool drawn = row.draw != nullptr && of.draws.add(*row.draw);
      (drawn ? of.sampled : undrawn_).push_back(i);
    }
    if (!observed) of.logits_from = static_cast<std::uint32_t>(of.sampled.size());
  }
  INVARIANT(of.draws.count() == of.sampled.size(),
            "the drawn rows stand in the order of the draws");
  of.sampled.insert(of.sampled.end(), undrawn_.begin(), undrawn_.end());
}

Status CardHead::send(std::uint32_t set) const {
  return steps_[set].draws.send(stage_.card(set).draws, stage_.upload());
}

Status CardHead::receive(std::uint32_t set) const {
  const Step& of = steps_[set];
  const StepArrays& card = stage_.card(set);
  const StepArrays& host = stage_.host(set);
  const auto copy = [&]<typename T>(T* to, const T* from, std::size_t count) {
    return count == 0 ? ok_status()
                      : cuda::copy_to_host(to, from, count * sizeof(T), stage_.download());
  };
  TRY_VOID(copy(host.head_failed, card.head_failed, of.sampled.size()));
  if (of.reads_logits()) return ok_status();
  TRY_VOID(copy(host.draws.tokens, card.draws.tokens, of.draws.count()));
  return copy(host.draws.outcomes, card.draws.outcomes, of.draws.count());
}

void CardHead::finish(std::uint32_t set) {
  Step& of = steps_[set];
  INVARIANT(of.outputs != nullptr, "a step begins before it is finished");
  const StepArrays& host = stage_.host(set);
  for (std::size_t i = 0; i < of.sampled.size(); ++i) {
    host.failed[of.sampled[i]] |= host.head_failed[i];
  }
  if (!of.reads_logits()) hand_on_tokens(of, 0, of.draws.count());
  of.outputs = nullptr;
}

// Calls with each tile of the sampled rows in turn; the halves of the buffers alternate.
template <typename Call>
Status CardHead::for_tiles(const Step& of, const Call& call) const {
  const auto count = static_cast<std::uint32_t>(of.sampled.size());
  if (count == 0) return ok_status();
  TRY_VOID(cuda::fill_zero(stage_.card(of.set).head_failed, count * sizeof(std::uint32_t),
                           stage_.compute()));
  const std::uint32_t most = stage_.shape().head_rows();
  for (Tile tile; tile.begin < count; tile.begin += most, tile.half ^= 1) {
    tile.rows = std::min(most, count - tile.begin);
    TRY_VOID(call(tile));
  }
  return ok_status();
}

Status CardHead::draw_tokens(std::uint32_t set) const {
  const Step& of = steps_[set];
  INVARIANT(of.outputs != nullptr && !of.reads_logits(), "the GPU draws all tokens of the step");
  return for_tiles(of, [&](const Tile& tile) { return compute_logits(of, tile); });
}

// The host reads the logits of a tile while the GPU computes those of the next. A half of the
// buffers is written again once the copy out of it is done.
Status CardHead::read_logits(std::uint32_t set) const {
  const Step& of = steps_[set];
  INVARIANT(of.outputs != nullptr && of.reads_logits(), "the host reads logits of the step");
  Tile previous;
  TRY_VOID(for_tiles(of, [&](const Tile& tile) -> Status {
    TRY_VOID(cuda::wait(stage_.compute(), logits_sent_[tile.half].get()));
    TRY_VOID(compute_logits(of, tile));
    TRY_VOID(send_logits(of, tile));
    if (previous.rows > 0) TRY_VOID(hand_on(of, previous));
    previous = tile;
    return ok_status();
  }));
  return hand_on(of, previous);
}

Status CardHead::compute_logits(const Step& of, const Tile& tile) const {
  const std::uint32_t* sampled = stage_.card_words(of.set).sampled + tile.begin;
  TRY_VOID(cuda::gather_rows(stage_.buffers().x, sampled, tile.rows, stage_.spec().hidden,
                             stage_.buffers().delta, stage_.compute()));
  TRY_VOID(stage_.norm(stage_.buffers().delta, stage_.weights().output_norm, tile.rows,
                       stage_.card(of.set).head_failed + tile.begin));
  TRY_VOID(
      stage_.multiply(stage_.weights().output(), tile.rows, stage_.buffers().logits[tile.half]));
  const std::uint32_t drawn = before(tile, of.draws.count());
  return drawn > 0 ? draw(of, tile, drawn) : ok_status();
}

// Sends the tokens that the GPU draws too.
Status CardHead::send_logits(const Step& of, const Tile& tile) const {
  const cuda::Stream download = stage_.download();
  TRY_VOID(cuda::record(logits_made_[tile.half].get(), stage_.compute()));
  TRY_VOID(cuda::wait(download, logits_made_[tile.half].get()));
  const DrawArrays& from = stage_.card(of.set).draws;
  const DrawArrays& to = stage_.host(of.set).draws;
  const std::uint32_t drawn = before(tile, of.draws.count());
  if (drawn > 0) {
    TRY_VOID(cuda::copy_to_host(to.tokens + tile.begin, from.tokens + tile.begin,
                                drawn * sizeof(*to.tokens), download));
    TRY_VOID(cuda::copy_to_host(to.outcomes + tile.begin, from.outcomes + tile.begin,
                                drawn * sizeof(*to.outcomes), download));
  }
  const std::uint32_t first = before(tile, of.logits_from);
  if (first < tile.rows) {
    const std::size_t at = std::size_t{first} * stage_.spec().vocabulary;
    TRY_VOID(cuda::copy_to_host(
        stage_.host_logits(tile.half) + at, stage_.buffers().logits[tile.half] + at,
        (std::size_t{tile.rows} * stage_.spec().vocabulary - at) * sizeof(float), download));
  }
  return cuda::record(logits_sent_[tile.half].get(), download);
}

// Draws the tokens of the tile's first rows.
Status CardHead::draw(const Step& of, const Tile& tile, std::uint32_t rows) const {
  const DrawArrays& arrays = stage_.card(of.set).draws;
  cuda::SampleBatch batch;
  batch.rows = rows;
  batch.vocabulary = stage_.spec().vocabulary;
  batch.logits = stage_.buffers().logits[tile.half];
  batch.params = arrays.rows + tile.begin;
  batch.bias = arrays.bias;
  batch.excluded = arrays.excluded;
  batch.seen = arrays.seen;
  batch.scratch = stage_.buffers().draw_scratch;
  batch.tokens = arrays.tokens + tile.begin;
  batch.outcomes = arrays.outcomes + tile.begin;
  return cuda::sample(batch, stage_.compute());
}

void CardHead::hand_on_tokens(const Step& of, std::uint32_t begin, std::uint32_t end) const {
  const DrawArrays& draws = stage_.host(of.set).draws;
  for (std::uint32_t s = begin; s < end; ++s) {
    of.outputs->on_token(of.sampled[s], token_of(draws.outcomes[s], draws.tokens[s]));
  }
}

Status CardHead::hand_on(const Step& of, const Tile& tile) const {
  INVARIANT(tile.rows > 0, "a tile is handed on after it was computed");
  TRY_VOID(cuda::synchronize(logits_sent_[tile.half].get()));
  hand_on_tokens(of, tile.begin, tile.begin + before(tile, of.draws.count()));
  const std::uint32_t first = before(tile, of.logits_from);
  const auto part = [&](std::uint32_t begin, std::uint32_t end, unsigned thread) {
    for (std::uint32_t s = first + begin; s < first + end; ++s) {
      const float* logits =
          stage_.host_logits(tile.half) + std::size_t{s} * stage_.spec().vocabulary;
      of.outputs->on_logits(of.sampled[tile.begin + s], thread, {logits, stage_.spec().vocabulary});
    }
  };
  if (first < tile.rows) pool_.parallel_for(tile.rows - first, 1, part);
  return ok_status();
}

}  // namespace hearth::node
