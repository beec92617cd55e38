#include "coordinator/machine/missing.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "proto/split.h"

namespace hearth::coordinator {
namespace {

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
  return "; " + std::to_string(options.stages) + " of them have room for " + std::to_string(room) +
         " of the model's " + std::to_string(options.layers) + " layers";
}

std::string missing_owners(const Registry& registry) {
  std::string sentence;
  std::uint32_t named = 0;
  for (const Node* node : registry.all()) {
    const bool barred = !node->status.barred.empty();
    if ((!node->status.away && !barred) || named++ >= kOwnersNamed) continue;
    if (barred) {
      sentence += "; worker " + node->status.name + " is given no work: " + node->status.barred;
      continue;
    }
    sentence +=
        "; worker " + node->status.name + " is " + verb_of(*node->status.away) + " by its owner";
  }
  return sentence;
}

}  // namespace

const char* verb_of(const Away& away) { return away.drain ? "drained" : "paused"; }

std::string missing_sentence(const CoordinatorOptions& options, const Registry& registry,
                             const Pipelines& pipelines, const std::string& last_loss) {
  const std::uint32_t count = registry.here();
  std::string sentence = std::to_string(count);
  if (count <= options.stages && options.stages > 0) {
    sentence += " of " + std::to_string(options.stages);
  }
  sentence += " workers are registered" + missing_owners(registry);
  const std::string& waiting = pipelines.placing().waiting();
  if (pipelines.none() && !waiting.empty()) sentence += "; " + waiting;
  if (pipelines.none()) sentence += missing_room(options, registry);
  std::uint32_t named = 0;
  const std::vector<const Node*> here = registry.all();
  for (const HandStage& stage : options.by_hand) {
    const bool absent = std::none_of(here.begin(), here.end(), [&](const Node* node) {
      return node->status.name == stage.node;
    });
    if (!absent || named == kMissingNamed) continue;
    sentence += "; the layers are placed by hand, and worker " + stage.node + " is not here";
    ++named;
  }
  for (const auto& [epoch, pipeline] : pipelines.all()) {
    if (pipeline.checking) continue;
    for (std::uint32_t stage = 0; stage < pipeline.members.size(); ++stage) {
      if (pipeline.members[stage].ready || named == kMissingNamed) continue;
      sentence += "; " + pipeline.describe(stage) + " is not ready yet";
      ++named;
    }
  }
  if (!last_loss.empty()) sentence += "; before, " + last_loss;
  return sentence;
}

std::vector<LayerRange> uncovered_layers(const CoordinatorOptions& options,
                                         const Registry& registry, const Pipelines& pipelines) {
  const bool even = !options.placement && options.by_hand.empty();
  if (!pipelines.none() || !even) return {};
  std::vector<LayerRange> layers = split_layers(options.layers, options.stages);
  std::size_t others = 0;
  for (const Node* node : registry.all()) {
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
