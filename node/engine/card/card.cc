#include "node/engine/card/card.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "base/limits.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/tiles.h"
#include "node/engine/card/card_forward.h"
#include "node/engine/card/card_stage.h"
#include "node/engine/card/placement.h"
#include "node/engine/card/watchdog.h"
#include "node/engine/kv_cache.h"
#include "proto/split.h"

namespace hearth::node {
namespace {

namespace cuda = kernels::cuda;

// Rows a multiprocessor of the matrix that the rate is measured with: 142 MB on a 4090, of which
// its cache holds half.
constexpr std::uint32_t kRateRows = 128;
constexpr std::uint32_t kRateCols = 8'192;
constexpr int kRateRounds = 5;    // the first one warms up; the best counts
constexpr int kRateProducts = 8;  // of a round, so that starting one counts little

std::string mib(std::uint64_t bytes) {
  char text[48];
  std::snprintf(text, sizeof text, "%.1f MiB",
                static_cast<double>(bytes) / static_cast<double>(limits::kMiB));
  return text;
}

struct RateArrays {
  cuda::CardMatrix matrix;
  kernels::QuantizedRows x;
  float* out = nullptr;
  cuda::ProductSpace space;
};

RateArrays place(std::uint32_t rows, std::uint32_t cols, Placement& placement) {
  const auto type = kernels::WeightType::kQ8_0;
  const cuda::TileShape shape = cuda::tile_shape(type, rows, cols);
  const std::uint32_t blocks = cols / kernels::kBlock;
  RateArrays arrays;
  arrays.matrix = {type, rows, cols, placement.take<std::byte>(shape.bytes()),
                   placement.take<std::int32_t>(std::size_t{shape.tiles} * cuda::kTileRows)};
  arrays.x.rows = 1;
  arrays.x.cols = cols;
  arrays.x.values = placement.take<std::int8_t>(cols);
  arrays.x.scales = placement.take<float>(blocks);
  arrays.x.sums = placement.take<float>(blocks);
  arrays.x.block_sums = placement.take<std::int32_t>(blocks);
  arrays.x.exponents = placement.take<std::int32_t>(1);
  arrays.out = placement.take<float>(rows);
  arrays.space.sums = placement.take<std::int32_t>(cuda::product_sums(rows));
  arrays.space.tickets = placement.take<std::uint32_t>(cuda::product_tickets(rows));
  return arrays;
}

// Bytes of Q8_0 weights a second, with the kernel of decoding, over a matrix of zeros of that
// shape, which should be larger than the card's cache; takes its memory and gives it back. On the
// card that the thread has chosen.
Result<double> measure_card_rate(std::uint32_t rows, std::uint32_t cols) {
  Placement counted;
  place(rows, cols, counted);
  TRY(cuda::DeviceMemory memory, cuda::DeviceMemory::allocate(counted.bytes()));
  Placement placement(memory);
  const RateArrays arrays = place(rows, cols, placement);
  TRY(const cuda::OwnedStream stream, cuda::make_stream());
  TRY_VOID(cuda::fill_zero(memory.data(), counted.bytes(), stream.get()));
  TRY_VOID(cuda::synchronize(stream.get()));
  const std::size_t bytes =
      cuda::tile_shape(arrays.matrix.type, rows, cols).bytes() * std::size_t{kRateProducts};
  double best = 0.0;
  for (int round = 0; round < kRateRounds; ++round) {
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < kRateProducts; ++i) {
      TRY_VOID(
          cuda::product(arrays.matrix, arrays.x, arrays.out, rows, arrays.space, stream.get()));
    }
    TRY_VOID(cuda::synchronize(stream.get()));
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begun;
    if (round > 0) best = std::max(best, static_cast<double>(bytes) / spent.count());
  }
  return best;
}

// A call to the card that is no part of a stage, under a watchdog of its own. `known`: that there
// is such a card.
template <typename Call>
auto ask(CardContext& context, std::chrono::milliseconds limit, const Call& call, bool known = true)
    -> decltype(call()) {
  Watchdog watchdog(limit, [&] { context.lose(CardContext::unanswered(limit)); });
  decltype(call()) answer = Error{ErrorCode::kIo, "the GPU got no request"};
  watchdog.begin();
  const auto keep = [&]() -> Status {
    answer = call();
    return answer.ok() ? ok_status() : Status(answer.error());
  };
  const auto loses = CardContext::Loses::kWhereItFailed;
  const Status asked = known ? context.ask(loses, keep) : context.ask_driver(loses, keep);
  watchdog.end();
  TRY_VOID(asked);
  return answer;
}

class Card final : public Device {
 public:
  Card(CardOptions options, std::shared_ptr<CardContext> context, const cuda::DeviceInfo& info)
      : options_(std::move(options)),
        context_(std::move(context)),
        name_(message_of(cuda::device_kind(), ":", options_.index, " ", info.name)),
        bus_id_(info.bus_id),
        multiprocessors_(info.multiprocessors) {}

  const std::string& name() const override { return name_; }
  const std::string& bus_id() const override { return bus_id_; }
  Result<StageMemory> memory(const model::GgufFile& file, const model::ModelSpec& spec,
                             const EngineOptions& options) const override;
  Result<std::uint64_t> budget() const override;
  Status check_memory(const model::GgufFile& file, const model::ModelSpec& spec,
                      const EngineOptions& options) const override;
  Result<double> measure_weight_rate() const override {
    return ask(*context_, options_.step_limit,
               [&] { return measure_card_rate(multiprocessors_ * kRateRows, kRateCols); });
  }
  Result<std::unique_ptr<StageForward>> load(const model::GgufFile& file,
                                             const model::ModelSpec& spec,
                                             const EngineOptions& options) override;

 private:
  void say(const std::string& sentence) const {
    if (options_.say) options_.say(sentence);
  }
  // The budget held it, and yet a call found no memory: on the card, or pinned, on the host.
  Error no_memory(const Error& error, std::uint64_t all, std::uint64_t free) const {
    return {error.code, name_ + ": " + error.message + "; the stage takes " + mib(all) + " and " +
                            mib(free) +
                            " were free as it began to load: another process has taken memory of "
                            "the GPU or of this machine since"};
  }

  Result<cuda::MemoryInfo> memory_info() const {
    return ask(*context_, options_.step_limit, cuda::memory_info);
  }

  const CardOptions options_;
  const std::shared_ptr<CardContext> context_;
  const std::string name_;
  const std::string bus_id_;
  const std::uint32_t multiprocessors_;
};

Result<StageMemory> Card::memory(const model::GgufFile& file, const model::ModelSpec& spec,
                                 const EngineOptions& options) const {
  const std::string_view part = what_no_card_computes(*spec.family, spec.experts);
  if (!part.empty()) {
    return Error::of(ErrorCode::kUnsupported, name_, ": a ", spec.family->architecture,
                     " model with ", part, " runs on the CPU alone; use --device cpu");
  }
  TRY(StageMemory memory, stage_memory(file, spec, options));  // the pages that are asked for
  TRY(const CardStage::Bytes bytes,
      CardStage::bytes_of(
          file, {&spec, options.layers, options.batch_rows, memory.pages, options_.score_floats}));
  memory.weights = bytes.weights;
  memory.buffers = bytes.buffers;
  memory.page = bytes.kv_page;
  return memory;
}

Result<std::uint64_t> Card::budget() const {
  TRY(const cuda::MemoryInfo info, memory_info());
  return card_budget(info.free, info.total);
}

Status Card::check_memory(const model::GgufFile& file, const model::ModelSpec& spec,
                          const EngineOptions& options) const {
  TRY(const StageMemory memory, this->memory(file, spec, options));
  TRY(const std::uint64_t budget, this->budget());
  if (memory.least() <= budget) return ok_status();
  const std::uint64_t kv = memory.page * memory.pages_least;
  return Error::of(ErrorCode::kNoCapacity, name_, ": needs ", mib(memory.least()), ": weights ",
                   mib(memory.weights), ", KV of one sequence ", mib(kv), ", buffers ",
                   mib(memory.buffers), "; may take ", mib(budget),
                   ": the free memory less a reserve of a tenth of the GPU, at least 1 GiB");
}

Result<std::unique_ptr<StageForward>> Card::load(const model::GgufFile& file,
                                                 const model::ModelSpec& spec,
                                                 const EngineOptions& options) {
  TRY(const StageMemory memory, this->memory(file, spec, options));
  TRY_VOID(check_memory(file, spec, options));
  TRY(const std::uint64_t most, budget());
  CardForward::Setup setup;
  setup.context = context_;
  setup.spec = spec;
  const std::uint32_t pages = kv_within(memory, most).pages;
  setup.shape = {&spec, options.layers, options.batch_rows, pages, options_.score_floats};
  setup.step_limit = options_.step_limit;
  setup.say = [this](const std::string& sentence) { say(name_ + ": " + sentence); };
  setup.progress = options_.progress;
  setup.cancelled = options.cancelled;
  TRY(const CardStage::Bytes bytes, CardStage::bytes_of(file, setup.shape));
  const std::uint64_t all = bytes.all(pages);
  say(name_ + ": will take " + mib(all) + ": weights " + mib(bytes.weights) + ", " +
      std::to_string(pages) + " KV pages " + mib(bytes.kv_page * pages) + ", buffers " +
      mib(bytes.buffers) + "; may take " + mib(most));
  TRY(setup.pool, kernels::ThreadPool::create(options.threads, options.pin));
  TRY(const cuda::MemoryInfo before, memory_info());
  auto loaded = CardForward::load(file, std::move(setup));
  if (!loaded.ok() && loaded.error().code == ErrorCode::kNoCapacity) {
    return no_memory(loaded.error(), all, before.free);
  }
  TRY(std::unique_ptr<StageForward> forward, std::move(loaded));
  TRY(const cuda::MemoryInfo after, memory_info());
  const std::uint64_t taken = before.free - std::min(before.free, after.free);
  say(name_ + ": took " + mib(taken) + ", " + mib(taken - std::min(taken, all)) +
      " more than reckoned; " + mib(after.free) + " of " + mib(after.total) + " are free");
  return Result<std::unique_ptr<StageForward>>(std::move(forward));
}

std::string capability(std::uint32_t major, std::uint32_t minor) {
  return message_of(major, ".", minor);
}

// Code for one capability runs on those of the same major number from its minor number on.
Status check_capability(std::uint32_t index, const cuda::DeviceInfo& info) {
  std::string known;
  for (const std::uint32_t each : cuda::architectures()) {
    if (each / 10 == info.major && each % 10 <= info.minor) return ok_status();
    known += (known.empty() ? "" : ", ") + capability(each / 10, each % 10);
  }
  return Error::of(ErrorCode::kUnsupported, cuda::device_kind(), ":", index, " ", info.name,
                   " has compute capability ", capability(info.major, info.minor),
                   "; this program has code for ", known, "; use --device cpu");
}

Result<cuda::DeviceInfo> card_info(std::uint32_t index) {
  TRY(const std::uint32_t count, cuda::device_count());
  if (count == 0) {
    return Error::of(ErrorCode::kUnavailable, "no GPU ", cuda::device_kind(), ":", index,
                     ": there is no ", cuda::device_kind() == "cuda" ? "NVIDIA" : "OpenCL",
                     " driver, or it knows no GPU");
  }
  if (index >= count) {
    return Error::of(ErrorCode::kUnavailable, "no GPU ", cuda::device_kind(), ":", index,
                     ": the number must be below ", count, ", the driver's count");
  }
  TRY(const cuda::DeviceInfo info, cuda::device_info(index));
  TRY_VOID(check_capability(index, info));
  return info;
}

}  // namespace

std::uint64_t card_budget(std::uint64_t free, std::uint64_t total) {
  const std::uint64_t kept = std::max<std::uint64_t>(total / 10, limits::kGiB);
  return free - std::min(free, kept);
}

Status check_card(std::uint32_t index) {
  TRY_VOID(card_info(index));
  return ok_status();
}

Result<std::unique_ptr<Device>> open_card(const CardOptions& options) {
  auto context = std::make_shared<CardContext>(options.index, options.on_lost);
  const auto find = [&] { return card_info(options.index); };
  TRY(const cuda::DeviceInfo info, ask(*context, options.step_limit, find, false));
  return std::unique_ptr<Device>(std::make_unique<Card>(options, std::move(context), info));
}

}  // namespace hearth::node
