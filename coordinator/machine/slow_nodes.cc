// The coordinator's part in machines that have become slow: their owner plays, their clocks are
// turned down, others have their processors.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "coordinator/machine/coordinator_machine.h"

namespace hearth::coordinator {
namespace {

// Against the node's own steps of before, and against what the pipeline's other stages have become
// by now: a longer context makes all of them slower.
constexpr double kSlow = 3.0;
constexpr Duration kSlowFor = std::chrono::minutes(1);

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string how_slow(double times) {
  return "its steps take " + std::to_string(std::lround(std::min(times, 1e6))) +
         " times as long as they did";
}

}  // namespace

std::optional<std::uint32_t> CoordinatorMachine::slow_stage(const Pipeline& pipeline) {
  if (!pipeline.serving || pipeline.checking || pipeline.members.size() < 2) return std::nullopt;
  std::vector<double> times;
  for (const Member& member : pipeline.members) {
    Node* node = registry_.find(member.node);
    times.push_back(node == nullptr ? 1.0 : node->pace.slowness());
  }
  const auto slowest = std::max_element(times.begin(), times.end());
  const auto stage = static_cast<std::uint32_t>(slowest - times.begin());
  const double most = *slowest;
  times.erase(slowest);
  if (most < kSlow || most < kSlow * median(times)) return std::nullopt;
  return stage;
}

// One that has other layers of the model on its disk fetches these, and then can.
void CoordinatorMachine::prepare_spare(LayerRange layers) {
  Node* chosen = nullptr;
  for (Node* node : registry_.free_nodes()) {
    const bool has_room =
        node->status.layers_most == 0 || layers.size() <= node->status.layers_most;
    if (!node->status.partial || node->late || node->slow || !has_room) continue;
    if (node->plan == layers) return;
    if (chosen == nullptr) chosen = node;
  }
  if (chosen == nullptr) return;
  chosen->plan = layers;
  chosen->why = "the stage of a machine that has become slow";
  spdlog::info("worker {} is to hold layers {}: {}", chosen->status.name, text_of(layers),
               chosen->why);
  send_control(chosen->link, hold_message(*chosen));
}

// Where others can take its layers at once; else it stays, for a slow answer is one. What runs goes
// on there, as after a loss.
void CoordinatorMachine::route_around_slow() {
  std::vector<std::pair<Epoch, std::uint32_t>> slow;
  for (const auto& [epoch, pipeline] : pipelines_.all()) {
    if (const auto stage = slow_stage(pipeline)) slow.emplace_back(epoch, *stage);
  }
  for (const auto& [epoch, stage] : slow) {
    const Pipeline* pipeline = pipelines_.find(epoch);
    if (pipeline == nullptr) continue;  // the one before took its room
    Node* node = registry_.find(pipeline->members[stage].node);
    const std::string how = how_slow(node->pace.slowness());
    if (!registry_.slow(*node)) spdlog::warn("worker {} is slow: {}", node->status.name, how);
    node->slow_until = clock_.now() + kSlowFor;
    node->status.slow = how;
    const std::vector<std::string> next = pipelines_.successor(*pipeline);
    const auto pool = scheduler_.pools().find(epoch);
    const bool runs = pool != scheduler_.pools().end() && pool->second.running > 0;
    if (next.empty()) {
      prepare_spare(pipeline->members[stage].layers);
      continue;
    }
    if (runs && !scheduler_.may_all_run_on(epoch, next, level_of(next))) continue;
    end_pipeline(epoch, pipeline->describe(stage) + " is slow: " + how, {});
  }
}

}  // namespace hearth::coordinator
