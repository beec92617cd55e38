// A device whose steps take as long as another machine's would: it computes on the processor, then
// sleeps until HEARTH_PACED_STEP_US microseconds have passed since the step began, and
// HEARTH_PACED_ROW_US more for each row behind the first. So a pipeline of large cards can be
// measured on a small machine: what is computed is real, how long a stage takes is declared.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cuda/runtime.h"
#include "kernels/thread_pool.h"
#include "node/engine/card/card.h"
#include "node/engine/card/card_check.h"
#include "node/engine/forward.h"
#include "node/engine/stage_memory.h"

namespace hearth::node {
namespace {

using Microseconds = std::chrono::microseconds;

// 0 where the environment has none.
Microseconds given(const char* name) {
  const char* text = std::getenv(name);
  return Microseconds(text == nullptr ? 0 : std::strtoul(text, nullptr, 10));
}

class PacedForward final : public StageForward {
 public:
  explicit PacedForward(Forward::Setup setup) : inner_(std::move(setup)) {}

  bool may_overlap() const override { return false; }
  Status begin(std::span<const ForwardRow> rows, const Outputs& outputs) override {
    const auto begun = std::chrono::steady_clock::now();
    const Status done = inner_.begin(rows, outputs);
    const auto behind_first = static_cast<std::int64_t>(rows.empty() ? 0 : rows.size() - 1);
    std::this_thread::sleep_until(begun + step_ + behind_first * row_);
    return done;
  }
  bool ready() const override { return true; }
  Status finish() override { return inner_.finish(); }
  bool failed(std::uint32_t row) const override { return inner_.failed(row); }
  std::uint16_t* input() override { return inner_.input(); }
  const std::uint16_t* output() const override { return inner_.output(); }
  PagePool& pages() override { return inner_.pages(); }
  const PagePool& pages() const override { return inner_.pages(); }
  Result<const std::byte*> page(std::uint32_t index, std::uint32_t layer) const override {
    return inner_.page(index, layer);
  }
  StatePool* states() override { return inner_.states(); }
  ByteSpan state(std::uint32_t state, std::uint32_t layer) const override {
    return inner_.state(state, layer);
  }
  unsigned threads() const override { return inner_.threads(); }
  std::size_t weight_bytes() const override { return inner_.weight_bytes(); }

 private:
  Forward inner_;
  const Microseconds step_ = given("HEARTH_PACED_STEP_US");
  const Microseconds row_ = given("HEARTH_PACED_ROW_US");
};

class PacedDevice final : public Device {
 public:
  const std::string& name() const override { return name_; }
  const std::string& bus_id() const override { return bus_id_; }
  Result<StageMemory> memory(const model::GgufFile& file, const model::ModelSpec& spec,
                             const EngineOptions& options) const override {
    return stage_memory(file, spec, options);
  }
  Result<std::uint64_t> budget() const override { return memory_budget(0); }
  Status check_memory(const model::GgufFile& file, const model::ModelSpec& spec,
                      const EngineOptions& options) const override {
    TRY(const StageMemory stage, stage_memory(file, spec, options));
    return node::check_memory({stage}, memory_budget(options.memory_bytes));
  }
  Result<double> measure_weight_rate() const override { return 1e9; }
  Result<std::unique_ptr<StageForward>> load(const model::GgufFile& file,
                                             const model::ModelSpec& spec,
                                             const EngineOptions& options) override {
    const kernels::Kernels* kernels = options.kernels;
    if (kernels == nullptr) {
      TRY(kernels, kernels::select_kernels());
    }
    TRY(const StageMemory stage, stage_memory(file, spec, options));
    const std::uint64_t budget = memory_budget(options.memory_bytes);
    TRY_VOID(node::check_memory({stage}, budget));
    const KvShare share = kv_within(stage, budget - kProcessBytes);
    TRY(KvCache cache,
        KvCache::create(spec.kv_layouts(options.layers), share.page_bytes(stage), stage.pages));
    TRY(auto pool, kernels::ThreadPool::create(options.threads, options.pin));
    TRY(StageWeights weights,
        StageWeights::load(file, spec, options.layers, pool.get(), options.cancelled));
    return std::unique_ptr<StageForward>(std::make_unique<PacedForward>(
        Forward::Setup{spec, std::move(weights), kernels, std::move(cache), std::move(pool),
                       options.layers, options.batch_rows, share.states}));
  }

 private:
  std::string name_ = "paced:0 processor with declared times";
  std::string bus_id_;
};

}  // namespace

Result<std::unique_ptr<Device>> open_card(const CardOptions&) {
  return std::unique_ptr<Device>(std::make_unique<PacedDevice>());
}
Status check_card(std::uint32_t) { return ok_status(); }
// Its arithmetic is the processor's, which has answered when it was selected.
Status check_device(Device&, const std::string&, const std::vector<model::TensorType>&) {
  return ok_status();
}
std::vector<model::TensorType> weight_types(const model::GgufFile&, const model::ModelSpec&) {
  return {};
}

}  // namespace hearth::node

namespace hearth::kernels::cuda {

Result<std::uint32_t> device_count() { return 64U; }

}  // namespace hearth::kernels::cuda
