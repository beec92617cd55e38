#include "node/engine/stage_rate.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "node/engine/kv_cache.h"
#include "node/engine/weights.h"
#include "proto/step.h"

namespace hearth::node {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Long enough that what slows a machine from time to time is in it.
constexpr std::chrono::duration<double> kWindow(0.25);
constexpr int kStepsLeast = 3;
constexpr Position kPositions = 2 * kernels::kPageTokens;  // then from the beginning again
constexpr std::uint64_t kSeveralBytes = 96 << 20;          // of layers whose difference is measured
constexpr std::uint32_t kSeveral = 4;

class Timed {
 public:
  Timed(Engine& engine, const model::ModelSpec& spec, std::uint32_t rows,
        const std::function<bool()>& cancelled)
      : engine_(engine), spec_(spec), rows_(rows), cancelled_(cancelled) {}

  // Of a step, the first one not counted.
  Result<double> seconds() {
    TRY_VOID(step());
    const auto begun = SteadyClock::now();
    int steps = 0;
    std::chrono::duration<double> spent{};
    while (steps < kStepsLeast || spent < kWindow) {
      TRY_VOID(step());
      ++steps;
      spent = SteadyClock::now() - begun;
    }
    engine_.reset();
    return spent.count() / steps;
  }

 private:
  Status step() {
    if (cancelled_ && cancelled_()) return Error{ErrorCode::kCancelled, "measuring was given up"};
    StepBatch batch;
    if (position_ == 0) {
      engine_.reset();
      for (std::uint32_t i = 0; i < rows_; ++i) batch.opens.push_back(open(SequenceId(i + 1)));
    }
    for (std::uint32_t i = 0; i < rows_; ++i) {
      batch.rows.push_back({SequenceId(i + 1), position_, 0, BatchRow::kSample});
    }
    if (!engine_.is_first()) batch.activations.resize(std::size_t{rows_} * spec_.hidden * 2);
    StepResult result;
    TRY_VOID(engine_.step(batch, result));
    const bool failed = std::any_of(batch.rows.begin(), batch.rows.end(),
                                    [](const BatchRow& row) { return row.failed(); });
    REQUIRE(!failed, "a row that was to be measured could not be computed");
    position_ = (position_ + 1) % std::min(kPositions, spec_.context - 1);
    return ok_status();
  }

  SequenceOpen open(SequenceId sequence) const {
    SequenceOpen open;
    open.sequence = sequence;
    open.prompt_tokens = 1;
    open.sampling.temperature = 0.0F;
    open.sampling.max_tokens = std::min(kPositions, spec_.context - 1);
    return open;
  }

  Engine& engine_;
  const model::ModelSpec& spec_;
  const std::uint32_t rows_;
  const std::function<bool()>& cancelled_;
  Position position_ = 0;
};

class Measurement {
 public:
  Measurement(const std::shared_ptr<const model::GgufFile>& file, const model::ModelSpec& spec,
              EngineOptions options)
      : file_(file), spec_(spec), options_(options) {}

  Result<StageRate::Rows> time(LayerRange layers) {
    options_.layers = layers;
    options_.batch_rows = kRateRows;
    options_.kv_budget_bytes = KvCache::page_bytes(layers.size(), spec_.kv_layout()) * kRateRows *
                               (kPositions / kernels::kPageTokens);
    TRY(const auto engine, Engine::load(file_, spec_, options_));
    StageRate::Rows rows;
    TRY(rows.one, Timed(*engine, spec_, 1, options_.cancelled).seconds());
    TRY(rows.batch, Timed(*engine, spec_, kRateRows, options_.cancelled).seconds());
    return rows;
  }

  Result<std::uint64_t> bytes(LayerRange layers) const {
    return StageWeights::bytes_of(*file_, spec_, layers);
  }

 private:
  std::shared_ptr<const model::GgufFile> file_;
  const model::ModelSpec& spec_;
  EngineOptions options_;
};

}  // namespace

Result<StageRate> measure_stage_rate(const std::shared_ptr<const model::GgufFile>& file,
                                     const model::ModelSpec& spec, EngineOptions options) {
  Measurement measurement(file, spec, options);
  const std::uint32_t begin = spec.layers / 2 - (spec.layers == 2 ? 1 : 0);
  StageRate rate;
  TRY(const StageRate::Rows one, measurement.time({begin, begin + 1}));
  rate.layer = one;
  if (spec.layers == 1) return rate;  // with its head
  // What a step costs beside its layers shows in the difference of few layers and of more, unless a
  // layer is so large that it does not matter.
  TRY(const std::uint64_t each, measurement.bytes({begin, begin + 1}));
  const std::uint32_t room = spec.layers - 1 - begin;
  const auto several = static_cast<std::uint32_t>(
      std::min<std::uint64_t>({kSeveral, room, kSeveralBytes / std::max<std::uint64_t>(each, 1)}));
  if (several > 1) {
    TRY(const StageRate::Rows more, measurement.time({begin, begin + several}));
    const double layer = (more.one - one.one) / (several - 1);
    const double batch = (more.batch - one.batch) / (several - 1);
    if (layer > 0.0 && layer < one.one && batch > 0.0 && batch < one.batch) {
      rate.layer = {layer, batch};
      rate.step_seconds = one.one - layer;
    }
  }
  TRY(const StageRate::Rows last, measurement.time({spec.layers - 1, spec.layers}));
  rate.head.one = std::max(0.0, last.one - rate.step_seconds - rate.layer.one);
  rate.head.batch = std::max(0.0, last.batch - rate.step_seconds - rate.layer.batch);
  if (spec.layers > 2) {
    TRY(const std::uint64_t inner, measurement.bytes({1, spec.layers - 1}));
    const double mean = static_cast<double>(inner) / (spec.layers - 2);
    const double size = mean / static_cast<double>(each);
    rate.layer = {rate.layer.one * size, rate.layer.batch * size};
  }
  return rate;
}

}  // namespace hearth::node
