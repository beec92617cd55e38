#include "coordinator/pipelines.h"

#include <algorithm>

#include "proto/split.h"

namespace hearth::coordinator {
namespace {

// Keeps a worker that fails at once from being tried in a tight loop; spare ones go first.
constexpr Duration kRest = std::chrono::milliseconds(500);
constexpr std::uint32_t kPageTokensMost = 65'536;

}  // namespace

bool Pipeline::all_ready() const {
  return std::all_of(members.begin(), members.end(), [](const Member& m) { return m.ready; });
}

std::string Pipeline::describe(std::uint32_t stage) const {
  const Member& member = members[stage];
  return "worker " + member.node + " (stage " + std::to_string(stage) + " of " +
         std::to_string(members.size()) + ", layers " + std::to_string(member.layers.begin) +
         " to " + std::to_string(member.layers.end) + ")";
}

Pipelines::Pipelines(const CoordinatorOptions& options, const Clock& clock, Registry& registry)
    : options_(options), clock_(clock), registry_(registry), next_epoch_(options.first_epoch) {}

// The nodes whose turn it is. Where they have no room for the model, those with the most room.
std::vector<LayerRange> Pipelines::choose(std::vector<Node*>& free) const {
  const auto split = [&] {
    std::vector<std::uint32_t> most;
    for (std::uint32_t i = 0; i < options_.stages; ++i) most.push_back(free[i]->status.layers_most);
    return split_layers(options_.layers, most);
  };
  if (free.size() < options_.stages) return {};
  std::vector<LayerRange> layers = split();
  if (!layers.empty() || free.size() == options_.stages) return layers;
  const auto room = [](const Node* node) { return node->status.layers_most - 1; };  // 0: any number
  std::stable_sort(free.begin(), free.end(),
                   [&](const Node* a, const Node* b) { return room(a) > room(b); });
  return split();
}

Pipeline* Pipelines::form() {
  std::vector<Node*> free = registry_.free_nodes();
  const std::vector<LayerRange> layers = choose(free);
  if (layers.empty()) return nullptr;
  const Epoch epoch(next_epoch_++);
  Pipeline& pipeline = pipelines_[epoch];
  pipeline.epoch = epoch;
  pipeline.deadline = clock_.now() + options_.forming_timeout;
  for (std::uint32_t stage = 0; stage < options_.stages; ++stage) {
    Node& node = *free[stage];
    registry_.assign(node, epoch, stage, layers[stage]);
    pipeline.members.push_back(
        {node.status.name, node.link, node.status.data_address, layers[stage], false});
  }
  return &pipeline;
}

control::v1::Assign Pipelines::assign_message(const Pipeline& pipeline, std::uint32_t stage,
                                              const std::string& coordinator_address) const {
  const auto stages = static_cast<std::uint32_t>(pipeline.members.size());
  control::v1::Assign assign;
  assign.set_epoch(pipeline.epoch.value);
  assign.set_stage(stage);
  assign.set_stages(stages);
  assign.mutable_layers()->set_begin(pipeline.members[stage].layers.begin);
  assign.mutable_layers()->set_end(pipeline.members[stage].layers.end);
  assign.set_next_address(pipeline.members[(stage + 1) % stages].data_address);
  assign.set_next_node(pipeline.members[(stage + 1) % stages].node);
  assign.set_previous_node(pipeline.members[(stage + stages - 1) % stages].node);
  assign.set_coordinator_address(coordinator_address);
  assign.set_batch_rows(options_.batch_rows);
  assign.set_batches_in_flight(stages + 1);
  return assign;
}

Status Pipelines::ready(Pipeline& pipeline, std::uint32_t stage,
                        const control::v1::StageReady& ready) {
  REQUIRE(ready.kv_pages() > 0, "the stage has no KV page");
  REQUIRE(ready.kv_page_tokens() > 0 && ready.kv_page_tokens() <= kPageTokensMost,
          "a KV page of " + std::to_string(ready.kv_page_tokens()) +
              " positions; it must have 1 to " + std::to_string(kPageTokensMost));
  REQUIRE(pipeline.kv_page_tokens == 0 || pipeline.kv_page_tokens == ready.kv_page_tokens(),
          "KV pages of " + std::to_string(ready.kv_page_tokens()) + " positions beside pages of " +
              std::to_string(pipeline.kv_page_tokens));
  const std::uint32_t least = pipeline.kv_pages == 0 ? ready.kv_pages() : pipeline.kv_pages;
  pipeline.kv_pages = std::min(least, ready.kv_pages());
  pipeline.kv_page_tokens = ready.kv_page_tokens();
  pipeline.members[stage].ready = true;
  return ok_status();
}

void Pipelines::end(Epoch epoch, const std::vector<std::string>& culprits) {
  const auto found = pipelines_.find(epoch);
  if (found == pipelines_.end()) return;
  const bool late = !found->second.serving && clock_.now() >= found->second.deadline;
  for (const Member& member : found->second.members) {
    Node* node = registry_.find(member.node);
    if (node == nullptr || node->status.epoch != epoch) continue;
    const bool culprit = std::count(culprits.begin(), culprits.end(), member.node) > 0;
    registry_.free(*node, culprit || (late && !member.ready) ? kRest : Duration::zero());
  }
  pipelines_.erase(found);
}

Pipeline* Pipelines::find(Epoch epoch) {
  const auto found = pipelines_.find(epoch);
  return found == pipelines_.end() ? nullptr : &found->second;
}

std::vector<Epoch> Pipelines::overdue() const {
  std::vector<Epoch> epochs;
  for (const auto& [epoch, pipeline] : pipelines_) {
    if (!pipeline.serving && clock_.now() >= pipeline.deadline) epochs.push_back(epoch);
  }
  return epochs;
}

}  // namespace hearth::coordinator
