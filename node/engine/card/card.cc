#include "node/engine/card/card.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "base/limits.h"
#include "kernels/cuda/runtime.h"
#include "node/engine/card/card_forward.h"
#include "node/engine/card/card_rate.h"
#include "node/engine/kv_cache.h"
#include "proto/split.h"

namespace hearth::node {
namespace {

namespace cuda = kernels::cuda;

// Rows a multiprocessor of the matrix that the rate is measured with: 142 MB on a 4090, of which
// its cache holds half.
constexpr std::uint32_t kRateRows = 128;

std::string mib(std::uint64_t bytes) {
  char text[48];
  std::snprintf(text, sizeof text, "%.1f MiB",
                static_cast<double>(bytes) / static_cast<double>(limits::kMiB));
  return text;
}

class Card final : public Device {
 public:
  Card(CardOptions options, const cuda::DeviceInfo& info)
      : options_(std::move(options)),
        name_("cuda:" + std::to_string(options_.index) + " " + info.name),
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
    return measure_card_rate(options_.index, multiprocessors_ * kRateRows, 8'192);
  }
  Result<std::unique_ptr<StageForward>> load(const model::GgufFile& file,
                                             const model::ModelSpec& spec,
                                             const EngineOptions& options) override;

 private:
  void say(const std::string& sentence) const {
    if (options_.say) options_.say(sentence);
  }

  const CardOptions options_;
  const std::string name_;
  const std::string bus_id_;
  const std::uint32_t multiprocessors_;
};

Result<StageMemory> Card::memory(const model::GgufFile& file, const model::ModelSpec& spec,
                                 const EngineOptions& options) const {
  TRY(StageMemory memory, stage_memory(file, spec, options));  // the pages that are asked for
  TRY(const CardForward::Bytes bytes,
      CardForward::bytes_of(file, spec, options.layers, options.batch_rows, memory.pages));
  memory.weights = bytes.weights;
  memory.buffers = bytes.buffers;
  memory.page = bytes.kv_page;
  return memory;
}

Result<std::uint64_t> Card::budget() const {
  TRY_VOID(cuda::use_device(options_.index));
  TRY(const cuda::MemoryInfo info, cuda::memory_info());
  const std::uint64_t budget = card_budget(info.free, info.total);
  return options_.memory_bytes > 0 ? std::min(budget, options_.memory_bytes) : budget;
}

Status Card::check_memory(const model::GgufFile& file, const model::ModelSpec& spec,
                          const EngineOptions& options) const {
  TRY(const StageMemory memory, this->memory(file, spec, options));
  TRY(const std::uint64_t budget, this->budget());
  if (memory.least() <= budget) return ok_status();
  const std::uint64_t kv = memory.page * memory.pages_least;
  return Error{ErrorCode::kNoCapacity,
               name_ + ": needs " + mib(memory.least()) + ": weights " + mib(memory.weights) +
                   ", KV of one sequence " + mib(kv) + ", buffers " + mib(memory.buffers) +
                   "; may take " + mib(budget) +
                   ", which is what is free less a tenth of the card, at least 1 GiB"};
}

Result<std::unique_ptr<StageForward>> Card::load(const model::GgufFile& file,
                                                 const model::ModelSpec& spec,
                                                 const EngineOptions& options) {
  TRY(const StageMemory memory, this->memory(file, spec, options));
  TRY_VOID(check_memory(file, spec, options));
  TRY(const std::uint64_t most, budget());
  CardForward::Setup setup;
  setup.device = options_.index;
  setup.spec = spec;
  setup.layers = options.layers;
  setup.batch_rows = options.batch_rows;
  setup.kv_pages = static_cast<std::uint32_t>(kv_within(memory, most) / memory.page);
  setup.step_limit = options_.step_limit;
  setup.on_lost = options_.on_lost;
  setup.say = [this](const std::string& sentence) { say(name_ + ": " + sentence); };
  setup.progress = options_.progress;
  TRY(const CardForward::Bytes bytes,
      CardForward::bytes_of(file, spec, options.layers, options.batch_rows, setup.kv_pages));
  const std::uint64_t all = bytes.all(setup.kv_pages);
  say(name_ + ": will take " + mib(all) + ": weights " + mib(bytes.weights) + ", " +
      std::to_string(setup.kv_pages) + " KV pages " + mib(bytes.kv_page * setup.kv_pages) +
      ", buffers " + mib(bytes.buffers) + "; may take " + mib(most));
  TRY(setup.pool, kernels::ThreadPool::create(options.threads, options.pin));
  TRY(const cuda::MemoryInfo before, cuda::memory_info());
  TRY(std::unique_ptr<StageForward> forward, CardForward::load(file, std::move(setup)));
  TRY(const cuda::MemoryInfo after, cuda::memory_info());
  const std::uint64_t taken = before.free - std::min(before.free, after.free);
  say(name_ + ": took " + mib(taken) + ", " + mib(taken - std::min(taken, all)) +
      " more than reckoned; " + mib(after.free) + " of " + mib(after.total) + " are free");
  return Result<std::unique_ptr<StageForward>>(std::move(forward));
}

}  // namespace

std::uint64_t card_budget(std::uint64_t free, std::uint64_t total) {
  const std::uint64_t kept = std::max<std::uint64_t>(total / 10, limits::kGiB);
  return free - std::min(free, kept);
}

Result<std::unique_ptr<Device>> open_card(const CardOptions& options) {
  TRY(const std::uint32_t count, cuda::device_count());
  if (options.index >= count) {
    return Error{ErrorCode::kUnavailable, "no card cuda:" + std::to_string(options.index) +
                                              ": the driver shows " + std::to_string(count)};
  }
  TRY(const cuda::DeviceInfo info, cuda::device_info(options.index));
  return std::unique_ptr<Device>(std::make_unique<Card>(options, info));
}

}  // namespace hearth::node
