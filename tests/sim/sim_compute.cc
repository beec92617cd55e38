#include "tests/sim/sim_compute.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/canonical.h"
#include "model/synthetic.h"

namespace hearth::sim {
namespace {

// For what went out of every page: which pages a sequence gets must not matter to a trace.
constexpr std::size_t kReplayBytes = 1 << 20;

Bytes model_bytes(std::uint32_t layers) {
  model::SyntheticOptions options;
  options.layers = layers;
  options.hidden = 64;
  options.feed_forward = 64;
  options.heads = 2;
  options.kv_heads = 1;
  options.vocabulary = 300;
  options.context = 128;
  auto bytes = model::synthetic_model_bytes(options);
  INVARIANT(bytes.ok(), "the synthetic model of the simulation");
  return std::move(*bytes);
}

}  // namespace

EnginePool::EnginePool(std::uint32_t layers, std::size_t kv_bytes_per_layer)
    : kv_bytes_per_layer_(kv_bytes_per_layer), bytes_(model_bytes(layers)) {
  auto file = model::GgufFile::parse(bytes_, "synthetic");
  INVARIANT(file.ok(), "the synthetic model is a model file");
  file_ = *file;
  auto spec = model::ModelSpec::read(*file_);
  INVARIANT(spec.ok(), "the synthetic model has a known shape");
  spec_ = *spec;
}

std::unique_ptr<node::Engine> EnginePool::take(LayerRange layers, std::uint32_t stage) {
  auto& idle = idle_[{layers.begin, layers.end, stage}];
  if (!idle.empty()) {
    auto engine = std::move(idle.back());
    idle.pop_back();
    return engine;
  }
  node::EngineOptions options;
  options.layers = layers;
  options.kv_budget_bytes = layers.size() * kv_bytes_per_layer_;
  options.batch_rows = 64;
  options.replay_bytes = kReplayBytes;
  options.stage = stage;
  auto engine = node::Engine::load(file_, spec_, options);
  INVARIANT(engine.ok(), engine.error().message.c_str());
  return std::move(*engine);
}

void EnginePool::give_back(LayerRange layers, std::uint32_t stage,
                           std::unique_ptr<node::Engine> engine) {
  engine->reset();
  idle_[{layers.begin, layers.end, stage}].push_back(std::move(engine));
}

SimCompute::SimCompute(EnginePool& pool, SimWorld& world, std::uint32_t slowness)
    : pool_(pool), world_(world), slowness_(slowness) {}

SimCompute::~SimCompute() {
  *alive_ = false;
  drop_engine();
}

void SimCompute::drop_engine() {
  if (engine_) pool_.give_back(layers_, stage_, std::move(engine_));
}

void SimCompute::answer_after(Duration time, std::function<void()> what) {
  free_at_ = std::max(free_at_, world_.now()) + time;
  answers_.push_back(std::move(what));
  world_.at(free_at_, [alive = alive_, this] {
    if (*alive) answer();
  });
}

void SimCompute::answer() {
  if (frozen_) {
    ++owed_;
    return;
  }
  const std::function<void()> what = std::move(answers_.front());
  answers_.pop_front();
  what();
}

void SimCompute::thaw() {
  frozen_ = false;
  for (; owed_ > 0; --owed_) {
    world_.after(Duration(1), [alive = alive_, this] {
      if (*alive) answer();
    });
  }
}

void SimCompute::load(Epoch epoch, LayerRange layers, std::uint32_t stage,
                      std::uint32_t /*batch_rows*/) {
  const bool is_loaded = engine_ && layers == layers_ && stage == stage_;
  const Duration time = load_time_ && !is_loaded ? load_time_() : world_.microseconds(500, 30'000);
  answer_after(time, [this, epoch, layers, stage] {
    const bool drops = std::exchange(distrusted_, false);
    if (engine_ && layers == layers_ && stage == stage_) {
      drops ? engine_->reset() : engine_->keep();
    } else {
      drop_engine();
      layers_ = layers;
      stage_ = stage;
      engine_ = pool_.take(layers, stage);
    }
    events_->on_loaded(
        epoch, node::StageComputeEvents::Loaded{engine_->input_shape(), engine_->kv_pages(),
                                                engine_->weight_bytes(), engine_->sequences()});
  });
}

void SimCompute::forget() {
  answer_after({}, [this] {
    if (engine_) engine_->reset();
  });
}

void SimCompute::unload() {
  answer_after(world_.microseconds(100, 20'000), [this] {
    drop_engine();
    events_->on_unloaded();
  });
}

void SimCompute::compute(StepBatch batch) {
  const Duration time = step_time_ ? step_time_(layers_, batch.rows.size())
                                   : world_.microseconds(100, 600) * slowness_;
  answer_after(time, [this, batch = std::move(batch)]() mutable {
    node::StepResult result;
    Status status = engine_->step(batch, result);
    events_->on_computed(std::move(batch), std::move(result), std::move(status));
  });
}

node::StageOptions stage_options(const std::string& node, const EnginePool& pool,
                                 std::uint32_t incarnation) {
  node::StageOptions options;
  options.node = node;
  options.control_address = kControlAddress;
  options.model_fingerprint = "00ff";
  options.layers = pool.spec().layers;
  options.canonical_version = kernels::kCanonicalVersion;
  options.isa = "sim";
  options.threads = 1;
  options.process_id = incarnation;
  return options;
}

}  // namespace hearth::sim
