#include "placement/search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/limits.h"

namespace hearth::placement {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kSlack = 1e-9;  // of what rounding may take from a bound that is just kept
constexpr double kPrecision = 1e-4;

using Set = std::uint32_t;

// What a node is in a pipeline decides what it keeps beside its layers.
enum Role : std::uint32_t { kInner = 0, kFirst = 1, kLast = 2, kBoth = 3 };

struct Found {
  double seconds = kNever;
  Set set = 0;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

// Nodes are numbered from the one with the quickest layers on, so that the members of a set are met
// in the order in which layers are given to them.
class Search {
 public:
  Search(const Problem& problem, std::uint64_t layer_bytes, Set must);
  std::optional<std::vector<Stage>> run();

 private:
  void read_nodes(std::uint64_t layer_bytes);
  void read_links();
  std::uint32_t room(std::uint32_t node, Role role, std::uint64_t layer_bytes) const;
  bool allowed(Set set) const {
    return (set & must_) == must_ &&
           (problem_.stages == 0 || std::popcount(set) == static_cast<int>(problem_.stages));
  }
  bool may_grow(Set set) const {
    const auto size = static_cast<std::uint32_t>(std::popcount(set));
    return size < problem_.layers() && (problem_.stages == 0 || size < problem_.stages);
  }

  // Caps and links that keep every stage and link within `pace`.
  void bound(double pace);
  // Whether any pipeline keeps the pace, whatever the time round its ring.
  bool keeps();
  std::vector<double> paces() const;
  std::optional<double> least_pace();
  // Where the way round takes more than S + 1 of the least pace. A longer one loosens every bound,
  // so that the least that is kept is found by halving.
  std::vector<Stage> slower(double low);

  // The quickest round under bound(); with a pace, of those that go round in S + 1 paces.
  Found quickest(double pace);
  void walk(std::uint32_t first);
  void close(Set set, std::uint32_t first, std::uint32_t last, double pace, Found& best) const;
  double fill(Set set, std::uint32_t first, std::uint32_t last) const;
  std::vector<Stage> stages_of(const Found& found);
  double& path(Set set, std::uint32_t last) { return paths_[std::size_t{set} * count_ + last]; }
  double path(Set set, std::uint32_t last) const {
    return paths_[std::size_t{set} * count_ + last];
  }

  const Problem& problem_;
  const std::uint32_t count_;
  const Set all_;
  Set must_ = 0;
  double rows_ = 1.0;
  std::vector<std::uint32_t> nodes_;  // by number: of the problem
  std::vector<double> layer_, step_, head_;
  std::vector<std::array<std::uint32_t, 4>> memory_caps_, caps_;  // by role
  std::vector<double> hops_, bytes_, delays_;                     // [from * count_ + to]
  std::vector<Set> from_;                                         // who may stand before a node
  std::vector<double> paths_;                                     // from the first node of walk()
  std::vector<std::uint64_t> inner_caps_;                         // of a set, together
};

Search::Search(const Problem& problem, std::uint64_t layer_bytes, Set must)
    : problem_(problem),
      count_(static_cast<std::uint32_t>(problem.nodes.size())),
      all_((Set{1} << count_) - 1),
      rows_(problem.objective == Objective::kLatency ? 1.0 : problem.batch_rows) {
  INVARIANT(count_ >= 1 && count_ <= limits::kExactNodes, "the exact search is for a few nodes");
  read_nodes(layer_bytes);
  read_links();
  for (std::uint32_t i = 0; i < count_; ++i) {
    if ((must >> nodes_[i]) & 1U) must_ |= Set{1} << i;
  }
  paths_.resize((std::size_t{all_} + 1) * count_);
}

void Search::read_nodes(std::uint64_t layer_bytes) {
  const auto layer = [&](std::uint32_t node) {
    const RowSeconds& seconds = problem_.nodes[node].layer;
    return rows_ == 1.0 ? seconds.one : std::max(seconds.one, seconds.batch);
  };
  nodes_.resize(count_);
  std::iota(nodes_.begin(), nodes_.end(), 0U);
  std::stable_sort(nodes_.begin(), nodes_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return layer(a) < layer(b); });
  for (const std::uint32_t node : nodes_) {
    const Node& one = problem_.nodes[node];
    layer_.push_back(layer(node));
    step_.push_back(one.step_seconds);
    head_.push_back(rows_ == 1.0 ? one.head.one : std::max(one.head.one, one.head.batch));
    std::array<std::uint32_t, 4>& caps = memory_caps_.emplace_back();
    for (const Role role : {kInner, kFirst, kLast, kBoth}) {
      caps[role] = room(node, role, layer_bytes);
    }
  }
  caps_ = memory_caps_;
}

std::uint32_t Search::room(std::uint32_t node, Role role, std::uint64_t layer_bytes) const {
  const Model& model = problem_.model;
  std::uint64_t memory = problem_.nodes[node].memory_bytes;
  const std::uint64_t outer =
      (role & kFirst ? model.embedding_bytes : 0) + (role & kLast ? model.head_bytes : 0);
  if (memory < outer) return 0;
  memory -= outer;
  const std::uint64_t kv = model.kv_bytes * problem_.kv_tokens;
  std::uint64_t layers = std::min<std::uint64_t>(memory / (layer_bytes + kv), problem_.layers());
  if (kv > 0) layers = std::min(layers, problem_.nodes[node].kv_budget_bytes / kv);
  return static_cast<std::uint32_t>(layers);
}

void Search::read_links() {
  const double bytes = rows_ * static_cast<double>(problem_.model.activation_bytes);
  from_.assign(count_, 0);
  for (std::uint32_t from = 0; from < count_; ++from) {
    for (std::uint32_t to = 0; to < count_; ++to) {
      const Link& link = problem_.link(nodes_[from], nodes_[to]);
      const bool there = from != to && link.bytes_per_second > 0.0;
      delays_.push_back(there ? link.delay_seconds : kNever);
      bytes_.push_back(there ? bytes / link.bytes_per_second : kNever);
      hops_.push_back(delays_.back() + bytes_.back());
      if (there) from_[to] |= Set{1} << from;
    }
  }
}

void Search::bound(double pace) {
  for (std::uint32_t i = 0; i < count_; ++i) {
    from_[i] = 0;
    for (std::uint32_t from = 0; from < count_; ++from) {
      if (bytes_[from * count_ + i] <= pace * (1.0 + kSlack)) from_[i] |= Set{1} << from;
    }
    for (const Role role : {kInner, kFirst, kLast, kBoth}) {
      const double left = pace - step_[i] - (role & kLast ? head_[i] : 0.0);
      const double most = std::floor(left / layer_[i] * (1.0 + kSlack));
      const double cap = std::clamp(most, 0.0, static_cast<double>(memory_caps_[i][role]));
      caps_[i][role] = static_cast<std::uint32_t>(cap);
    }
  }
}

bool Search::keeps() {
  const std::uint32_t layers = problem_.layers();
  Set usable = 0;
  inner_caps_.assign(std::size_t{all_} + 1, 0);
  for (std::uint32_t i = 0; i < count_; ++i) usable |= Set{caps_[i][kInner] > 0} << i;
  for (Set set = 1; set <= all_; ++set) {
    const auto lowest = static_cast<std::uint32_t>(std::countr_zero(set));
    inner_caps_[set] = inner_caps_[set & (set - 1)] + caps_[lowest][kInner];
  }
  std::vector<Set> lasts(std::size_t{all_} + 1);
  for (std::uint32_t first = 0; first < count_; ++first) {
    const Set own = Set{1} << first;
    if (allowed(own) && caps_[first][kBoth] >= layers) return true;
    if (caps_[first][kFirst] == 0) continue;
    std::fill(lasts.begin(), lasts.end(), 0);
    lasts[own] = own;
    for (Set set = own; set <= all_; ++set) {
      if (lasts[set] == 0) continue;
      if (set != own && allowed(set)) {
        for (Set left = lasts[set]; left != 0; left &= left - 1) {
          const auto last = static_cast<std::uint32_t>(std::countr_zero(left));
          const Set inner = set & ~own & ~(Set{1} << last);
          const bool back = delays_[last * count_ + first] < kNever;
          if (!back || (inner & ~usable) != 0 || caps_[last][kLast] == 0) continue;
          if (inner_caps_[inner] + caps_[first][kFirst] + caps_[last][kLast] >= layers) return true;
        }
      }
      if (!may_grow(set)) continue;
      for (Set left = all_ & ~set; left != 0; left &= left - 1) {
        const auto next = static_cast<std::uint32_t>(std::countr_zero(left));
        if ((lasts[set] & from_[next]) != 0) lasts[set | (Set{1} << next)] |= Set{1} << next;
      }
    }
  }
  return false;
}

// The slowest stage or link of any pipeline takes one of these.
std::vector<double> Search::paces() const {
  std::vector<double> paces;
  for (const double bytes : bytes_) {
    if (bytes < kNever) paces.push_back(bytes);
  }
  for (std::uint32_t i = 0; i < count_; ++i) {
    for (std::uint32_t layers = 1; layers <= memory_caps_[i][kInner]; ++layers) {
      paces.push_back(step_[i] + layers * layer_[i]);
      paces.push_back(step_[i] + layers * layer_[i] + head_[i]);
    }
  }
  std::sort(paces.begin(), paces.end());
  return paces;
}

std::optional<double> Search::least_pace() {
  const std::vector<double> all = paces();
  const auto least = std::partition_point(all.begin(), all.end(), [&](double pace) {
    bound(pace);
    return !keeps();
  });
  return least == all.end() ? std::nullopt : std::optional(*least);
}

// Held and Karp: the quickest way from `first` through all of a set to its last node.
void Search::walk(std::uint32_t first) {
  std::fill(paths_.begin(), paths_.end(), kNever);
  const Set own = Set{1} << first;
  path(own, first) = 0.0;
  for (Set set = own; set <= all_; ++set) {
    if ((set & own) == 0 || !may_grow(set)) continue;
    for (Set members = set; members != 0; members &= members - 1) {
      const auto last = static_cast<std::uint32_t>(std::countr_zero(members));
      const double so_far = path(set, last);
      if (so_far == kNever) continue;
      for (Set left = all_ & ~set; left != 0; left &= left - 1) {
        const auto next = static_cast<std::uint32_t>(std::countr_zero(left));
        if (((from_[next] >> last) & 1U) == 0) continue;
        double& there = path(set | (Set{1} << next), next);
        there = std::min(there, so_far + hops_[last * count_ + next]);
      }
    }
  }
}

// Seconds of the layers: one each, and the rest to the quickest that have room.
double Search::fill(Set set, std::uint32_t first, std::uint32_t last) const {
  auto left = static_cast<std::int64_t>(problem_.layers()) - std::popcount(set);
  double seconds = 0.0;
  for (; set != 0; set &= set - 1) {
    const auto node = static_cast<std::uint32_t>(std::countr_zero(set));
    const std::uint32_t role = (node == first ? kFirst : kInner) | (node == last ? kLast : kInner);
    const std::uint32_t cap = caps_[node][role];
    if (cap == 0) return kNever;
    const auto more = std::min<std::int64_t>(left, cap - 1);
    left -= more;
    seconds += static_cast<double>(1 + more) * layer_[node] + step_[node];
  }
  return left > 0 ? kNever : seconds;
}

void Search::close(Set set, std::uint32_t first, std::uint32_t last, double pace,
                   Found& best) const {
  const bool alone = first == last;
  if (alone != (std::popcount(set) == 1)) return;
  const double way = path(set, last) + (alone ? 0.0 : delays_[last * count_ + first]) + head_[last];
  if (way >= best.seconds) return;
  const double seconds = way + fill(set, first, last);
  if (seconds >= best.seconds) return;
  if (pace < kNever && seconds > (std::popcount(set) + 1) * pace * (1.0 + kSlack)) return;
  best = {seconds, set, first, last};
}

Found Search::quickest(double pace) {
  Found best;
  for (std::uint32_t first = 0; first < count_; ++first) {
    walk(first);
    for (Set set = 1; set <= all_; ++set) {
      if (((set >> first) & 1U) == 0 || !allowed(set)) continue;
      for (Set members = set; members != 0; members &= members - 1) {
        close(set, first, static_cast<std::uint32_t>(std::countr_zero(members)), pace, best);
      }
    }
  }
  return best;
}

std::vector<Stage> Search::stages_of(const Found& found) {
  walk(found.first);
  std::vector<std::uint32_t> order{found.last};
  for (Set set = found.set; set != Set{1} << found.first;) {
    const std::uint32_t last = order.back();
    const Set before = set & ~(Set{1} << last);
    double least = kNever;
    std::uint32_t best = 0;
    for (Set members = before & from_[last]; members != 0; members &= members - 1) {
      const auto node = static_cast<std::uint32_t>(std::countr_zero(members));
      const double way = path(before, node) + hops_[node * count_ + last];
      if (way < least) {
        least = way;
        best = node;
      }
    }
    order.push_back(best);
    set = before;
  }
  std::reverse(order.begin(), order.end());
  std::vector<std::uint32_t> sizes(count_);
  std::uint32_t left = problem_.layers() - static_cast<std::uint32_t>(order.size());
  for (Set set = found.set; set != 0; set &= set - 1) {
    const auto node = static_cast<std::uint32_t>(std::countr_zero(set));
    const std::uint32_t role =
        (node == found.first ? kFirst : kInner) | (node == found.last ? kLast : kInner);
    const std::uint32_t more = std::min(left, caps_[node][role] - 1);
    sizes[node] = 1 + more;
    left -= more;
  }
  std::vector<Stage> stages;
  std::uint32_t begin = 0;
  for (const std::uint32_t node : order) {
    stages.push_back({nodes_[node], {begin, begin + sizes[node]}});
    begin += sizes[node];
  }
  return stages;
}

std::vector<Stage> Search::slower(double low) {
  double high = 2.0 * low;
  std::vector<Stage> stages;
  while (stages.empty() || high - low > kPrecision * high) {
    const double pace = stages.empty() ? high : low + (high - low) / 2.0;
    bound(pace);
    const Found found = quickest(pace);
    if (found.seconds < kNever) {
      stages = stages_of(found);
      high = std::min(pace, cost_seconds(problem_, stages));
    } else {
      low = pace;
      if (stages.empty()) high *= 2.0;
    }
  }
  return stages;
}

std::optional<std::vector<Stage>> Search::run() {
  if (problem_.objective == Objective::kLatency) {
    const Found found = quickest(kNever);
    if (found.seconds == kNever) return std::nullopt;
    return stages_of(found);
  }
  const std::optional<double> least = least_pace();
  if (!least) return std::nullopt;
  bound(*least);
  const Found found = quickest(*least);
  return found.seconds < kNever ? stages_of(found) : slower(*least);
}

}  // namespace

std::optional<std::vector<Stage>> search(const Problem& problem, std::uint64_t layer_bytes,
                                         std::uint32_t must) {
  return Search(problem, layer_bytes, must).run();
}

}  // namespace hearth::placement
