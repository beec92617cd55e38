#include "placement/groups.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "placement/costs.h"
#include "placement/parts.h"
#include "placement/search.h"

namespace hearth::placement {
namespace {

using Group = std::vector<Rank>;
using NodeSet = std::uint32_t;
static_assert(limits::kExactNodes < std::numeric_limits<NodeSet>::digits, "a bit for each node");
static_assert(limits::kRanks >= 2 && kGroupGain > 1.0, "a group is quicker than its nodes");

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr double kSumError = 1e-9;  // of a sum of seconds
// Before a group's layers: the batch goes from rank 0 to the others, and all agree on the step.
constexpr double kStepExchanges = 2.0;

double fraction_of(const Rank& rank) { return rank.part / static_cast<double>(kParts); }

std::uint64_t within(std::uint64_t bytes, double part) {
  constexpr auto kAny = std::numeric_limits<std::uint64_t>::max();
  if (part <= 0.0 || bytes == kAny) return kAny;
  const double all = std::floor(static_cast<double>(bytes) / part);
  return all < 1e18 ? static_cast<std::uint64_t>(all) : kAny;
}

// Whether two nodes may change places in every placement. Memory counts by the layers that it
// holds.
bool interchangeable(const Problem& problem, std::uint32_t a, std::uint32_t b) {
  const Node& one = problem.nodes[a];
  const Node& other = problem.nodes[b];
  const auto equal = [](const RowSeconds& x, const RowSeconds& y) {
    return x.one == y.one && x.batch == y.batch;
  };
  if (problem.islands[a] != problem.islands[b] || one.step_seconds != other.step_seconds ||
      !equal(one.layer, other.layer) || !equal(one.head, other.head)) {
    return false;
  }
  const Stage whole_one{a, {0, problem.layers()}};
  const Stage whole_other{b, {0, problem.layers()}};
  const bool same_memory =
      one.memory_bytes == other.memory_bytes && one.kv_budget_bytes == other.kv_budget_bytes;
  if (!same_memory && !(fits(problem, whole_one) && fits(problem, whole_other))) return false;
  const auto same = [&](std::uint32_t from, std::uint32_t to, std::uint32_t other_from,
                        std::uint32_t other_to) {
    const Link& x = problem.link(from, to);
    const Link& y = problem.link(other_from, other_to);
    return x.delay_seconds == y.delay_seconds && x.bytes_per_second == y.bytes_per_second;
  };
  if (!same(a, b, b, a)) return false;
  for (std::uint32_t third = 0; third < problem.nodes.size(); ++third) {
    if (third == a || third == b) continue;
    if (!same(a, third, b, third) || !same(third, a, third, b)) return false;
  }
  return true;
}

// The groups that may be in a pipeline, and the pipelines of the shapes that they make.
class ShapeSearch {
 public:
  ShapeSearch(const Problem& problem, const std::vector<Stage>& alone)
      : problem_(problem),
        costs_(problem),
        count_(static_cast<std::uint32_t>(problem.nodes.size())),
        latency_(problem.objective != Objective::kThroughput) {
    INVARIANT(count_ <= limits::kExactNodes, "the exact search is for a few nodes");
    if (!alone.empty()) limit_ = cost_seconds(problem, alone) / kGroupGain;
    all_weight_ = costs_.weight({0, problem.layers()});
    for (std::uint32_t i = 0; i < problem.layers(); ++i) {
      const double weight = costs_.weight({i, i + 1});
      least_weight_ = std::min(least_weight_, weight);
      most_weight_ = std::max(most_weight_, weight);
    }
    const auto& bytes = problem.model.layer_bytes;
    least_bytes_ = *std::min_element(bytes.begin(), bytes.end());
    for (const Node& node : problem.nodes) alone_.push_back(figures_of(node));
    find_classes();
    Nodes none;
    find_groups(0, none);
  }

  std::optional<std::vector<Stage>> run() {
    std::vector<Shape> shapes = all_shapes();
    std::ranges::stable_sort(shapes, {}, &Shape::bound);
    std::vector<Found> found;
    double best = kUnbounded;
    double steps = 0.0;
    for (const Shape& shape : shapes) {
      if (shape.bound > most(best) * (1.0 + kSumError)) break;
      steps += steps_of(shape);
      if (steps > kShapeSteps && steps > steps_of(shape)) break;  // one is always searched
      auto one = pipeline_of(shape, 0);
      if (!one || one->seconds > limit_) continue;
      best = std::min(best, one->seconds);
      found.push_back(*std::move(one));
    }
    if (found.empty()) return std::nullopt;
    const double limit = most(best) * (1.0 + kSumError);
    std::erase_if(found, [&](const Found& one) { return one.seconds > limit; });
    INVARIANT(!found.empty(), "the best pipeline is within its own limit");
    const auto chosen = std::ranges::min_element(found, {}, [](const Found& one) {
      return std::tuple(one.nodes, one.stages.size(), one.seconds);
    });
    return with_fewest_stages(*chosen, limit);
  }

 private:
  using Nodes = std::vector<std::uint32_t>;
  struct Figures {
    double layer = 0.0;  // seconds, as the objective counts them
    double step = 0.0;
    double head = 0.0;
    double weight = 0.0;  // at most, that the memory holds
  };
  struct Candidate {
    NodeSet nodes = 0;
    Group group;
    Figures figures;
    std::vector<std::uint32_t> kind;  // nodes of each class, then the kind of its parts
  };
  struct Shape {
    std::vector<std::uint32_t> groups;  // of candidates_, by falling kind
    NodeSet nodes = 0;                  // of all groups
    double bound = 0.0;
  };
  struct Found {
    Shape shape;
    std::vector<Stage> stages;
    double seconds = 0.0;
    std::size_t nodes = 0;
  };

  bool is_auto() const { return problem_.objective == Objective::kAuto; }
  double steps_of(const Shape& shape) const {
    const auto ranks = static_cast<std::size_t>(std::popcount(shape.nodes));
    const auto count = static_cast<double>(count_ - ranks + shape.groups.size());
    return count * count * count * std::exp2(count);
  }
  // The seconds that a pipeline may take, where the best one takes `best`.
  double most(double best) const { return std::min(limit_, is_auto() ? kAutoMargin * best : best); }

  Figures figures_of(const Node& node) const {
    const auto held = static_cast<double>(
        std::min<std::uint64_t>(node.memory_bytes / least_bytes_, problem_.layers()));
    return {latency_ ? node.layer.one : std::max(node.layer.one, node.layer.batch),
            node.step_seconds, latency_ ? node.head.one : std::max(node.head.one, node.head.batch),
            std::min(all_weight_, held * most_weight_)};
  }

  void find_classes() {
    for (std::uint32_t node = 0; node < count_; ++node) {
      if (problem_.islands[node] == kNoIsland) continue;
      const auto same = std::ranges::find_if(classes_, [&](const Nodes& others) {
        return interchangeable(problem_, others.front(), node);
      });
      if (same != classes_.end()) {
        same->push_back(node);
      } else {
        classes_.push_back({node});
      }
    }
  }

  // Nodes of a class are taken in their order, so those of one group stand side by side in it.
  void find_groups(std::size_t next, Nodes& nodes) {
    if (next == classes_.size()) return add_group(nodes);
    const Nodes& of_class = classes_[next];
    find_groups(next + 1, nodes);
    for (std::size_t begin = 0; begin < of_class.size(); ++begin) {
      const std::size_t before = nodes.size();
      for (std::size_t end = begin; end < of_class.size() && nodes.size() < limits::kRanks; ++end) {
        nodes.push_back(of_class[end]);
        find_groups(next + 1, nodes);
      }
      nodes.resize(before);
    }
  }

  void add_group(Nodes nodes) {
    if (nodes.size() < 2 || !may_form_group(problem_, nodes)) return;
    std::ranges::sort(nodes);
    Group by_speed = divide_group(problem_, nodes, 0);
    INVARIANT(by_speed.size() == nodes.size(), "any memory holds nothing");
    const Stage whole{nodes.front(), {0, problem_.layers()}, by_speed};
    const bool holds_all = fits(problem_, whole);
    add_candidate(nodes, std::move(by_speed), 0);
    if (holds_all) return;
    std::uint64_t memory = 0;
    for (const std::uint32_t node : nodes) memory += problem_.nodes[node].memory_bytes;
    // Each rank's room is rounded to a part.
    const std::uint64_t room = memory - memory * nodes.size() / kParts;
    Group by_memory =
        divide_group(problem_, nodes, std::min(room, stage_bytes(problem_, whole.layers)));
    if (!by_memory.empty()) add_candidate(nodes, std::move(by_memory), 1);
  }

  void add_candidate(const Nodes& nodes, Group group, std::uint32_t kind) {
    Candidate one;
    one.figures = figures_of(group_node(problem_, group));
    double quickest = kUnbounded;
    for (const std::uint32_t node : nodes) {
      quickest = std::min(quickest, alone_[node].layer);
      one.nodes |= NodeSet{1} << node;
    }
    if (one.figures.layer * kGroupGain > quickest) return;
    for (const Nodes& of_class : classes_) {
      one.kind.push_back(static_cast<std::uint32_t>(std::ranges::count_if(
          of_class, [&](std::uint32_t node) { return ((one.nodes >> node) & 1U) != 0; })));
    }
    one.kind.push_back(kind);
    one.group = std::move(group);
    candidates_.push_back(std::move(one));
  }

  // Whether the group takes the first nodes of each class that the shape leaves.
  bool takes_first(NodeSet used, NodeSet group) const {
    for (const Nodes& of_class : classes_) {
      bool left_out = false;
      for (const std::uint32_t node : of_class) {
        if (((used >> node) & 1U) != 0) continue;
        const bool taken = ((group >> node) & 1U) != 0;
        if (taken && left_out) return false;
        left_out = left_out || !taken;
      }
    }
    return true;
  }

  // Level by level: with one group, with two, and so on.
  std::vector<Shape> all_shapes() const {
    std::vector<Shape> all;
    std::vector<Shape> level(1);
    while (!level.empty()) {
      std::vector<Shape> next;
      for (const Shape& shape : level) extend(shape, next);
      if (next.size() > kShapesMost) {
        std::ranges::stable_sort(next, {}, &Shape::bound);
        next.resize(kShapesMost);
      }
      all.insert(all.end(), next.begin(), next.end());
      level = std::move(next);
    }
    return all;
  }

  void extend(const Shape& shape, std::vector<Shape>& out) const {
    for (std::uint32_t i = 0; i < candidates_.size(); ++i) {
      const Candidate& one = candidates_[i];
      if ((one.nodes & shape.nodes) != 0 || !takes_first(shape.nodes, one.nodes)) continue;
      if (!shape.groups.empty() && one.kind > candidates_[shape.groups.back()].kind) continue;
      Shape& longer = out.emplace_back(shape);
      longer.groups.push_back(i);
      longer.nodes |= one.nodes;
      longer.bound = bound_of(longer);
    }
  }

  // Seconds that no pipeline with all groups of the shape falls below.
  double bound_of(const Shape& shape) const {
    std::vector<Figures> all;
    for (const std::uint32_t group : shape.groups) all.push_back(candidates_[group].figures);
    for (std::uint32_t node = 0; node < count_; ++node) {
      if (((shape.nodes >> node) & 1U) == 0) all.push_back(alone_[node]);
    }
    if (!latency_) {
      double rate = 0.0;
      for (const Figures& each : all) rate += 1.0 / each.layer;
      return all_weight_ / rate;
    }
    const auto groups = static_cast<std::ptrdiff_t>(shape.groups.size());
    double seconds = 0.0;
    double left = all_weight_;
    double head = kUnbounded;
    for (std::size_t i = 0; i < all.size(); ++i) {
      head = std::min(head, all[i].head);
      if (static_cast<std::ptrdiff_t>(i) >= groups) continue;
      seconds += all[i].step + least_weight_ * all[i].layer;
      left -= least_weight_;
      all[i].weight -= least_weight_;
    }
    std::ranges::sort(all, {}, &Figures::layer);
    for (const Figures& each : all) {
      const double more = std::clamp(each.weight, 0.0, std::max(left, 0.0));
      seconds += more * each.layer;
      left -= more;
    }
    return left > kSumError * all_weight_ ? kUnbounded : seconds + head;
  }

  // `stages`: as many; 0: the best number.
  std::optional<Found> pipeline_of(const Shape& shape, std::uint32_t stages) const {
    std::vector<Group> groups;
    for (const std::uint32_t each : shape.groups) groups.push_back(candidates_[each].group);
    Problem asked = problem_;
    if (stages > 0) asked.stages = stages;
    const Grouped grouped(asked, groups);
    const auto best = search(grouped.problem(), (std::uint32_t{1} << grouped.groups()) - 1);
    if (!best) return std::nullopt;
    Found found{shape, grouped.expand(*best)};
    found.seconds = cost_seconds(problem_, found.stages);
    for (const Stage& stage : found.stages) {
      stage.for_each_node([&](std::uint32_t) { ++found.nodes; });
    }
    return found;
  }

  std::vector<Stage> with_fewest_stages(const Found& found, double limit) const {
    if (!is_auto() || problem_.stages != 0) return found.stages;
    const auto fewest = static_cast<std::uint32_t>(found.shape.groups.size());
    for (std::uint32_t stages = fewest; stages < found.stages.size(); ++stages) {
      auto fewer = pipeline_of(found.shape, stages);
      if (fewer && fewer->seconds <= limit) return std::move(fewer->stages);
    }
    return found.stages;
  }

  const Problem& problem_;
  const Costs costs_;
  const std::uint32_t count_;
  const bool latency_;
  double limit_ = kUnbounded;  // the seconds at which groups gain enough
  double all_weight_ = 0.0;
  double least_weight_ = kUnbounded;  // of a layer
  double most_weight_ = 0.0;
  std::uint64_t least_bytes_ = 0;
  std::vector<Figures> alone_;  // of each node
  std::vector<Nodes> classes_;  // of interchangeable nodes
  std::vector<Candidate> candidates_;
};

}  // namespace

Node group_node(const Problem& problem, const std::vector<Rank>& group) {
  INVARIANT(group.size() >= 2, "a group has two ranks at least");
  const Exchanges& exchanges = problem.model.exchanges;
  Node all;
  all.name = problem.nodes[group.front().node].name;
  all.memory_bytes = std::numeric_limits<std::uint64_t>::max();
  double delay = 0.0;
  double rate = kUnbounded;
  double sent = 0.0;  // of what all ranks exchange: by, or to, the rank with the most
  std::uint32_t parts = 0;
  for (const Rank& rank : group) {
    const Node& node = problem.nodes[rank.node];
    const double own = fraction_of(rank);
    const double computed = exchanges.whole_part + (1.0 - exchanges.whole_part) * own;
    all.step_seconds = std::max(all.step_seconds, node.step_seconds);
    all.layer.one = std::max(all.layer.one, computed * node.layer.one);
    all.layer.batch = std::max(all.layer.batch, computed * node.layer.batch);
    all.head.one = std::max(all.head.one, own * node.head.one);
    all.head.batch = std::max(all.head.batch, own * node.head.batch);
    all.memory_bytes = std::min(all.memory_bytes, within(node.memory_bytes, computed));
    all.kv_budget_bytes = std::min(all.kv_budget_bytes, within(node.kv_budget_bytes, own));
    sent = std::max({sent, own * static_cast<double>(group.size() - 1), 1.0 - own});
    parts += rank.part;
    for (const Rank& other : group) {
      if (other.node == rank.node) continue;
      const Link& link = problem.link(rank.node, other.node);
      INVARIANT(link.bytes_per_second > 0.0, "the ranks of a group are linked");
      delay = std::max(delay, link.delay_seconds);
      rate = std::min(rate, link.bytes_per_second);
    }
  }
  INVARIANT(parts == kParts, "the parts of a group are together the whole");
  const double batch = problem.batch_rows;
  const double layer = sent * static_cast<double>(exchanges.layer_bytes) / rate;
  const double head =
      (1.0 - fraction_of(group.front())) * static_cast<double>(exchanges.head_bytes) / rate;
  all.step_seconds += kStepExchanges * delay;
  all.layer.one += exchanges.of_layer * delay + layer;
  all.layer.batch += exchanges.of_layer * delay + batch * layer;
  all.head.one += delay + head;
  all.head.batch += delay + batch * head;
  return all;
}

std::vector<Rank> divide_group(const Problem& problem, const std::vector<std::uint32_t>& nodes,
                               std::uint64_t bytes) {
  std::vector<RankFigures> figures;
  for (const std::uint32_t node : nodes) {
    const Node& each = problem.nodes[node];
    figures.push_back({1.0 / each.layer.one, each.memory_bytes});
  }
  const std::vector<std::uint32_t> parts = divide_parts(figures, bytes);
  std::vector<Rank> group;
  for (std::size_t i = 0; i < parts.size(); ++i) group.push_back({nodes[i], parts[i]});
  return group;
}

bool may_form_group(const Problem& problem, const std::vector<std::uint32_t>& nodes) {
  if (problem.islands.empty() || problem.model.exchanges.of_layer == 0) return false;
  if (nodes.size() < 2 || nodes.size() > limits::kRanks) return false;
  const std::uint32_t island = problem.islands[nodes.front()];
  for (const std::uint32_t from : nodes) {
    if (island == kNoIsland || problem.islands[from] != island) return false;
    for (const std::uint32_t to : nodes) {
      if (from != to && problem.link(from, to).bytes_per_second <= 0.0) return false;
    }
  }
  return true;
}

Grouped::Grouped(const Problem& problem, const std::vector<std::vector<Rank>>& groups)
    : original_(problem), groups_(groups), place_(problem.nodes.size(), kNoIsland) {
  grouped_.model = problem.model;
  grouped_.batch_rows = problem.batch_rows;
  grouped_.kv_tokens = problem.kv_tokens;
  grouped_.stages = problem.stages;
  grouped_.objective = problem.objective;
  std::vector<std::uint32_t> first;  // of the original, by node of the result
  for (std::uint32_t i = 0; i < groups_.size(); ++i) {
    grouped_.nodes.push_back(group_node(problem, groups_[i]));
    first.push_back(groups_[i].front().node);
    for (const Rank& rank : groups_[i]) {
      INVARIANT(place_[rank.node] == kNoIsland, "groups share no node");
      place_[rank.node] = i;
    }
  }
  for (std::uint32_t node = 0; node < problem.nodes.size(); ++node) {
    if (place_[node] != kNoIsland) continue;
    place_[node] = static_cast<std::uint32_t>(first.size());
    grouped_.nodes.push_back(problem.nodes[node]);
    alone_.push_back(node);
    first.push_back(node);
  }
  for (const std::uint32_t from : first) {
    for (const std::uint32_t to : first) grouped_.links.push_back(problem.link(from, to));
  }
}

std::vector<Stage> Grouped::expand(const std::vector<Stage>& stages) const {
  std::vector<Stage> expanded;
  for (const Stage& stage : stages) {
    if (stage.node >= groups_.size()) {
      expanded.push_back({alone_[stage.node - groups_.size()], stage.layers});
      continue;
    }
    const std::vector<Rank>& group = groups_[stage.node];
    const Stage as_searched{group.front().node, stage.layers, group};
    std::vector<std::uint32_t> nodes;
    for (const Rank& rank : group) nodes.push_back(rank.node);
    Stage own = as_searched;
    own.group = divide_group(original_, nodes, stage_bytes(original_, stage.layers));
    const bool quicker =
        !own.group.empty() && fits(original_, own) &&
        stage_seconds(original_, own, 1.0) <= stage_seconds(original_, as_searched, 1.0) &&
        stage_seconds(original_, own, original_.batch_rows) <=
            stage_seconds(original_, as_searched, original_.batch_rows);
    expanded.push_back(quicker ? own : as_searched);
  }
  return expanded;
}

std::optional<std::vector<Stage>> search_groups(const Problem& problem,
                                                const std::vector<Stage>& alone) {
  INVARIANT(problem.islands.size() == problem.nodes.size(), "every node has its island, or none");
  if (problem.model.exchanges.of_layer == 0) return std::nullopt;
  return ShapeSearch(problem, alone).run();
}

}  // namespace hearth::placement
