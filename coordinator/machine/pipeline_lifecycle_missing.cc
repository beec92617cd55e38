#include <algorithm>
#include <cstdint>
#include <numeric>

#include "coordinator/machine/pipeline_lifecycle.h"
#include "coordinator/workers/registry.h"
#include "proto/split.h"

namespace hearth::coordinator {
namespace {

// How long a failed or silent node may return: its supervisor or owner restarts it, slowly on a
// busy machine, or its network comes back.
constexpr Duration kReturnPatience = std::chrono::seconds(20);
constexpr std::uint32_t kMissingNamed = 4;  // stages, in one sentence
constexpr std::uint32_t kOwnersNamed = 4;   // workers that are away or barred, in one sentence

// Empty, unless it is room that keeps the workers from forming a pipeline.
std::string missing_room(const CoordinatorOptions& options, const Registry& registry) {
  std::vector<std::uint64_t> rooms;
  for (const NodeStatus& node : registry.snapshot()) {
    if (node.state == "lost" || node.away || !node.barred.empty() || node.newcomer) continue;
    rooms.push_back(node.layers_most == 0 ? options.layers : node.layers_most);
  }
  if (options.stages == 0 || rooms.size() < options.stages) return "";
  std::sort(rooms.rbegin(), rooms.rend());
  const auto room = std::accumulate(rooms.begin(), rooms.begin() + options.stages, 0ULL);
  if (room >= options.layers) return "";
  return message_of("; ", options.stages, " of them have room for ", room, " of the model's ",
                    options.layers, " layers");
}

std::string missing_owners(const Registry& registry) {
  std::string sentence;
  std::uint32_t named = 0;
  for (const Node* node : registry.all()) {
    const bool barred = !node->status.barred.empty();
    if ((!node->status.away && !barred) || named++ >= kOwnersNamed) continue;
    if (barred) {
      sentence += "; worker " + node->status.name + " is barred: " + node->status.barred;
      continue;
    }
    const Away& away = *node->status.away;
    sentence += "; worker " + node->status.name + " is " + verb_of(away) + " by " + giver_of(away);
  }
  return sentence;
}

}  // namespace

const char* verb_of(const Away& away) { return away.drain ? "drained" : "paused"; }

const char* giver_of(const Away& away) {
  return away.why == kAwayByAdmin ? kAwayByAdmin : "its owner";
}

// As many as a pipeline takes are here and rest, or are silent and may come back. How many it takes
// where layers are placed by measurements is unknown: any that may come back counts.
bool PipelineLifecycle::enough_may_return() const {
  std::uint32_t silent = 0;
  std::uint32_t resting = 0;
  for (const Node* node : registry_.known()) {
    if (!Registry::may_serve(*node)) continue;
    if (registry_.may_return(*node, kReturnPatience)) {
      ++silent;
    } else if (node->state == Node::State::kFree) {
      ++resting;
    }
  }
  const std::uint32_t wanted = options_.stages * std::max(1U, options_.ranks);
  return wanted > 0 ? silent + resting >= wanted : silent > 0;
}

bool PipelineLifecycle::may_come() const {
  const bool forming = std::ranges::any_of(pipelines_.all(), [](const auto& one) {
    return !one.second.serving && !one.second.checking;
  });
  const bool failed_lately = failed_at_ && clock_.now() - *failed_at_ < kReturnPatience;
  return forming || failed_lately || enough_may_return() || pipelines_.placing().hopes();
}

std::string PipelineLifecycle::missing() const {
  const std::uint32_t count = registry_.here();
  std::string sentence = std::to_string(count);
  const std::uint32_t wanted = options_.stages * std::max(1U, options_.ranks);
  if (count <= wanted && wanted > 0) sentence += " of " + std::to_string(wanted);
  sentence += " workers are registered" + missing_owners(registry_);
  const std::string& waiting = pipelines_.placing().waiting();
  if (pipelines_.none() && !waiting.empty()) sentence += "; " + waiting;
  const std::string& groups = pipelines_.why_groups_wait();
  if (pipelines_.none() && !groups.empty()) sentence += "; " + groups;
  if (pipelines_.none() && options_.ranks <= 1) sentence += missing_room(options_, registry_);
  std::uint32_t named = 0;
  const std::vector<const Node*> here = registry_.all();
  for (const HandStage& stage : options_.by_hand) {
    const bool absent = std::ranges::none_of(
        here, [&](const Node* node) { return node->status.name == stage.node; });
    if (!absent || named == kMissingNamed) continue;
    sentence += "; the layers are placed by hand, and worker " + stage.node + " is not connected";
    ++named;
  }
  for (const auto& [epoch, pipeline] : pipelines_.all()) {
    if (pipeline.checking) continue;
    pipeline.for_each([&](Seat seat, const std::string&, LinkId) {
      if (pipeline.is_ready(seat) || named == kMissingNamed) return;
      sentence += "; " + pipeline.describe(seat) + " is not ready yet";
      ++named;
    });
  }
  if (!last_loss_.empty()) sentence += "; before, " + last_loss_;
  return sentence;
}

std::vector<LayerRange> PipelineLifecycle::uncovered() const {
  const bool even = !options_.placement && options_.by_hand.empty() && options_.ranks == 1;
  if (!pipelines_.none() || !even) return {};
  std::vector<LayerRange> layers = split_layers(options_.layers, options_.stages);
  std::size_t others = 0;
  for (const Node* node : registry_.all()) {
    if (!Registry::may_serve(*node)) continue;
    const auto own = std::ranges::find(layers, node->status.layers);
    const bool keeps = node->loaded && own != layers.end();
    if (keeps) layers.erase(own);
    if (!keeps) ++others;
  }
  layers.erase(layers.begin(), layers.begin() + std::min(others, layers.size()));
  return layers;
}

}  // namespace hearth::coordinator
