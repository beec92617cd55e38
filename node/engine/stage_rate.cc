#include "node/engine/stage_rate.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "base/random.h"
#include "node/engine/device.h"
#include "node/engine/stage_memory.h"
#include "node/engine/weights.h"
#include "proto/step.h"

namespace hearth::node {
namespace {

using SteadyClock = std::chrono::steady_clock;

// A moment of other load slows one round of all windows. So there are many short rounds instead of
// few long ones, and the quickest and the slowest do not count.
constexpr int kRounds = 5;
constexpr std::chrono::duration<double> kWindow(0.06);
constexpr int kStepsLeast = 2;
constexpr Position kPositions = 2 * kernels::kPageTokens;  // then from the beginning again
constexpr std::uint64_t kSeveralBytes = 96 << 20;          // of layers whose difference is measured
constexpr std::uint32_t kSeveral = 32;
// On an emulated GPU large layers take no memory, and a step's cost matters beside quick ones.
constexpr std::uint64_t kSeveralEmulated = 4;
constexpr std::uint32_t kRandomRows = 64;  // of activations
static_assert(kRateRows <= kRandomRows);

class Timed {
 public:
  Timed(Engine& engine, const model::ModelSpec& spec, std::uint32_t rows,
        const std::function<bool()>& cancelled)
      : engine_(engine),
        spec_(spec),
        rows_(rows),
        cancelled_(cancelled),
        activations_(random_activations(spec.hidden, random_)) {}

  // A step, timed if it is not the first.
  Status time() {
    const auto begun = SteadyClock::now();
    TRY_VOID(step());
    if (steps_++ > 0) spent_ += SteadyClock::now() - begun;
    return ok_status();
  }

  double seconds() {
    engine_.reset();
    return spent_.count() / (steps_ - 1);
  }

 private:
  Status step() {
    if (cancelled_ && cancelled_())
      return Error{ErrorCode::kCancelled, "the measurement was cancelled"};
    StepBatch batch;
    if (position_ == 0) {
      engine_.reset();
      for (std::uint32_t i = 0; i < rows_; ++i) batch.opens.push_back(open(SequenceId(i + 1)));
    }
    for (std::uint32_t i = 0; i < rows_; ++i) {
      const auto token = static_cast<TokenId>(random_.next() % spec_.vocabulary);
      batch.rows.push_back({SequenceId(i + 1), position_, token, BatchRow::kSample});
    }
    if (!engine_.is_first()) {
      const std::size_t row = std::size_t{spec_.hidden} * sizeof(std::uint16_t);
      const std::size_t first = random_.next() % (kRandomRows - rows_ + 1);
      const auto begin = activations_.begin() + static_cast<std::ptrdiff_t>(first * row);
      batch.activations.assign(begin, begin + static_cast<std::ptrdiff_t>(rows_ * row));
    }
    StepResult result;
    TRY_VOID(engine_.step(batch, result));
    const bool failed = std::any_of(batch.rows.begin(), batch.rows.end(),
                                    [](const BatchRow& row) { return row.failed(); });
    REQUIRE(!failed, "the measurement failed: a row could not be computed");
    position_ = (position_ + 1) % std::min(kPositions, spec_.context - 1);
    return ok_status();
  }

  // Values of 1 to 2 in magnitude.
  static Bytes random_activations(std::uint32_t hidden, SeededRandom& random) {
    Bytes values(std::size_t{kRandomRows} * hidden * sizeof(std::uint16_t));
    for (std::size_t at = 0; at < values.size(); at += sizeof(std::uint16_t)) {
      constexpr std::uint16_t kSign = 0x8000;
      constexpr std::uint16_t kOne = 0x3C00;  // as fp16; ten bits of fraction follow
      const auto bits = static_cast<std::uint16_t>(kOne | (random.next() & (kSign | 0x3FF)));
      std::memcpy(values.data() + at, &bits, sizeof bits);
    }
    return values;
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
  // Rows and steps differ: equal rows would use the same experts, and read only those.
  SeededRandom random_{1};
  const Bytes activations_;
  Position position_ = 0;
  int steps_ = 0;
  std::chrono::duration<double> spent_{};
};

// Bytes of the layers' weights that a row reads; the layers' time is proportional to them.
Result<std::uint64_t> bytes_read(const model::GgufFile& file, const model::ModelSpec& spec,
                                 LayerRange layers) {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = layers.begin; i < layers.end; ++i) {
    TRY(const std::uint64_t layer, StageWeights::layer_read_bytes_of(file, spec, i));
    bytes += layer;
  }
  return bytes;
}

// Layers that are timed.
class Subject {
 public:
  static Result<Subject> load(const std::shared_ptr<const model::GgufFile>& file,
                              const model::ModelSpec& spec, EngineOptions options,
                              LayerRange layers) {
    options.layers = layers;
    options.batch_rows = kRateRows;
    options.kv_budget_bytes = kv_budget_of(
        spec, layers, std::uint64_t{kRateRows} * (kPositions / kernels::kPageTokens), kRateRows);
    options.sequences = kRateRows;
    Subject subject;
    TRY(subject.engine_, Engine::load(file, spec, options));
    return subject;
  }

  Engine& engine() { return *engine_; }
  void add(std::uint32_t rows, double seconds) { (rows == 1 ? one_ : batch_).push_back(seconds); }
  StageRate::Rows rows() const { return {middle(one_), middle(batch_)}; }

 private:
  // The mean of all rounds but the quickest and the slowest.
  static double middle(std::vector<double> rounds) {
    std::sort(rounds.begin(), rounds.end());
    return std::accumulate(rounds.begin() + 1, rounds.end() - 1, 0.0) / (kRounds - 2);
  }

  std::unique_ptr<Engine> engine_;
  std::vector<double> one_;
  std::vector<double> batch_;
};

// One step of each in turn, so that the others' weights pass through the caches between two steps
// of one, like the other layers of a stage. Otherwise a small model's weights would stay in the
// caches.
Status time_in_turns(std::vector<Subject>& subjects, const model::ModelSpec& spec,
                     std::uint32_t rows, const std::function<bool()>& cancelled) {
  std::vector<Timed> timed;
  timed.reserve(subjects.size());
  for (Subject& subject : subjects) timed.emplace_back(subject.engine(), spec, rows, cancelled);
  const auto begun = SteadyClock::now();
  for (int steps = 0; steps <= kStepsLeast || SteadyClock::now() - begun < kWindow * timed.size();
       ++steps) {
    for (Timed& one : timed) TRY_VOID(one.time());
  }
  for (std::size_t i = 0; i < timed.size(); ++i) subjects[i].add(rows, timed[i].seconds());
  return ok_status();
}

// Of a model that is not split: the mean of its layers, with all that is beside them.
Result<StageRate> measure_whole(const std::shared_ptr<const model::GgufFile>& file,
                                const model::ModelSpec& spec, const EngineOptions& options) {
  std::vector<Subject> subjects;
  TRY(Subject subject, Subject::load(file, spec, options, {0, spec.layers}));
  subjects.push_back(std::move(subject));
  for (int round = 0; round < kRounds; ++round) {
    for (const std::uint32_t rows : {1U, kRateRows}) {
      TRY_VOID(time_in_turns(subjects, spec, rows, options.cancelled));
    }
  }
  const StageRate::Rows all = subjects.front().rows();
  StageRate rate;
  rate.layer = {all.one / spec.layers, all.batch / spec.layers};
  return rate;
}

}  // namespace

Result<StageRate> measure_stage_rate(const std::shared_ptr<const model::GgufFile>& file,
                                     const model::ModelSpec& spec, EngineOptions options) {
  if (spec.is_whole()) return measure_whole(file, spec, options);
  const std::uint32_t begin = spec.layers / 2 - (spec.layers == 2 ? 1 : 0);
  // The fixed cost of a step follows from the difference between few and more layers, unless layers
  // are so large that it does not matter.
  TRY(const std::uint64_t each, StageWeights::bytes_of(*file, spec, {begin, begin + 1}));
  const std::uint32_t room = spec.layers - std::min(spec.layers, 2U);
  std::uint64_t held = kSeveralBytes;
  if (options.device != nullptr && options.device->emulates()) {
    TRY(const std::uint64_t memory, options.device->budget());
    held = std::max(held, std::min(memory / 2, kSeveralEmulated * each));
  }
  const auto several = static_cast<std::uint32_t>(
      std::min<std::uint64_t>({kSeveral, room, held / std::max<std::uint64_t>(each, 1)}));
  TRY(const std::uint64_t read, bytes_read(*file, spec, {begin, begin + 1}));
  std::vector<LayerRange> ranges{{begin, begin + 1}};
  if (spec.layers > 1) ranges.push_back({spec.layers - 1, spec.layers});
  const std::uint32_t first = 1 + (room - several) / 2;
  if (several > 1) ranges.push_back({first, first + several});
  std::vector<Subject> subjects;
  for (const LayerRange layers : ranges) {
    TRY(Subject subject, Subject::load(file, spec, options, layers));
    subjects.push_back(std::move(subject));
  }
  for (int round = 0; round < kRounds; ++round) {
    for (const std::uint32_t rows : {1U, kRateRows}) {
      TRY_VOID(time_in_turns(subjects, spec, rows, options.cancelled));
    }
  }
  const StageRate::Rows one = subjects[0].rows();
  StageRate rate;
  rate.layer = one;
  if (spec.layers == 1) return rate;  // with its head
  if (several > 1) {
    const StageRate::Rows more = subjects[2].rows();
    TRY(const std::uint64_t all, bytes_read(*file, spec, ranges[2]));
    const double others = static_cast<double>(all) / static_cast<double>(read) - 1;
    const double layer = (more.one - one.one) / others;
    const double batch = (more.batch - one.batch) / others;
    if (layer > 0.0 && layer < one.one && batch > 0.0 && batch < one.batch) {
      rate.layer = {layer, batch};
      rate.step_seconds = one.one - layer;
    }
  }
  const StageRate::Rows last = subjects[1].rows();
  rate.head.one = std::max(0.0, last.one - rate.step_seconds - rate.layer.one);
  rate.head.batch = std::max(0.0, last.batch - rate.step_seconds - rate.layer.batch);
  if (spec.layers > 2) {
    TRY(const std::uint64_t inner, bytes_read(*file, spec, {1, spec.layers - 1}));
    const double mean = static_cast<double>(inner) / (spec.layers - 2);
    const double size = mean / static_cast<double>(read);
    rate.layer = {rate.layer.one * size, rate.layer.batch * size};
  }
  return rate;
}

}  // namespace hearth::node
