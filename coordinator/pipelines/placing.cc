#include "coordinator/pipelines/placing.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "coordinator/pipelines/placement_text.h"
#include "coordinator/workers/holdings.h"
#include "placement/alike.h"
#include "placement/groups.h"
#include "placement/parts.h"
#include "placement/plan.h"

namespace hearth::coordinator {
namespace {

using placement::Problem;
using placement::Stage;

// No node has joined for so long: then those that start together are all there.
constexpr Duration kNodeSettling = std::chrono::seconds(3);
// Under Objective::kAuto, where who comes later improves the plan: then, and for measurements.
constexpr Duration kAutoSettling = std::chrono::seconds(1);
constexpr Duration kAutoMeasuring = std::chrono::seconds(5);
// Ways that are not measured, under Objective::kAuto: of a machine, and of a network of 1 Gbit/s.
constexpr placement::Link kOwnLink{5e-5, 1e9};
constexpr placement::Link kUsualLink{2e-4, 1.1e8};
// Time for a node to measure itself, and again for its links. Workers of one machine take turns, so
// the time restarts when another one is done, up to a limit.
constexpr Duration kMeasuring = std::chrono::seconds(20);
constexpr Duration kTurns = std::chrono::seconds(60);
// A pipeline that keeps loaded layers may take this factor of the best one's seconds.
constexpr double kHysteresis = 1.05;
// With so few nodes every search takes milliseconds, so each spare gets its reason by a search of
// its own.
constexpr std::size_t kFew = 8;
constexpr std::size_t kNamed = 4;  // of those that all wait for

bool linked(const Problem& problem, const std::vector<Stage>& stages) {
  for (std::size_t i = 0; i < stages.size() && stages.size() > 1; ++i) {
    const std::uint32_t next = stages[(i + 1) % stages.size()].node;
    if (problem.link(stages[i].node, next).bytes_per_second <= 0.0) return false;
  }
  return true;
}

bool ranks_linked(const Problem& problem, const std::vector<Stage>& stages) {
  return std::ranges::all_of(stages, [&](const Stage& stage) {
    return std::ranges::all_of(stage.group, [&](const placement::Rank& from) {
      return std::ranges::all_of(stage.group, [&](const placement::Rank& to) {
        return from == to || problem.link(from.node, to.node).bytes_per_second > 0.0;
      });
    });
  });
}

// The stages that are loaded, with each gap between them filled by one node, in every way.
class Filling {
 public:
  explicit Filling(const Problem& problem) : problem_(problem) {}

  std::vector<Stage> best(std::vector<Stage> loaded) {
    std::ranges::sort(loaded, {}, [](const Stage& stage) { return stage.layers.begin; });
    std::uint32_t begin = 0;
    for (const Stage& stage : loaded) {
      if (stage.layers.begin < begin) continue;  // of another pipeline
      fill(begin, stage.layers.begin);
      stages_.push_back(stage);
      begin = stage.layers.end;
    }
    fill(begin, problem_.layers());
    if (gaps_.size() <= kGapsMost) extend(0);
    return best_;
  }

 private:
  static constexpr std::size_t kGapsMost = 2;  // 32^2 ways at most

  void fill(std::uint32_t begin, std::uint32_t end) {
    if (begin == end) return;
    gaps_.push_back(stages_.size());
    stages_.push_back({0, {begin, end}});
  }

  void extend(std::size_t gap) {
    if (gap == gaps_.size()) return judge();
    for (std::uint32_t node = 0; node < problem_.nodes.size(); ++node) {
      Stage& stage = stages_[gaps_[gap]];
      stage.node = node;
      if (placement::fits(problem_, stage)) extend(gap + 1);
    }
  }

  void judge() {
    std::vector<bool> used(problem_.nodes.size());
    for (const Stage& stage : stages_) {
      if (!placement::fits(problem_, stage)) return;
      bool twice = false;
      stage.for_each_node([&](std::uint32_t node) {
        twice = twice || used[node];
        used[node] = true;
      });
      if (twice) return;
    }
    const bool wanted = problem_.stages == 0 || problem_.stages == stages_.size();
    if (!wanted || !linked(problem_, stages_)) return;
    const double cost = placement::cost_seconds(problem_, stages_);
    if (cost >= least_) return;
    least_ = cost;
    best_ = stages_;
  }

  const Problem& problem_;
  std::vector<Stage> stages_;
  std::vector<std::size_t> gaps_;  // places in stages_
  std::vector<Stage> best_;
  double least_ = std::numeric_limits<double>::infinity();
};

// When a node that is not measured may have begun: who measured themselves in the order of their
// ends.
TimePoint turn_of(const Node& node, const std::vector<const Node*>& measured) {
  TimePoint turn = node.since;
  for (const Node* other : measured) {
    const TimePoint end = std::min(other->measured_at, node.since + kTurns);
    if (end > turn && end - turn < kMeasuring) turn = end;
  }
  return turn;
}

// What a node would bring to its stage without loading, or without fetching, anything.
std::optional<LayerRange> layers_of(const Node& node) {
  if (node.loaded && node.status.ranks == 1) return node.status.layers;
  const NodeStatus& status = node.status;
  const bool held = status.partial && status.held_total > 0 && status.held.size() > 0 &&
                    status.held_bytes == status.held_total;
  return held ? std::optional(status.held) : std::nullopt;
}

// The groups of which every rank has its share loaded, each of one pipeline.
std::vector<Stage> loaded_groups(const Problem& problem, const std::vector<Node*>& nodes) {
  std::map<std::pair<Epoch, std::uint32_t>, std::vector<std::uint32_t>> found;
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const NodeStatus& status = nodes[i]->status;
    if (!nodes[i]->loaded || status.ranks < 2) continue;
    found[{nodes[i]->assigned, status.stage}].push_back(i);
  }
  std::vector<Stage> groups;
  for (auto& [place, ranks] : found) {
    const NodeStatus& first = nodes[ranks.front()]->status;
    if (ranks.size() != first.ranks || !placement::may_form_group(problem, ranks)) continue;
    std::ranges::sort(ranks, {}, [&](std::uint32_t node) { return nodes[node]->status.rank; });
    const std::uint64_t bytes = placement::stage_bytes(problem, first.layers);
    std::vector<placement::Rank> group = placement::divide_group(problem, ranks, bytes);
    if (!group.empty()) groups.push_back({ranks.front(), first.layers, std::move(group)});
  }
  return groups;
}

std::vector<Stage> with_what_is_there(const Problem& problem, const std::vector<Node*>& nodes) {
  std::vector<Stage> there = loaded_groups(problem, nodes);
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const auto layers = layers_of(*nodes[i]);
    if (layers) there.push_back({i, *layers});
  }
  return Filling(problem).best(std::move(there));
}

// The nodes that all others wait for.
std::string being_measured(const std::vector<Node*>& free) {
  std::string names;
  std::size_t more = 0;
  for (const Node* node : free) {
    if (node->status.measured) continue;
    if (more++ < kNamed) names += (names.empty() ? "" : ", ") + node->status.name;
  }
  if (names.empty()) return "the links between the nodes are being measured";
  if (more > kNamed) names += " and " + std::to_string(more - kNamed) + " more";
  return "being measured, one of a machine at a time: " + names;
}

}  // namespace

// A question in whole, so that another thread can answer it.
struct Placing::Search {
  struct Attempt {
    Problem problem;
    std::vector<std::string> names;
  };

  std::string question;
  std::vector<Attempt> attempts;  // the first one that has an answer counts
  // The answer, to be read when it is done.
  std::size_t attempt = 0;
  std::vector<Stage> stages;  // empty: none
  std::vector<placement::Spare> spares;
  std::optional<placement::Chains> chains;  // in their place, of more than an exact search sees
  std::string why_not;
  std::atomic<bool> done{false};

  void run() {
    for (attempt = 0; attempt < attempts.size(); ++attempt) {
      const Problem& problem = attempts[attempt].problem;
      if (problem.nodes.size() > limits::kExactNodes) {
        auto planned = placement::plan_chains(problem);
        if (!planned.ok()) {
          why_not = placement_error(problem, planned.error()).message;
          continue;
        }
        chains = std::move(*planned);
        break;
      }
      auto best = placement::place(problem);
      if (!best.ok()) {
        why_not = placement_error(problem, best.error()).message;
        continue;
      }
      stages = std::move(*best);
      if (problem.nodes.size() > kFew) break;
      auto plan = placement::plan(problem);
      if (plan.ok()) spares = std::move(plan->spares);
      break;
    }
    done.store(true, std::memory_order_release);
  }
};

// The same of all nodes at once, for when no pipeline ran.
struct Placing::Improvement {
  std::string question;
  Problem problem;
  std::vector<std::vector<Stage>> running;
  // The answer, to be read when it is done.
  std::vector<std::vector<Stage>> pipelines;  // empty: they would gain too little
  std::string gain;
  std::atomic<bool> done{false};

  struct Rates {
    double one = 0.0;  // tokens a second of a stream on the quickest pipeline
    double all = 0.0;  // of all streams on all of them
  };

  Rates rates_of(const std::vector<std::vector<Stage>>& all) const {
    Rates rates;
    for (const std::vector<Stage>& stages : all) {
      const placement::Prediction one = placement::predict(problem, stages);
      rates.one = std::max(rates.one, one.tokens_per_second);
      rates.all += one.all_tokens_per_second;
    }
    return rates;
  }

  void run() {
    auto planned = placement::place_replicas(problem);
    if (planned.ok()) {
      const Rates now = rates_of(running);
      const Rates then = rates_of(*planned);
      const bool quicker = then.one > placement::kAutoMargin * now.one;
      const bool more = then.one * placement::kAutoMargin >= now.one &&
                        then.all > placement::kAutoMargin * now.all;
      if (quicker || more) {
        pipelines = std::move(*planned);
        gain = "one stream " + rate_text(then.one) + " tokens/s instead of " + rate_text(now.one) +
               ", all streams " + rate_text(then.all) + " instead of " + rate_text(now.all);
      }
    }
    done.store(true, std::memory_order_release);
  }
};

Placing::Placing(const CoordinatorOptions& options, const Clock& clock, const LinkBook& links)
    : options_(options), clock_(clock), links_(links), pool_(options, links) {}

bool Placing::is_auto() const {
  return options_.placement && options_.placement->objective == placement::Objective::kAuto;
}

bool Placing::is_searching() const {
  const auto runs = [](const auto& work) {
    return work != nullptr && !work->done.load(std::memory_order_acquire);
  };
  return runs(search_) || runs(improvement_);
}

// One at a time: the next one waits for its predecessor.
void Placing::run_elsewhere(std::size_t nodes, std::function<void()> work) {
  INVARIANT(options_.placement.has_value(), "only measured placement searches");
  const auto& elsewhere = options_.placement->elsewhere;
  if (elsewhere && nodes > kFew) return elsewhere(std::move(work));
  work();
}

std::string Placing::why_spare(const std::string& node) const {
  if (pool_.has_cut()) return pool_.why_spare(node);
  const auto found = spares_.find(node);
  if (found != spares_.end()) return found->second;
  return hopes_ ? "" : waiting_;
}

bool Placing::settled(const std::vector<Node*>& free) {
  for (const Node* node : free) {
    if (node->loaded) return true;
  }
  const Duration settling = is_auto() ? kAutoSettling : kNodeSettling;
  for (const Node* node : free) {
    if (clock_.now() - node->since >= settling) continue;
    waiting_ = "nodes are still joining; the latest is " + node->status.name;
    return false;
  }
  return !measuring(free);
}

bool Placing::measuring(const std::vector<Node*>& free) {
  std::vector<const Node*> measured;
  for (const Node* node : free) {
    if (node->status.measured) measured.push_back(node);
  }
  std::ranges::sort(measured, {}, &Node::measured_at);
  const bool waits = !is_auto() || may_group();
  const bool ways = !waits || links_.complete(measured);
  const Duration patience = waits ? kMeasuring : kAutoMeasuring;
  for (const Node* node : free) {
    const bool measured_now = node->status.measured.has_value();
    const TimePoint begin = measured_now ? node->measured_at : turn_of(*node, measured);
    if (clock_.now() - begin >= patience || (measured_now && ways)) continue;
    waiting_ = being_measured(free);
    return true;
  }
  return false;
}

// All that the answer rests on: a node measures once a session.
std::string Placing::question(const std::vector<Node*>& free) const {
  std::string text = std::to_string(links_.changes());
  for (const Node* node : free) {
    text += " " + node->status.name + "@" + std::to_string(node->since.count()) +
            (node->status.measured ? "m" : "") + (node->loaded ? "l" : "") +
            (doubtful(*node) ? "d" : "") + (node->status.rank_address.empty() ? "" : "g");
  }
  return text;
}

// Ranks dial each other directly, and rank 0 answers for a false rank. A node with an unmeasured
// link to another one that may be a rank is in no island: its exchanges would be a guess.
std::vector<std::uint32_t> Placing::islands_of(const std::vector<const Node*>& nodes) const {
  std::vector<std::uint32_t> islands;
  if (!may_group() || nodes.size() > limits::kExactNodes) return islands;
  std::map<std::pair<std::string, std::string>, std::uint32_t> numbers;
  std::map<std::string, std::string> first;  // worker on the processors of each machine
  for (const Node* node : nodes) {
    const NodeStatus& status = node->status;
    if (status.rank_address.empty() || !status.device.empty()) continue;
    std::string& name = first.try_emplace(status.machine(), status.name).first->second;
    name = std::min(name, status.name);
  }
  const auto able = [&](const Node& node) {
    const NodeStatus& status = node.status;
    if (status.rank_address.empty() || links_.is_closed(node)) return false;
    return !status.device.empty() || first.at(status.machine()) == status.name;
  };
  const auto measured = [&](const Node& from, const Node& to) {
    return links_.find(from.status.name, to.status.name).bytes_per_second > 0.0;
  };
  for (const Node* node : nodes) {
    const bool all = std::ranges::all_of(nodes, [&](const Node* other) {
      return other == node || !able(*other) || (measured(*node, *other) && measured(*other, *node));
    });
    const auto number = static_cast<std::uint32_t>(numbers.size());
    const bool joins = able(*node) && all;
    islands.push_back(
        joins ? numbers.try_emplace({node->owner, node->status.build}, number).first->second
              : placement::kNoIsland);
  }
  INVARIANT(islands.size() == nodes.size(), "every node has its island, or none");
  return islands;
}

Problem Placing::problem_of(const std::vector<Node*>& nodes) const {
  Problem problem = problem_without_links(options_, nodes);
  problem.islands = islands_of({nodes.begin(), nodes.end()});
  for (const Node* from : nodes) {
    for (const Node* to : nodes) {
      placement::Link link = links_.find(from->status.name, to->status.name);
      if (is_auto() && link.bytes_per_second <= 0.0) {
        link = from->status.machine() == to->status.machine() ? kOwnLink : kUsualLink;
      }
      problem.links.push_back(link);
    }
  }
  return is_auto() ? placement::with_alike_figures(std::move(problem)) : problem;
}

std::optional<placement::StepTimes> Placing::times_of(const Placed& placed) const {
  if (!options_.placement) return std::nullopt;
  std::vector<Node*> nodes;
  std::vector<Stage> stages;
  for (std::size_t i = 0; i < placed.layers.size(); ++i) {
    Stage& stage = stages.emplace_back();
    stage.node = static_cast<std::uint32_t>(nodes.size());
    stage.layers = placed.layers[i];
    if (!placed.has_group(i)) nodes.push_back(placed.nodes[i]);
    for (std::size_t rank = 0; placed.has_group(i) && rank < placed.groups[i].size(); ++rank) {
      stage.group.push_back(
          {static_cast<std::uint32_t>(nodes.size()), placed.groups[i][rank].part});
      nodes.push_back(placed.groups[i][rank].node);
    }
  }
  const bool measured = std::ranges::all_of(
      nodes, [](const Node* node) { return node->status.measured.has_value(); });
  if (!measured) return std::nullopt;
  const Problem problem = pool_.problem_of(nodes);
  if (!linked(problem, stages) || !ranks_linked(problem, stages)) return std::nullopt;
  const placement::StepTimes times = placement::step_times(problem, stages);
  const placement::StepSeconds one = times.at(1.0);
  const placement::StepSeconds batch = times.at(times.batch_rows);
  const bool usable = one.slowest > 0.0 && std::isfinite(one.ring) && std::isfinite(batch.ring);
  return usable ? std::optional(times) : std::nullopt;
}

std::optional<Placed> Placing::kept(const std::vector<Node*>& nodes, double most) const {
  const bool any = std::ranges::any_of(
      nodes, [](const Node* node) { return node->loaded || layers_of(*node).has_value(); });
  if (!any) return std::nullopt;
  const Problem problem = problem_of(nodes);
  const std::vector<Stage> stages = with_what_is_there(problem, nodes);
  if (stages.empty() || placement::cost_seconds(problem, stages) > most) return std::nullopt;
  return placed_on(nodes, stages);
}

std::vector<std::string> Placing::sure(const std::vector<Node*>& nodes) const {
  const std::vector<Node*> all = placeable(nodes, true);
  if (all.empty()) return {};
  std::optional<Placed> there;
  if (pool_.has_cut()) there = pool_.with_what_is_there(all);
  if (!there) {
    const std::vector<Stage> stages = with_what_is_there(problem_of(all), all);
    if (!stages.empty()) there = placed_on(all, stages);
  }
  if (!there) return {};
  bool fetches = false;
  there->for_each([&](const Node& node, LayerRange layers) {
    fetches = fetches || (node.status.partial && !holds(node.status, layers));
  });
  if (fetches) return {};
  std::vector<std::string> names;
  for (const Node* node : all) names.push_back(node->status.name);
  return names;
}

std::shared_ptr<const Placing::Search> Placing::search(const std::vector<Node*>& free,
                                                       const std::string& asked) {
  if (is_searching()) return nullptr;
  if (search_ == nullptr || search_->question != asked) {
    search_ = std::make_shared<Search>();
    search_->question = asked;
    for (const bool all : {false, true}) {
      const std::vector<Node*> nodes = placeable(free, all);
      if (nodes.empty()) continue;
      Search::Attempt& attempt = search_->attempts.emplace_back();
      const bool many = nodes.size() > limits::kExactNodes;
      attempt.problem = many ? pool_.problem_of(nodes) : problem_of(nodes);
      for (const Node* node : nodes) attempt.names.push_back(node->status.name);
    }
    run_elsewhere(free.size(), [search = search_] { search->run(); });
  }
  return is_searching() ? nullptr : search_;
}

std::optional<Placed> Placing::from_pool(const std::vector<Node*>& free, bool beside) {
  std::string asked = question(free) + (beside ? " beside others" : "");
  if (asked == without_pipeline_) return std::nullopt;
  auto placed = pool_.next(free, beside);
  if (placed) {
    waiting_.clear();
  } else {
    waiting_ = "the free nodes do not cover all layer ranges of the plan";
    without_pipeline_ = std::move(asked);
  }
  return placed;
}

std::optional<Placed> Placing::choose(std::vector<Node*> free, bool beside) {
  hopes_ = false;
  if (free.empty()) {
    waiting_.clear();
    return std::nullopt;
  }
  if (auto adopted = next_adopted(free)) return adopted;
  // Among nodes that are alike the order decides.
  if (is_auto()) std::ranges::sort(free, {}, [](const Node* node) { return node->status.name; });
  if (pool_.has_cut()) {
    auto placed = from_pool(free, beside);
    if (placed || beside) return placed;
  }
  hopes_ = !settled(free);
  if (hopes_) return std::nullopt;
  if (free.size() > kFew) {
    for (const bool all : {false, true}) {
      auto same = kept(placeable(free, all), std::numeric_limits<double>::infinity());
      if (same) return same;
    }
  }
  std::string asked = question(free);
  if (asked == unanswered_) {
    hopes_ = measuring(free);
    if (!hopes_) waiting_ = why_unanswered_;
    return std::nullopt;
  }
  const std::shared_ptr<const Search> found = search(free, asked);
  hopes_ = found == nullptr;
  if (hopes_) {
    waiting_ = "the best placement is being searched for";
    return std::nullopt;
  }
  if (found->chains) {
    pool_.adopt(*found->chains, found->attempts[found->attempt].names);
    without_pipeline_.clear();
    return from_pool(free, beside);
  }
  if (found->stages.empty()) {
    why_unanswered_ = found->attempts.empty() ? "no node has measured itself" : found->why_not;
    unanswered_ = std::move(asked);
    hopes_ = measuring(free);  // of those beside whom something is loaded
    if (!hopes_) waiting_ = why_unanswered_;
    return std::nullopt;
  }
  return take(*found, free);
}

// The question was the same, so that its nodes are among the free ones.
Placed Placing::take(const Search& search, const std::vector<Node*>& free) {
  const Search::Attempt& attempt = search.attempts[search.attempt];
  std::vector<Node*> nodes;
  for (const std::string& name : attempt.names) {
    const auto named =
        std::ranges::find_if(free, [&](const Node* node) { return node->status.name == name; });
    INVARIANT(named != free.end(), "a question names the nodes of its answer");
    nodes.push_back(*named);
  }
  waiting_.clear();
  spares_.clear();
  pool_.drop();
  for (const Node* node : free) {
    if (!node->status.measured) spares_[node->status.name] = "it has not measured itself";
  }
  for (const placement::Spare& spare : search.spares)
    spares_[attempt.names[spare.node]] = spare_text(attempt.problem, spare);
  if (nodes.size() > kFew) {
    for (const std::string& name : attempt.names) {
      spares_[name] = "the best placement of " + std::to_string(nodes.size()) +
                      " nodes does not use it; hearth plan shows why";
    }
  }
  const double best = placement::cost_seconds(attempt.problem, search.stages);
  auto same = kept(nodes, (is_auto() ? placement::kAutoMargin : kHysteresis) * best);
  return same ? std::move(*same) : placed_on(nodes, search.stages);
}

std::optional<Better> Placing::better(std::vector<Node*> nodes,
                                      const std::vector<Placed>& running) {
  if (!may_improve() || nodes.size() > limits::kExactNodes || running.empty()) {
    return std::nullopt;
  }
  std::ranges::sort(nodes, {}, [](const Node* node) { return node->status.name; });
  if (placeable(nodes, false).size() != nodes.size() ||
      !links_.complete({nodes.begin(), nodes.end()})) {
    return std::nullopt;
  }
  auto wanted = std::make_shared<Improvement>();
  wanted->question = question(nodes);
  for (const Placed& pipeline : running) {
    std::vector<Stage>& stages = wanted->running.emplace_back();
    const auto number_of = [&](const Node* node) {
      return static_cast<std::uint32_t>(std::ranges::find(nodes, node) - nodes.begin());
    };
    for (std::size_t i = 0; i < pipeline.nodes.size(); ++i) {
      stages.push_back({number_of(pipeline.nodes[i]), pipeline.layers[i]});
      Stage& stage = stages.back();
      if (stage.node == nodes.size()) return std::nullopt;
      wanted->question += " " + std::to_string(stage.node) + ":" + text_of(pipeline.layers[i]);
      if (!pipeline.has_group(i)) continue;
      for (const PlacedRank& rank : pipeline.groups[i]) {
        stage.group.push_back({number_of(rank.node), rank.part});
        if (stage.group.back().node == nodes.size()) return std::nullopt;
        wanted->question += "+" + std::to_string(stage.group.back().node);
      }
    }
    wanted->question += ";";
  }
  if (is_searching()) return std::nullopt;
  if (improvement_ == nullptr || improvement_->question != wanted->question) {
    wanted->problem = problem_of(nodes);
    improvement_ = std::move(wanted);
    run_elsewhere(nodes.size(), [work = improvement_] { work->run(); });
  }
  if (is_searching() || improvement_->pipelines.empty()) return std::nullopt;
  Better better{{}, improvement_->gain};
  for (const auto& stages : improvement_->pipelines) {
    better.pipelines.push_back(placed_on(nodes, stages));
  }
  return better;
}

void Placing::adopt(const Better& better) {
  adopted_.clear();
  for (const Placed& pipeline : better.pipelines) {
    Adopted& one = adopted_.emplace_back();
    one.layers = pipeline.layers;
    for (std::size_t i = 0; i < pipeline.nodes.size(); ++i) {
      std::vector<AdoptedRank>& ranks = one.stages.emplace_back();
      if (!pipeline.has_group(i)) ranks.push_back({pipeline.nodes[i]->status.name});
      for (std::size_t j = 0; pipeline.has_group(i) && j < pipeline.groups[i].size(); ++j) {
        const PlacedRank& rank = pipeline.groups[i][j];
        ranks.push_back({rank.node->status.name, rank.part});
      }
    }
    INVARIANT(one.stages.size() == one.layers.size(), "each stage has a node and its layers");
  }
}

std::optional<Placed> Placing::next_adopted(const std::vector<Node*>& free) {
  if (adopted_.empty()) return std::nullopt;
  const Adopted next = std::move(adopted_.front());
  adopted_.erase(adopted_.begin());
  Placed placed{{}, next.layers};
  for (const std::vector<AdoptedRank>& ranks : next.stages) {
    std::vector<PlacedRank>& group = placed.groups.emplace_back();
    for (const AdoptedRank& rank : ranks) {
      const auto found = std::ranges::find(
          free, rank.name,
          [](const Node* node) -> const std::string& { return node->status.name; });
      if (found == free.end()) {
        adopted_.clear();  // something else has happened: the plan holds no more
        return std::nullopt;
      }
      group.push_back({*found, rank.part});
    }
    placed.nodes.push_back(group.front().node);
    if (group.size() == 1) group.clear();
  }
  spares_.clear();
  waiting_.clear();
  return placed;
}

}  // namespace hearth::coordinator
