#include "coordinator/pipelines/pipelines.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/check.h"
#include "coordinator/pipelines/groups.h"
#include "coordinator/workers/holdings.h"
#include "proto/fixed_field.h"
#include "proto/split.h"

namespace hearth::coordinator {
namespace {

// Keeps a worker that fails at once from being tried in a tight loop; spare ones go first.
constexpr Duration kRest = std::chrono::milliseconds(500);
constexpr Duration kSettling = std::chrono::seconds(3);
constexpr std::uint32_t kPageTokensMost = 65'536;

std::uint32_t room_of(const Node& node) { return node.status.layers_most - 1; }  // 0: any number

void set_times(const placement::StepTimes& times, control::v1::Assign& assign) {
  assign.set_batches_in_flight(placement::steps_at_most(times));
  control::v1::StepTimes& given = *assign.mutable_times();
  given.set_batch_rows(times.batch_rows);
  given.set_ring_seconds(times.ring.one);
  given.set_ring_batch_seconds(times.ring.batch);
  for (const placement::RowSeconds& part : times.parts) {
    given.add_part_seconds(part.one);
    given.add_part_batch_seconds(part.batch);
  }
}

bool has_room(const Node& node, const LayerRange& layers) {
  return room_of(node) >= layers.size() - 1;
}

// Takes the best of them for these layers out of `nodes`; null: no node has room.
Node* take_best(std::vector<Node*>& nodes, const LayerRange& layers) {
  const auto cost = [&](const Node* node) {
    const bool loaded = node->loaded && node->status.layers == layers;
    const bool held = !node->status.partial || holds(node->status, layers);
    return std::tuple(!loaded, !held, room_of(*node));
  };
  auto best = nodes.end();
  for (auto at = nodes.begin(); at != nodes.end(); ++at) {
    if (!has_room(**at, layers)) continue;
    if (best == nodes.end() || cost(*at) < cost(*best)) best = at;
  }
  if (best == nodes.end()) return nullptr;
  Node* node = *best;
  nodes.erase(best);
  return node;
}

// Nodes for these layers, by stage, at least one of them a newcomer: newcomers first, each with
// room for its layers, and of those who has loaded them, then who holds them, then who has the
// least room. Nothing: no node is left for a stage, which `missing` then names.
std::optional<Placed> place_checkers(const std::vector<LayerRange>& cut,
                                     std::vector<Node*> newcomers, std::vector<Node*> spares,
                                     LayerRange& missing) {
  // The largest stage first: fewest have room for it.
  std::vector<std::size_t> order(cut.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t stage) { return cut[stage].size(); });
  Placed placed{std::vector<Node*>(cut.size()), cut};
  bool any = false;
  for (const std::size_t stage : order) {
    Node* node = take_best(newcomers, cut[stage]);
    any = any || node != nullptr;
    if (node == nullptr) node = take_best(spares, cut[stage]);
    if (node == nullptr) {
      missing = cut[stage];
      return std::nullopt;
    }
    placed.nodes[stage] = node;
  }
  INVARIANT(std::ranges::count(placed.nodes, nullptr) == 0, "each stage has a node");
  return any ? std::optional(std::move(placed)) : std::nullopt;
}

Placed placed_of(const Grouping& groups) {
  Placed placed;
  for (const GroupedStage& stage : groups.stages) {
    placed.nodes.push_back(stage.nodes.front());
    placed.layers.push_back(stage.layers);
    std::vector<PlacedRank>& group = placed.groups.emplace_back();
    for (std::size_t rank = 0; rank < stage.nodes.size(); ++rank) {
      group.push_back({stage.nodes[rank], stage.parts[rank]});
    }
  }
  return placed;
}

// Empty: they form no pipeline, or one that must fetch layers first.
std::vector<std::string> names_of(const Grouping& groups) {
  std::vector<std::string> names;
  for (const GroupedStage& stage : groups.stages) {
    for (const Node* node : stage.nodes) {
      if (node->status.partial && !holds(node->status, stage.layers)) return {};
      names.push_back(node->status.name);
    }
  }
  return names;
}

}  // namespace

const std::string& Member::node_of(std::uint32_t rank) const {
  INVARIANT(rank <= others.size(), "a rank is one of its stage's");
  return rank == 0 ? node : others[rank - 1].node;
}

bool Pipeline::all_ready() const {
  return std::ranges::all_of(members, [](const Member& member) {
    return member.ready && std::ranges::all_of(member.others, &Rank::ready);
  });
}

bool Pipeline::is_ready(Seat seat) const {
  const Member& member = members[seat.stage];
  return seat.rank == 0 ? member.ready : member.others[seat.rank - 1].ready;
}

std::vector<std::string> Pipeline::nodes() const {
  std::vector<std::string> names;
  for_each([&](Seat, const std::string& node, LinkId) { names.push_back(node); });
  return names;
}

std::string Pipeline::describe(Seat seat) const {
  const Member& member = members[seat.stage];
  const std::string rank = member.others.empty() ? ""
                                                 : message_of("rank ", seat.rank + 1, " of ",
                                                              member.others.size() + 1, " of ");
  return message_of("worker ", member.node_of(seat.rank), " (", rank, "stage ", seat.stage + 1,
                    " of ", members.size(), ", layers ", text_of(member.layers), ")");
}

Pipelines::Pipelines(const CoordinatorOptions& options, const Clock& clock, Registry& registry)
    : options_(options),
      clock_(clock),
      registry_(registry),
      ways_(clock, options.relay != nullptr, options.punch != nullptr),
      placing_(options, clock, ways_),
      numbers_(*options.numbers) {
  numbers_.epoch = std::max(numbers_.epoch, options.first_epoch);
}

std::vector<LayerRange> Pipelines::split(const std::vector<Node*>& nodes) const {
  std::vector<std::uint32_t> most;
  for (std::uint32_t i = 0; i < options_.stages; ++i) most.push_back(nodes[i]->status.layers_most);
  return split_layers(options_.layers, most);
}

// Who has loaded a stage gets it again, so that after a loss only the lost stage is loaded anew.
// The other stages go to those that hold their layers, then to those whose turn it is; who is in
// doubt comes last and has no claim to what it loaded.
std::vector<Node*> Pipelines::by_stage(const std::vector<Node*>& free) const {
  std::vector<Node*> stages(options_.stages);
  std::vector<Node*> others;
  const auto claims = [&](const Node* node) {
    return node->loaded && node->status.stage < options_.stages &&
           stages[node->status.stage] == nullptr;
  };
  for (Node* node : free) {
    if (claims(node) && !doubtful(*node)) {
      stages[node->status.stage] = node;
    } else {
      others.push_back(node);
    }
  }
  std::stable_partition(others.begin(), others.end(),
                        [&](const Node* node) { return !node->loaded && !doubtful(*node); });
  const std::vector<LayerRange> all = split_layers(options_.layers, options_.stages);
  std::vector<std::uint32_t> open;
  std::vector<LayerRange> layers;
  for (std::uint32_t i = 0; i < options_.stages; ++i) {
    if (stages[i] != nullptr) continue;
    open.push_back(i);
    layers.push_back(all[i]);
  }
  others = arrange(layers, std::move(others));
  INVARIANT(others.size() >= open.size(), "each open stage has a free node");
  for (std::size_t i = 0; i < open.size(); ++i) {
    const Node* node = others[i];
    const auto own = std::ranges::find(open, node->status.stage);
    if (node->status.partial || !node->loaded || own == open.end()) continue;
    Node*& there = others[static_cast<std::size_t>(own - open.begin())];
    if (!there->status.partial) std::swap(others[i], there);
  }
  for (std::size_t i = 0; i < open.size(); ++i) stages[open[i]] = others[i];
  return stages;
}

// Where the nodes that were chosen have no room for the model, those with the most room.
std::vector<LayerRange> Pipelines::choose(std::vector<Node*>& free) const {
  if (free.size() < options_.stages) return {};
  std::vector<Node*> stages = by_stage(free);
  std::vector<LayerRange> layers = split(stages);
  if (!layers.empty()) {
    free = std::move(stages);
    return layers;
  }
  std::ranges::stable_sort(free, std::ranges::greater(), [](Node* node) { return room_of(*node); });
  return split(free);
}

// A node that would have to fetch other layers than it has waits a little for those that have them:
// after a coordinator's start all come back, one after the other. Once there was a pipeline there
// may be requests, which do not wait.
bool Pipelines::settles(const std::vector<Node*>& nodes,
                        const std::vector<LayerRange>& layers) const {
  if (formed_) return false;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const NodeStatus& status = nodes[i]->status;
    const bool other =
        status.held_total > 0 && status.held != layers[i] && !holds(status, layers[i]);
    if (other && clock_.now() - nodes[i]->since < kSettling) return true;
  }
  return false;
}

std::vector<LayerRange> Pipelines::by_hand(std::vector<Node*>& free) const {
  std::vector<Node*> nodes;
  std::vector<LayerRange> layers;
  for (const HandStage& stage : options_.by_hand) {
    const auto named = std::ranges::find_if(
        free, [&](const Node* node) { return node->status.name == stage.node; });
    if (named == free.end()) return {};
    nodes.push_back(*named);
    layers.push_back(stage.layers);
  }
  free = std::move(nodes);
  return layers;
}

// `free`: those that are taken, by stage, where any are.
std::vector<LayerRange> Pipelines::next(std::vector<Node*>& free) {
  if (!options_.by_hand.empty()) return by_hand(free);
  std::vector<LayerRange> layers = choose(free);
  if (settles(free, layers)) layers.clear();
  return layers;
}

Pipeline* Pipelines::form_groups() {
  Grouping groups = choose_groups(options_, ways_, registry_.free_nodes());
  why_groups_wait_ = std::move(groups.waiting);
  if (groups.stages.empty()) return nullptr;
  return &begin(placed_of(groups));
}

Pipeline* Pipelines::form() {
  if (options_.ranks > 1) return form_groups();
  std::vector<Node*> free = registry_.free_nodes();
  if (options_.placement && options_.by_hand.empty()) {
    const std::optional<Placed> placed = placing_.choose(std::move(free), !none());
    return placed ? &begin(*placed) : nullptr;
  }
  std::vector<LayerRange> layers = next(free);
  return layers.empty() ? nullptr : &begin({std::move(free), std::move(layers)});
}

Pipeline& Pipelines::begin(const Placed& placed) {
  const Epoch epoch(numbers_.epoch++);
  formed_ = true;
  const std::size_t stages = placed.layers.size();
  INVARIANT(stages > 0 && placed.nodes.size() >= stages, "each stage has a node");
  INVARIANT(placed.groups.empty() || placed.groups.size() == stages, "a group computes a stage");
  INVARIANT(!pipelines_.contains(epoch), "an epoch names one pipeline");
  Pipeline& pipeline = pipelines_[epoch];
  pipeline.epoch = epoch;
  pipeline.deadline = clock_.now() + options_.forming_timeout;
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    const LayerRange layers = placed.layers[stage];
    const bool has_group = placed.has_group(stage);
    const auto ranks = has_group ? static_cast<std::uint32_t>(placed.groups[stage].size()) : 1U;
    Node& first = *placed.nodes[stage];
    registry_.assign(first, epoch, stage, layers, 0, ranks);
    pipeline.members.push_back({first.status.name, first.link, first.status.data_address, layers,
                                false, first.status.newcomer});
    if (!has_group) continue;
    const std::vector<PlacedRank>& group = placed.groups[stage];
    INVARIANT(ranks > 1 && group.front().node == &first, "rank 0 of a group has its stage");
    Member& member = pipeline.members.back();
    member.rank_address = first.status.rank_address;
    member.part = group.front().part;
    for (std::uint32_t rank = 1; rank < ranks; ++rank) {
      Node& node = *group[rank].node;
      registry_.assign(node, epoch, stage, layers, rank, ranks);
      member.others.push_back(
          {node.status.name, node.link, node.status.rank_address, group[rank].part});
    }
  }
  pipeline.times = placing_.times_of(placed);
  return pipeline;
}

std::size_t Pipelines::placed() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(pipelines_, [](const auto& one) { return !one.second.checking; }));
}

std::size_t Pipelines::serving() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      pipelines_, [](const auto& one) { return one.second.serving && !one.second.checking; }));
}

// Of the cuts that others have, the first in which those who are free make a pipeline.
Pipeline* Pipelines::form_checking(const std::string& build) {
  std::vector<Node*> newcomers = registry_.free_newcomers();
  std::erase_if(newcomers, [&](const Node* node) { return node->status.build != build; });
  if (newcomers.empty()) return nullptr;
  std::vector<Node*> spares = registry_.free_nodes();
  std::erase_if(spares, [&](const Node* node) {
    return node->status.build != build || clock_.now() - node->since < kSettling;
  });
  if (placing_.hopes()) spares.clear();  // they may be wanted in a moment
  why_newcomers_wait_ = "no pipeline serves that it could check";
  for (const auto& [epoch, other] : pipelines_) {
    if (!other.serving || other.checking || !other.model) continue;
    std::vector<LayerRange> cut;
    for (const Member& member : other.members) cut.push_back(member.layers);
    LayerRange missing;
    const auto found = place_checkers(cut, newcomers, spares, missing);
    if (!found) {
      why_newcomers_wait_ = "no free node has room for layers " + text_of(missing);
      continue;
    }
    Pipeline& pipeline = begin(*found);
    for (Node* node : found->nodes) node->checks = true;
    pipeline.checking = {registry_.unplaced(), serving()};
    return &pipeline;
  }
  return nullptr;
}

bool Pipelines::has_cut(const Pipeline& pipeline) const {
  return std::ranges::any_of(pipelines_, [&](const auto& one) {
    return !one.second.checking && std::ranges::equal(one.second.members, pipeline.members, {},
                                                      &Member::layers, &Member::layers);
  });
}

std::vector<std::pair<Epoch, std::string>> Pipelines::outdated() const {
  std::vector<std::pair<Epoch, std::string>> out;
  for (const auto& [epoch, one] : pipelines_) {
    if (!one.checking) continue;
    bool is_done = false;
    bool has_lent = false;
    for (const Member& member : one.members) {
      const Node* node = registry_.find(member.node);
      has_lent = has_lent || !member.newcomer;
      is_done = is_done || (member.newcomer && node != nullptr && !node->status.newcomer);
    }
    const bool wanted =
        registry_.unplaced() > one.checking->unplaced || serving() < one.checking->serving;
    if (is_done) {
      out.emplace_back(epoch, "a newcomer has finished its checks and may serve");
    } else if (has_lent && wanted) {
      out.emplace_back(epoch, "a node of standing in it may be needed by a serving pipeline");
    } else if (placed() > 0 && !has_cut(one)) {
      out.emplace_back(epoch, "no pipeline has its layer split any more");
    }
  }
  return out;
}

control::v1::Assign Pipelines::assign_message(const Pipeline& pipeline, Seat seat,
                                              const std::string& coordinator_address) const {
  const std::uint32_t stage = seat.stage;
  const auto stages = static_cast<std::uint32_t>(pipeline.members.size());
  INVARIANT(stage < stages, "a stage is one of its pipeline's");
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
  assign.set_itl_target_milliseconds(static_cast<std::uint32_t>(options_.itl_target.count()));
  if (pipeline.model) assign.set_model(to_field(pipeline.model->bytes));
  std::uint32_t protocol = protocol_version();
  pipeline.for_each([&](Seat, const std::string& name, LinkId) {
    const Node* node = registry_.find(name);
    protocol = std::min(protocol, node == nullptr ? kProtocolOldest : node->status.protocol);
  });
  assign.set_protocol(protocol);
  // An older first stage would always have the most steps in flight.
  if (pipeline.times && protocol >= kProtocolStepTimes) set_times(*pipeline.times, assign);
  const Member& member = pipeline.members[stage];
  if (member.others.empty()) return assign;
  assign.set_rank(seat.rank);
  const auto add = [&](const std::string& node, const std::string& address, std::uint32_t part) {
    control::v1::Rank& rank = *assign.add_group();
    rank.set_node(node);
    rank.set_address(address);
    rank.set_part(part);
  };
  add(member.node, member.rank_address, member.part);
  for (const Rank& rank : member.others) add(rank.node, rank.address, rank.part);
  return assign;
}

Status Pipelines::ready(Pipeline& pipeline, Seat seat, const control::v1::StageReady& ready) {
  REQUIRE(ready.kv_pages() > 0, "the stage has no KV page");
  REQUIRE(ready.kv_page_tokens() > 0 && ready.kv_page_tokens() <= kPageTokensMost, "a KV page of ",
          ready.kv_page_tokens(), " positions; it must have 1 to ", kPageTokensMost);
  REQUIRE(pipeline.kv_page_tokens == 0 || pipeline.kv_page_tokens == ready.kv_page_tokens(),
          "its KV pages have ", ready.kv_page_tokens(), " positions, those of the other stages ",
          pipeline.kv_page_tokens);
  const std::uint32_t least = pipeline.kv_pages == 0 ? ready.kv_pages() : pipeline.kv_pages;
  pipeline.kv_pages = std::min(least, ready.kv_pages());
  pipeline.kv_page_tokens = ready.kv_page_tokens();
  if (ready.sequences() > 0) {
    pipeline.sequences = std::min(pipeline.sequences, ready.sequences());
    pipeline.keeps_prefixes = false;
  }
  INVARIANT(pipeline.kv_pages > 0, "a pipeline with a ready stage has a KV page");
  Member& member = pipeline.members[seat.stage];
  INVARIANT(seat.rank <= member.others.size(), "a rank is one of its stage's");
  (seat.rank == 0 ? member.ready : member.others[seat.rank - 1].ready) = true;
  return ok_status();
}

std::vector<std::string> Pipelines::successor(const Pipeline& pipeline) const {
  std::vector<Node*> nodes = registry_.free_nodes();
  pipeline.for_each([&](Seat, const std::string& name, LinkId) {
    Node* node = registry_.find(name);
    const bool stays = node != nullptr && !node->status.away && node->status.barred.empty();
    if (stays && !registry_.slow(*node)) nodes.push_back(node);
  });
  if (options_.ranks > 1) return names_of(choose_groups(options_, ways_, nodes));
  if (options_.by_hand.empty() && options_.placement) return placing_.sure(nodes);
  const std::vector<LayerRange> layers = options_.by_hand.empty() ? choose(nodes) : by_hand(nodes);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const NodeStatus& status = nodes[i]->status;
    if (status.partial && !holds(status, layers[i])) return {};
    names.push_back(status.name);
  }
  return names;
}

std::optional<Better> Pipelines::better() {
  if (options_.ranks > 1 || !options_.placement || !options_.by_hand.empty()) return std::nullopt;
  if (!placing_.may_improve()) return std::nullopt;
  std::vector<Node*> nodes = registry_.free_nodes();
  std::vector<Placed> running;
  bool all_here = true;
  for (const auto& [epoch, pipeline] : pipelines_) {
    if (pipeline.checking) continue;
    if (!pipeline.serving) return std::nullopt;
    Placed& placed = running.emplace_back();
    pipeline.for_each([&](Seat seat, const std::string& name, LinkId) {
      Node* node = registry_.find(name);
      all_here = all_here && node != nullptr && !node->status.away;
      if (!all_here) return;
      nodes.push_back(node);
      const Member& member = pipeline.members[seat.stage];
      if (seat.rank == 0) {
        placed.nodes.push_back(node);
        placed.layers.push_back(member.layers);
        placed.groups.emplace_back();
      }
      if (member.others.empty()) return;
      const std::uint32_t part = seat.rank == 0 ? member.part : member.others[seat.rank - 1].part;
      placed.groups.back().push_back({node, part});
    });
  }
  if (!all_here) return std::nullopt;
  return placing_.better(std::move(nodes), running);
}

void Pipelines::end(Epoch epoch, const std::vector<std::string>& culprits) {
  const auto found = pipelines_.find(epoch);
  if (found == pipelines_.end()) return;
  const bool late = !found->second.serving && clock_.now() >= found->second.deadline;
  const Pipeline& ended = found->second;
  ended.for_each([&](Seat seat, const std::string& name, LinkId) {
    Node* node = registry_.find(name);
    if (node == nullptr || node->status.epoch != epoch) return;
    const bool culprit = std::ranges::count(culprits, name) > 0;
    registry_.free(*node, culprit || (late && !ended.is_ready(seat)) ? kRest : Duration::zero());
  });
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
