// SimCompute: a StageCompute over the real Engine, whose answers come after a simulated time.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/engine.h"
#include "node/pipeline/stage.h"
#include "tests/sim/sim_world.h"

namespace hearth::sim {

// Room for a few sequences at once, so that admission has something to refuse.
constexpr std::size_t kKvBytesPerLayer = 160 * 1024;

// Where the coordinator of a simulation listens.
constexpr const char* kControlAddress = "coordinator:control";

// The model of all swarms, and engines that are loaded once and lent to one stage at a time.
class EnginePool {
 public:
  explicit EnginePool(std::uint32_t layers = 5, std::size_t kv_bytes_per_layer = kKvBytesPerLayer);
  const std::shared_ptr<const model::GgufFile>& file() const { return file_; }
  const model::ModelSpec& spec() const { return spec_; }

  std::unique_ptr<node::Engine> take(LayerRange layers, std::uint32_t stage);
  void give_back(LayerRange layers, std::uint32_t stage, std::unique_ptr<node::Engine> engine);

 private:
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
  const std::size_t kv_bytes_per_layer_;
  Bytes bytes_;  // that file_ looks into
  std::shared_ptr<const model::GgufFile> file_;
  model::ModelSpec spec_;
  std::map<Key, std::vector<std::unique_ptr<node::Engine>>> idle_;
};

class SimCompute final : public node::StageCompute {
 public:
  // `slowness` multiplies the time of every step.
  SimCompute(EnginePool& pool, SimWorld& world, std::uint32_t slowness);
  // From here on a step takes so long, in place of a random time.
  using StepTime = std::function<Duration(LayerRange layers, std::size_t rows)>;
  void set_step_time(StepTime step_time) { step_time_ = std::move(step_time); }
  // Likewise, the load of layers that are not loaded yet.
  void set_load_time(std::function<Duration()> load_time) { load_time_ = std::move(load_time); }
  ~SimCompute() override;

  void set_events(node::StageComputeEvents* events) override { events_ = events; }
  void load(Epoch epoch, LayerRange layers, std::uint32_t stage, std::uint32_t batch_rows) override;
  void compute(StepBatch batch) override;
  void forget() override;
  void distrust() override { distrusted_ = true; }
  void check_weights() override {
    answer_after({}, [this] { events_->on_weights_checked(ok_status()); });
  }
  void unload() override;
  bool loaded() const { return engine_ != nullptr; }
  // A process that is stopped answers nothing; what it owed comes when it goes on.
  void freeze() { frozen_ = true; }
  void thaw();
  std::uint32_t kv_pages_used() const { return engine_ ? engine_->kv_pages_used() : 0; }

 private:
  // Questions are answered one after the other; none once this object is gone.
  void answer_after(Duration time, std::function<void()> what);
  void answer();
  void drop_engine();

  EnginePool& pool_;
  SimWorld& world_;
  std::uint32_t slowness_;
  StepTime step_time_;
  std::function<Duration()> load_time_;
  node::StageComputeEvents* events_ = nullptr;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  TimePoint free_at_{};
  std::deque<std::function<void()>> answers_;
  std::uint32_t owed_ = 0;  // of answers_, since it was frozen
  bool frozen_ = false;
  bool distrusted_ = false;  // the next load drops the kept pages
  std::unique_ptr<node::Engine> engine_;
  LayerRange layers_;
  std::uint32_t stage_ = 0;
};

// Of the stage of a simulated node in its `incarnation`: what all simulations have in common.
node::StageOptions stage_options(const std::string& node, const EnginePool& pool,
                                 std::uint32_t incarnation);

}  // namespace hearth::sim
