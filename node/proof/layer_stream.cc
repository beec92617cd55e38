#include "node/proof/layer_stream.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "kernels/canonical.h"
#include "node/engine/engine.h"
#include "node/engine/stage_memory.h"
#include "proto/split.h"

namespace hearth::node {
namespace {

constexpr SequenceId kSequence{1};

class LayerStream {
 public:
  LayerStream(const std::shared_ptr<const model::GgufFile>& file, const model::ModelSpec& spec,
              const FedSequence& sequence, const StreamOptions& options)
      : file_(file), spec_(spec), sequence_(sequence), options_(options) {}

  Status check() const;
  Result<FedRun> run();

 private:
  void fill_batches();
  EngineOptions engine_options(LayerRange layers) const;
  Status run_layers(LayerRange layers);
  void take(const StepResult& result, std::vector<Hash256>* boundary);
  Status cancelled() const {
    const bool stop = options_.stopped && options_.stopped();
    return stop ? Status(Error{ErrorCode::kCancelled, "the recomputation was stopped"})
                : ok_status();
  }

  const std::shared_ptr<const model::GgufFile>& file_;
  const model::ModelSpec& spec_;
  const FedSequence& sequence_;
  const StreamOptions& options_;
  // All positions; each layer rewrites their activations.
  std::vector<StepBatch> batches_;
  std::uint32_t stage_ = 0;  // of the layer
  FedRun out_;
};

Status LayerStream::check() const {
  std::uint32_t next = 0;
  for (const LayerRange& range : options_.split) {
    REQUIRE(range.begin == next && range.end > next, "stage of layers ", text_of(range),
            " does not follow layer ", next);
    next = range.end;
  }
  REQUIRE(next == spec_.layers, "the stages have ", next, " layers, and the model ", spec_.layers);
  REQUIRE(!spec_.is_whole() || options_.split.size() == 1, options_.split.size(),
          " stages; one stage must hold every layer of this model");
  REQUIRE(sequence_.prompt >= 1 && sequence_.prompt <= sequence_.tokens.size() &&
              sequence_.tokens.size() < spec_.context,
          "a sequence of ", sequence_.tokens.size(), " tokens, ", sequence_.prompt,
          " of them its prompt's, does not fit a context of ", spec_.context);
  return validate(sequence_.sampling, spec_.vocabulary);
}

void LayerStream::fill_batches() {
  const auto positions = static_cast<std::uint32_t>(sequence_.tokens.size());
  for (std::uint32_t first = 0; first < positions; first += options_.batch_rows) {
    StepBatch& batch = batches_.emplace_back();
    batch.epoch = Epoch(1);
    batch.step = StepId(batches_.size());
    const std::uint32_t end = std::min(positions, first + options_.batch_rows);
    for (Position p = first; p < end; ++p) {
      const std::uint8_t flags = p + 1 >= sequence_.prompt ? BatchRow::kSample : 0;
      batch.rows.push_back({kSequence, p, sequence_.tokens[p], flags});
    }
  }
  INVARIANT(!batches_.empty(), "a checked sequence has a token, so it fills a batch");
  SequenceOpen& open = batches_.front().opens.emplace_back();
  open.sequence = kSequence;
  open.prompt_tokens = sequence_.prompt;
  open.sampling = sequence_.sampling;
  // Neither changes the samples: an end token that the answer continues after is a token like
  // others.
  open.sampling.stop_tokens.clear();
  open.sampling.max_tokens = positions - sequence_.prompt + 1;
}

EngineOptions LayerStream::engine_options(LayerRange layers) const {
  const auto positions = static_cast<std::uint32_t>(sequence_.tokens.size());
  EngineOptions engine;
  engine.layers = layers;
  engine.threads = options_.threads;
  engine.batch_rows = options_.batch_rows;
  engine.kv_budget_bytes =
      kv_budget_of(spec_, layers, pages_for(positions + 1, kernels::kPageTokens), 1);
  engine.sequences = 1;
  engine.stage = stage_;
  engine.cancelled = options_.stopped;
  return engine;
}

void LayerStream::take(const StepResult& result, std::vector<Hash256>* boundary) {
  for (const RowHash& hash : result.hashes) {
    if (boundary != nullptr) (*boundary)[hash.position] = hash.out;
  }
  out_.sampled.insert(out_.sampled.end(), result.tokens.begin(), result.tokens.end());
}

// One layer, or all of a model that is not split.
Status LayerStream::run_layers(LayerRange layers) {
  INVARIANT(stage_ < options_.split.size(), "every layer is a stage's");
  const bool ends_stage = layers.end == options_.split[stage_].end && layers.end < spec_.layers;
  batches_.front().opens.front().report_hashes = ends_stage;
  TRY(const auto engine, Engine::load(file_, spec_, engine_options(layers)));
  for (StepBatch& batch : batches_) {
    TRY_VOID(cancelled());
    batch.boundary = layers.begin;
    StepResult result;
    TRY_VOID(engine->step(batch, result));
    take(result, ends_stage ? &out_.boundaries[stage_] : nullptr);
  }
  if (ends_stage) ++stage_;
  return ok_status();
}

Result<FedRun> LayerStream::run() {
  fill_batches();
  out_.boundaries.assign(options_.split.size() - 1, std::vector<Hash256>(sequence_.tokens.size()));
  for (LayerRange next; next.end < spec_.layers;) {
    next = spec_.least_range(next.end);
    TRY_VOID(run_layers(next));
    if (options_.progress) options_.progress(next.end, spec_.layers);
  }
  for (const SampledToken& token : out_.sampled) {
    if (token.finish != FinishReason::kError) continue;
    return Error{token.error,
                 "position " + std::to_string(token.position) + " cannot be computed here"};
  }
  const std::size_t wanted = sequence_.tokens.size() - sequence_.prompt + 1;
  INVARIANT(out_.sampled.size() == wanted && stage_ + 1 == options_.split.size(),
            "a token behind the prompt and behind each token of the answer");
  return std::move(out_);
}

}  // namespace

Result<FedRun> stream_layers(const std::shared_ptr<const model::GgufFile>& file,
                             const model::ModelSpec& spec, const FedSequence& sequence,
                             const StreamOptions& options) {
  INVARIANT(options.batch_rows > 0 && options.threads > 0, "rows and threads are chosen");
  LayerStream stream(file, spec, sequence, options);
  TRY_VOID(stream.check());
  return stream.run();
}

}  // namespace hearth::node
