#include "node/emulation/emulated_card.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/text/tokenizer.h"
#include "node/emulation/emulated_ranks.h"
#include "node/emulation/model_shape.h"
#include "node/engine/ranks/share.h"
#include "placement/estimate/speed.h"

namespace hearth::node {
namespace {

constexpr std::string_view kAnswer = "EMULATED ";
constexpr unsigned long kTimerSlack = 1'000;  // nanoseconds; the usual one adds 50 us to each step
constexpr double kLongestStep = 1e6;  // seconds: figures near 0 give more than a clock counts

Duration duration_of(double seconds) {
  const double bounded = std::min(seconds, kLongestStep);
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(bounded));
}

// The layers of one stage: no weights, no keys and no values.
class EmulatedForward final : public StageForward {
 public:
  struct Setup {
    placement::EstimateInput roofline;
    EmulationTime time;
    std::vector<TokenId> answer;
    std::uint32_t layers = 0;
    bool last = false;
    std::uint32_t hidden = 0;
    std::uint32_t batch_rows = 0;
    std::uint32_t pages = 0;
    std::uint64_t weight_bytes = 0;
    // Of a rank: the roofline is that of its heads and columns, and it has a part of the head.
    std::optional<EmulatedRanks> ranks = {};
    double head_part = 1.0;
    bool first = false;
  };
  explicit EmulatedForward(Setup setup)
      : setup_(std::move(setup)),
        pages_(setup_.pages),
        input_(std::size_t{setup_.batch_rows} * setup_.hidden),
        output_(input_.size()) {
    sampled_.reserve(setup_.batch_rows);
  }

  // The engine's thread sleeps until a step ends, and so cannot begin the next one meanwhile.
  bool may_overlap() const override { return false; }
  Status begin(std::span<const ForwardRow> rows, const Outputs& outputs) override {
    INVARIANT(outputs_ == nullptr && rows.size() <= setup_.batch_rows, "one step at a time");
    outputs_ = &outputs;
    sampled_.clear();
    for (std::uint32_t i = 0; i < rows.size(); ++i) {
      if (rows[i].sample) sampled_.push_back({i, rows[i].position, rows[i].draw != nullptr});
    }
    took_ = seconds_of(rows);
    began_ = setup_.time.clock.now();
    rows_ = static_cast<std::uint32_t>(rows.size());
    return lost_ ? Status(*lost_) : ok_status();
  }
  bool ready() const override { return true; }  // finish() sleeps, and nothing polls meanwhile
  Status finish() override {
    INVARIANT(outputs_ != nullptr, "a step is under way");
    const Outputs& outputs = *std::exchange(outputs_, nullptr);
    if (!setup_.ranks) {
      setup_.time.sleep_until(began_ + duration_of(took_.layers + took_.head));
    } else if (Status exchanged = compute_as_rank(); !exchanged.ok()) {
      lost_ = exchanged.error();
      return exchanged;
    }
    for (const Sampled& row : sampled_) outputs.on_token(row.index, token_of(row));
    return ok_status();
  }
  bool failed(std::uint32_t /*row*/) const override { return false; }
  std::uint16_t* input() override { return input_.data(); }
  const std::uint16_t* output() const override { return output_.data(); }

  PagePool& pages() override { return pages_; }
  const PagePool& pages() const override { return pages_; }
  Result<const std::byte*> page(std::uint32_t /*index*/, std::uint32_t /*layer*/) const override {
    return Error{ErrorCode::kUnsupported, "an emulated GPU keeps no keys and values"};
  }
  StatePool* states() override { return nullptr; }  // load() refuses models with states
  ByteSpan state(std::uint32_t /*state*/, std::uint32_t /*layer*/) const override { return {}; }
  unsigned threads() const override { return 1; }
  std::size_t weight_bytes() const override { return setup_.weight_bytes; }

 private:
  struct Sampled {
    std::uint32_t index = 0;
    Position position = 0;
    bool plain = false;  // neither log probabilities nor a grammar
  };

  Result<TokenId> token_of(const Sampled& row) const {
    if (row.plain) return setup_.answer[row.position % setup_.answer.size()];
    return Error{ErrorCode::kUnsupported,
                 "an emulated GPU has no logits: leave out log probabilities and grammars"};
  }

  // A rank exchanges after each layer, and computes nothing meanwhile.
  Status compute_as_rank() {
    const auto sleep = [&](double seconds) {
      setup_.time.sleep_until(setup_.time.clock.now() + duration_of(seconds));
    };
    if (setup_.first) TRY_VOID(setup_.ranks->embeddings(rows_));
    for (std::uint32_t layer = 0; layer < setup_.layers; ++layer) {
      sleep(took_.layers / setup_.layers);
      TRY_VOID(setup_.ranks->layer(rows_));
    }
    if (took_.head == 0.0) return ok_status();
    sleep(took_.head);
    return setup_.ranks->logits(static_cast<std::uint32_t>(sampled_.size()));
  }

  struct Seconds {
    double layers = 0.0;
    double head = 0.0;
  };
  Seconds seconds_of(std::span<const ForwardRow> rows) const {
    placement::StepLoad step;
    step.rows = static_cast<double>(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double seen = rows[i].position + 1.0;
      step.scored += seen;
      const bool ends = i + 1 == rows.size() || rows[i + 1].pages != rows[i].pages;
      if (ends) step.kept += seen;
    }
    const double layers = setup_.layers * layer_seconds(setup_.roofline, step);
    const bool heads = setup_.last && !sampled_.empty();
    if (!heads) return {layers, 0.0};
    const double head = head_seconds(setup_.roofline, static_cast<double>(sampled_.size()));
    return {layers, head * setup_.head_part};
  }

  Setup setup_;
  PagePool pages_;
  std::vector<std::uint16_t> input_;
  const std::vector<std::uint16_t> output_;
  std::vector<Sampled> sampled_;      // of the step under way
  const Outputs* outputs_ = nullptr;  // null: no step is under way
  TimePoint began_{};
  Seconds took_;
  std::uint32_t rows_ = 0;     // likewise
  std::optional<Error> lost_;  // the group has ended
};

class EmulatedCard final : public Device {
 public:
  EmulatedCard(placement::Card card, EmulationTime time)
      : card_(std::move(card)),
        time_(std::move(time)),
        name_(std::string(kEmulated) + " " + card_.title) {}

  const std::string& name() const override { return name_; }
  const std::string& bus_id() const override { return bus_id_; }
  bool emulates() const override { return true; }
  Result<StageMemory> memory(const model::GgufFile& file, const model::ModelSpec& spec,
                             const EngineOptions& options) const override {
    REQUIRE(!spec.keeps_state(), name_, ": ", spec.family->architecture,
            " models keep a state of each sequence, which is not emulated; choose another shape");
    TRY(StageMemory memory, stage_memory(file, spec, options));
    memory.weights = file_bytes_of(file, spec, options.layers);
    if (options.group == nullptr) return memory;
    const double part = part_of(options.group->own().hidden.size(), spec.hidden);
    memory.weights = static_cast<std::uint64_t>(part * static_cast<double>(memory.weights));
    return memory;
  }
  Result<std::uint64_t> budget() const override {
    const double left = card_.memory_bytes - placement::margin_bytes(card_);
    return static_cast<std::uint64_t>(std::max(0.0, left));
  }
  Status check_memory(const model::GgufFile& file, const model::ModelSpec& spec,
                      const EngineOptions& options) const override {
    TRY(const StageMemory stage, memory(file, spec, options));
    TRY(const std::uint64_t room, budget());
    if (stage.least() <= room) return ok_status();
    return Error::of(ErrorCode::kNoCapacity, name_, ": weights of ", stage.weights,
                     " bytes, KV of one sequence of ", stage.kv_least(), " and buffers of ",
                     stage.buffers, " do not fit ", room, " bytes; use more GPUs");
  }
  Result<double> measure_weight_rate() const override { return card_.memory_bytes_per_second; }
  Result<std::unique_ptr<StageForward>> load(const model::GgufFile& file,
                                             const model::ModelSpec& spec,
                                             const EngineOptions& options) override {
    TRY_VOID(check_memory(file, spec, options));
    TRY(const StageMemory stage, memory(file, spec, options));
    TRY(const std::uint64_t room, budget());
    EmulatedForward::Setup setup{roofline_of(file, spec), time_, {}};
    if (options.group != nullptr) {
      const Share& share = options.group->own();
      const model::ModelSpec own = narrowed(spec, share);
      setup.roofline.shape = shape_of(own, "");
      setup.head_part = part_of(share.vocabulary.size(), spec.vocabulary);
      setup.ranks.emplace(spec, *options.group);
    }
    setup.first = options.layers.begin == 0;
    REQUIRE(!is_f32(setup.roofline) || card_.fp32_flops > 0.0, name_,
            ": weights of F32 need the figure fp32_tflops; choose another GPU or format");
    TRY(setup.answer, answer_of(file));
    setup.layers = options.layers.size();
    setup.last = options.layers.end == spec.layers;
    setup.hidden = spec.hidden;
    setup.batch_rows = options.batch_rows;
    setup.pages = kv_within(stage, room).pages;
    setup.weight_bytes = stage.weights;
    return std::unique_ptr<StageForward>(std::make_unique<EmulatedForward>(std::move(setup)));
  }

 private:
  static double part_of(std::uint32_t own, std::uint32_t all) { return double{1.0} * own / all; }
  placement::EstimateInput roofline_of(const model::GgufFile& file,
                                       const model::ModelSpec& spec) const {
    placement::EstimateInput roofline;
    roofline.shape = shape_of(spec, "");
    roofline.weight_bits = weight_bits_of(file, spec);
    roofline.card = card_;
    return roofline;
  }

  static Result<std::vector<TokenId>> answer_of(const model::GgufFile& file) {
    TRY(const auto tokenizer, model::Tokenizer::load(file));
    TRY(auto tokens, tokenizer->encode(kAnswer, model::SpecialTokens::kText, false));
    REQUIRE(!tokens.empty(), "the vocabulary of the shape has no tokens for '", kAnswer, "'");
    return tokens;
  }

  const placement::Card card_;
  const EmulationTime time_;
  const std::string name_;
  const std::string bus_id_;  // it is on no bus
};

}  // namespace

EmulationTime real_time() {
  static const SystemClock clock;
  return {clock, [](TimePoint until) {
            thread_local const bool precise = ::prctl(PR_SET_TIMERSLACK, kTimerSlack) == 0;
            static_cast<void>(precise);
            std::this_thread::sleep_until(
                std::chrono::time_point<std::chrono::steady_clock, Duration>(until));
          }};
}

Result<std::unique_ptr<Device>> emulate_card(const placement::Card& card, EmulationTime time) {
  REQUIRE(card.memory_bytes > 0.0 && card.memory_bytes_per_second > 0.0 && card.fp16_flops > 0.0,
          "--emulate: ", card.title,
          " must have memory_gb, memory_gb_per_second and fp16_tflops above 0");
  return std::unique_ptr<Device>(std::make_unique<EmulatedCard>(card, std::move(time)));
}

}  // namespace hearth::node
