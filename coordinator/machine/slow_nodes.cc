#include "coordinator/machine/slow_nodes.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/check.h"
#include "coordinator/machine/pipeline_lifecycle.h"
#include "coordinator/machine/standing_view.h"
#include "coordinator/machine/worker_holdings.h"
#include "coordinator/scheduling/scheduler.h"
#include "coordinator/workers/registry.h"

namespace hearth::coordinator {
namespace {

// A stage is slow when its steps take this many times what they took before, and this many times
// more than those of the pipeline's other stages: a longer context slows all of them.
constexpr double kSlowTimes = 3.0;
constexpr Duration kChosenLastFor = std::chrono::minutes(1);

double median(std::vector<double> values) {
  INVARIANT(!values.empty(), "a pipeline with a slow stage has others");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string how_slow(double times) {
  return "its steps take " + std::to_string(std::lround(std::min(times, 1e6))) +
         " times as long as before";
}

}  // namespace

std::optional<std::uint32_t> SlowNodes::slow_stage(const Pipeline& pipeline) {
  if (!pipeline.serving || pipeline.checking || pipeline.members.size() < 2) return std::nullopt;
  std::vector<double> times;
  for (const Member& member : pipeline.members) {
    Node* node = registry_.find(member.node);
    // In a group, rank 0's time contains its waits for the others, so it shows no slow machine.
    const bool shows = node != nullptr && member.others.empty();
    times.push_back(shows ? node->pace.slowness() : 1.0);
  }
  const auto slowest = std::ranges::max_element(times);
  const auto stage = static_cast<std::uint32_t>(slowest - times.begin());
  const double most = *slowest;
  times.erase(slowest);
  if (most < kSlowTimes || most < kSlowTimes * median(times)) return std::nullopt;
  return stage;
}

void SlowNodes::prepare_spare(LayerRange layers) {
  Node* chosen = nullptr;
  for (Node* node : registry_.free_nodes()) {
    const bool has_room =
        node->status.layers_most == 0 || layers.size() <= node->status.layers_most;
    if (!node->status.partial || node->late || node->slow || !has_room) continue;
    if (node->plan == layers) return;
    if (chosen == nullptr) chosen = node;
  }
  if (chosen == nullptr) return;
  const std::string why = "the stage of a machine that has become slow";
  spdlog::info("worker {} is ordered to hold layers {}: {}", chosen->status.name, text_of(layers),
               why);
  holdings_.send_plan(*chosen, layers, why);
}

void SlowNodes::on_timer() {
  if (clock_.now() < look_at_) return;
  look_at_ = clock_.now() + options_.heartbeat / 2;  // the times of steps come with heartbeats
  std::vector<std::pair<Epoch, std::uint32_t>> slow;
  for (const auto& [epoch, pipeline] : pipelines_.all()) {
    if (const auto stage = slow_stage(pipeline)) slow.emplace_back(epoch, *stage);
  }
  for (const auto& [epoch, stage] : slow) route_around(epoch, stage);
}

void SlowNodes::route_around(Epoch epoch, std::uint32_t stage) {
  const Pipeline* pipeline = pipelines_.find(epoch);
  if (pipeline == nullptr) return;  // it ended for the one before
  Node* node = registry_.find(pipeline->members[stage].node);
  INVARIANT(node != nullptr, "members of a pipeline are registered");
  const std::string how = how_slow(node->pace.slowness());
  if (!registry_.slow(*node)) spdlog::warn("worker {} is slow: {}", node->status.name, how);
  node->slow_until = clock_.now() + kChosenLastFor;
  node->status.slow = how;
  const std::vector<std::string> next = pipelines_.successor(*pipeline);
  if (next.empty()) return prepare_spare(pipeline->members[stage].layers);
  const auto pool = scheduler_.pools().find(epoch);
  const bool runs = pool != scheduler_.pools().end() && pool->second.running > 0;
  if (runs && !scheduler_.may_all_run_on(epoch, next, standings_.level_of(next))) return;
  lifecycle_.end(epoch, pipeline->describe({stage, 0}) + " is slow: " + how, {});
}

}  // namespace hearth::coordinator
