#include "placement/uneven.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/limits.h"
#include "placement/costs.h"

namespace hearth::placement {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kSlack = 1e-9;  // of what rounding may take from a bound that is just kept
constexpr double kPrecision = 1e-4;
constexpr std::uint32_t kWide = limits::kExactNodes;
constexpr std::size_t kPrices = 3;
constexpr std::size_t kRowsMost = 1'000'000;  // of tries of paces

using Set = std::uint32_t;

Set bit(std::uint32_t node) { return Set{1} << node; }
std::uint32_t lowest(Set set) { return static_cast<std::uint32_t>(std::countr_zero(set)); }
std::uint32_t size_of(Set set) { return static_cast<std::uint32_t>(std::popcount(set)); }

// What the heaviest range weighs that a node holds there, in layers of mean size; 0: none.
struct Heaviest {
  double inner = 0.0;
  double first = 0.0;
  double last = 0.0;
  double alone = 0.0;
  double later() const { return std::max(inner, last); }
};

// Seconds by where the layers of the last node end, from `begin` up to before `end`; of other ends
// they are too many.
struct Row {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::size_t at = 0;  // of Uneven::seconds_
};

// Nodes are numbered from the one with the quickest layers on, so that the members of a set are met
// in the order in which layers are given to them.
class Uneven {
 public:
  Uneven(const Problem& problem, std::optional<std::vector<Stage>> known, Set must);
  std::optional<std::vector<Stage>> run();

 private:
  void read_nodes();
  void read_links();
  bool allowed(Set set) const {
    return (set & must_) == must_ && (stages_ == 0 || size_of(set) == stages_);
  }
  bool may_grow(Set set) const { return size_of(set) < (stages_ == 0 ? layers_ : stages_); }
  double seconds(std::uint32_t node, LayerRange layers) const {
    return step_[node] + layer_[node] * costs_.weight(layers) +
           (layers.end == layers_ ? head_[node] : 0.0);
  }
  // Where the longest range from `begin` on ends that is not the model's end; `begin`: none.
  std::uint32_t far(std::uint32_t node, std::uint32_t begin) const {
    return far_[std::size_t{node} * layers_ + begin];
  }
  bool ends(std::uint32_t node, std::uint32_t begin) const { return begin >= ends_from_[node]; }

  // Keeps every stage and link within `pace`.
  void bound(double pace);
  void read_heaviest(std::uint32_t node);
  bool linked(std::uint32_t from, std::uint32_t to) const { return (from_[to] & bit(from)) != 0; }

  // How far the nodes of every set reach at most, by their last one. Where a node holds every layer
  // who reaches further never loses by it; where one does not, sets may be thought possible that
  // are not.
  void reach(std::uint32_t first);
  std::uint32_t reached(Set set, std::uint32_t next) const;
  bool closes(Set set, std::uint32_t first) const;
  bool keeps();
  std::vector<double> paces(double most);
  std::optional<double> least_pace();

  // The least seconds of hops from the node through all of `left` in any order, and of the head and
  // the way back to the first.
  double& way(Set left, std::uint32_t node) { return ways_[std::size_t{left} * kWide + node]; }
  void read_ways(Set set, std::uint32_t first);
  // Of the stages, where layers are cut as is best between the least layer and the heaviest range;
  // and what a layer of the slowest stage that takes more than the least costs.
  struct Filled {
    double seconds = kNever;
    double price = 0.0;
  };
  Filled fill(Set set, std::uint32_t first, std::uint32_t last) const;
  // The least seconds of a pipeline of these; kNever where it is not within the limit.
  double least(Set set, std::uint32_t first);
  // Marks the sets that may be better than the best with this first node; false: there is none.
  bool mark(std::uint32_t first);
  // Reads bounds of what is left: with layers at a price each node takes as many as pay, and what
  // the layers left cost at it is added.
  void read_rests(std::uint32_t first);
  double read_rest(Set set, std::uint32_t last, std::uint32_t first, std::size_t price) const;
  double& rest(Set set, std::uint32_t last, std::size_t price) {
    return rests_[price][std::size_t{set} * kWide + last];
  }

  // The best, or any that keeps the pace; false: there is none within the limit.
  bool solve();
  void solve(std::uint32_t first);
  void close(Set set, std::uint32_t first);
  std::uint32_t& slot(Set set, std::uint32_t last) {
    return slots_[std::size_t{set} * kWide + last];
  }
  bool arrive(Set before, std::uint32_t node);
  Row leave(std::uint32_t node);
  void keep(Set set, std::uint32_t last, Row row);
  std::vector<Stage> trace(Set set, std::uint32_t last, std::uint32_t begin);
  void take(std::vector<Stage> stages, double seconds);

  const Problem& problem_;
  const Costs costs_;
  const std::uint32_t count_;
  const std::uint32_t layers_;
  const std::uint32_t stages_;
  const Set all_;
  Set must_ = 0;
  std::vector<std::uint32_t> nodes_;  // by number: of the problem
  std::vector<double> layer_, step_, head_;
  std::vector<double> hops_, bytes_, delays_;  // [from * count_ + to]
  std::vector<double> weights_;                // of all layers before one, in layers of mean size
  double least_weight_ = kNever;               // of a layer
  std::optional<std::vector<Stage>> best_;

  // With a pace, S stages may take S + 1 of it: every stage's toll is a pace less than its step,
  // and they may take one.
  double pace_ = kNever;
  double limit_ = kNever;
  std::vector<double> toll_;
  std::vector<Set> from_;                                    // who may stand before a node
  std::vector<std::array<std::uint16_t, kWide>> from_each_;  // the same, all ones for each who may
  std::vector<std::uint32_t> far_, ends_from_;
  std::vector<Heaviest> heaviest_;

  std::vector<std::array<std::uint16_t, kWide>> reach_;  // by set; 0: never there
  std::vector<double> ways_;
  std::vector<char> wanted_;  // sets, of one first node
  std::vector<char> grows_;   // sets that are a part of one that is wanted
  std::vector<double> prices_;
  std::array<std::vector<double>, kPrices> rests_;
  std::vector<std::uint32_t> slots_;  // of rows_, by set and last node; 0: none
  std::vector<Row> rows_;
  std::size_t rows_met_ = 0;
  std::vector<double> seconds_;  // of rows_
  // Before the next stage, by where that begins.
  std::vector<double> arrivals_;
  std::uint32_t arrivals_begin_ = 0;
  std::uint32_t arrivals_end_ = 0;
  std::vector<std::uint32_t> queue_;  // of leave()
};

Uneven::Uneven(const Problem& problem, std::optional<std::vector<Stage>> known, Set must)
    : problem_(problem),
      costs_(problem),
      count_(static_cast<std::uint32_t>(problem.nodes.size())),
      layers_(problem.layers()),
      stages_(problem.stages),
      all_((Set{1} << count_) - 1),
      best_(std::move(known)) {
  INVARIANT(count_ >= 1 && count_ <= limits::kExactNodes, "the exact search is for a few nodes");
  for (std::uint32_t i = 0; i <= layers_; ++i) {
    weights_.push_back(costs_.weight({0, i}));
    if (i > 0) least_weight_ = std::min(least_weight_, costs_.weight({i - 1, i}));
  }
  read_nodes();
  read_links();
  for (std::uint32_t i = 0; i < count_; ++i) {
    if ((must >> nodes_[i]) & 1U) must_ |= bit(i);
  }
  reach_.resize(std::size_t{all_} + 1);
  ways_.resize((std::size_t{all_} + 1) * kWide);
  slots_.resize((std::size_t{all_} + 1) * kWide);
  for (auto& rests : rests_) rests.resize((std::size_t{all_} + 1) * kWide);
  arrivals_.resize(layers_);
}

void Uneven::read_nodes() {
  const bool latency = problem_.objective == Objective::kLatency;
  const auto layer = [&](std::uint32_t node) {
    const Speed& speed = costs_.speed(node);
    return latency ? speed.one_layer : speed.layer;
  };
  nodes_.resize(count_);
  std::iota(nodes_.begin(), nodes_.end(), 0U);
  std::stable_sort(nodes_.begin(), nodes_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return layer(a) < layer(b); });
  for (const std::uint32_t node : nodes_) {
    const Speed& speed = costs_.speed(node);
    layer_.push_back(layer(node));
    step_.push_back(speed.step);
    head_.push_back(latency ? speed.one_head : speed.head);
  }
}

void Uneven::read_links() {
  const double rows = problem_.objective == Objective::kLatency ? 1.0 : problem_.batch_rows;
  const double bytes = rows * static_cast<double>(problem_.model.activation_bytes);
  for (std::uint32_t from = 0; from < count_; ++from) {
    for (std::uint32_t to = 0; to < count_; ++to) {
      const Link& link = problem_.link(nodes_[from], nodes_[to]);
      const bool there = from != to && link.bytes_per_second > 0.0;
      delays_.push_back(there ? link.delay_seconds : kNever);
      bytes_.push_back(there ? bytes / link.bytes_per_second : kNever);
      hops_.push_back(delays_.back() + bytes_.back());
    }
  }
}

void Uneven::bound(double pace) {
  pace_ = pace;
  const double most = pace * (1.0 + kSlack);
  limit_ = most;
  toll_ = step_;
  for (double& toll : toll_) toll -= pace < kNever ? pace : 0.0;
  from_.assign(count_, 0);
  from_each_.assign(count_, {});
  far_.assign(std::size_t{count_} * layers_, 0);
  ends_from_.assign(count_, layers_);
  heaviest_.assign(count_, {});
  for (std::uint32_t node = 0; node < count_; ++node) {
    for (std::uint32_t from = 0; from < count_; ++from) {
      const double bytes = bytes_[from * count_ + node];
      if (bytes == kNever || bytes > most) continue;
      from_[node] |= bit(from);
      from_each_[node][from] = 0xffff;
    }
    const auto holds = [&](LayerRange layers) {
      return costs_.fits(nodes_[node], layers) && seconds(node, layers) <= most;
    };
    std::uint32_t end = 0;
    for (std::uint32_t begin = 0; begin < layers_; ++begin) {
      end = std::max(begin, end);
      while (end + 1 < layers_ && holds({begin, end + 1})) ++end;
      far_[std::size_t{node} * layers_ + begin] = end;
      double& heaviest = begin == 0 ? heaviest_[node].first : heaviest_[node].inner;
      heaviest = std::max(heaviest, weights_[end] - weights_[begin]);
    }
    while (ends_from_[node] > 1 && holds({ends_from_[node] - 1, layers_})) --ends_from_[node];
    heaviest_[node].last = weights_[layers_] - weights_[ends_from_[node]];
    if (holds({0, layers_})) heaviest_[node].alone = weights_[layers_];
  }
}

// Written so that a compiler takes all nodes at once.
std::uint32_t Uneven::reached(Set set, std::uint32_t next) const {
  const auto& reach = reach_[set];
  const auto& from = from_each_[next];
  std::uint16_t most = 0;
  for (std::uint32_t i = 0; i < kWide; ++i) {
    const auto one = static_cast<std::uint16_t>(reach[i] & from[i]);
    most = std::max(most, one);
  }
  return most;
}

void Uneven::reach(std::uint32_t first) {
  std::fill(reach_.begin(), reach_.end(), std::array<std::uint16_t, kWide>{});
  const Set own = bit(first);
  reach_[own][first] = static_cast<std::uint16_t>(far(first, 0));
  for (Set set = own; set <= all_; ++set) {
    if ((set & own) == 0 || !may_grow(set)) continue;
    for (Set left = all_ & ~set; left != 0; left &= left - 1) {
      const std::uint32_t next = lowest(left);
      const std::uint32_t begin = reached(set, next);
      if (begin == 0) continue;
      reach_[set | bit(next)][next] = static_cast<std::uint16_t>(far(next, begin));
    }
  }
}

bool Uneven::closes(Set set, std::uint32_t first) const {
  if (set == bit(first)) return heaviest_[first].alone > 0.0;
  for (Set lasts = set & ~bit(first); lasts != 0; lasts &= lasts - 1) {
    const std::uint32_t last = lowest(lasts);
    if (delays_[last * count_ + first] == kNever) continue;
    const std::uint32_t begin = reached(set & ~bit(last), last);
    if (begin > 0 && ends(last, begin)) return true;
  }
  return false;
}

bool Uneven::keeps() {
  for (std::uint32_t first = 0; first < count_; ++first) {
    reach(first);
    for (Set set = bit(first); set <= all_; ++set) {
      if ((set & bit(first)) != 0 && allowed(set) && closes(set, first)) return true;
    }
  }
  return false;
}

// The slowest stage or link of any pipeline takes one of these.
std::vector<double> Uneven::paces(double most) {
  bound(kNever);
  std::vector<double> paces;
  const auto add = [&](double pace) {
    if (pace < most) paces.push_back(pace);
  };
  for (const double bytes : bytes_) add(bytes);
  for (std::uint32_t node = 0; node < count_; ++node) {
    for (std::uint32_t begin = 0; begin < layers_; ++begin) {
      for (std::uint32_t end = begin + 1; end <= far(node, begin); ++end) {
        add(seconds(node, {begin, end}));
      }
      if (begin > 0 && ends(node, begin)) add(seconds(node, {begin, layers_}));
    }
    if (heaviest_[node].alone > 0.0) add(seconds(node, {0, layers_}));
  }
  std::sort(paces.begin(), paces.end());
  paces.erase(std::unique(paces.begin(), paces.end()), paces.end());
  return paces;
}

std::optional<double> Uneven::least_pace() {
  const std::vector<double> all = paces(cost_seconds(problem_, *best_) * (1.0 - kSlack));
  const auto least = std::partition_point(all.begin(), all.end(), [&](double pace) {
    bound(pace);
    return !keeps();
  });
  return least == all.end() ? std::nullopt : std::optional(*least);
}

// Held and Karp, from the end.
void Uneven::read_ways(Set set, std::uint32_t first) {
  const Set others = set & ~bit(first);
  for (Set nodes = others; nodes != 0; nodes &= nodes - 1) {
    const std::uint32_t node = lowest(nodes);
    way(0, node) = delays_[node * count_ + first] + head_[node];
  }
  Set left = 0;
  while (left != others) {
    left = (left - others) & others;  // the next larger part
    for (Set nodes = set & ~left; nodes != 0; nodes &= nodes - 1) {
      const std::uint32_t node = lowest(nodes);
      double least = kNever;
      for (Set nexts = left; nexts != 0; nexts &= nexts - 1) {
        const std::uint32_t next = lowest(nexts);
        if (!linked(node, next)) continue;
        least = std::min(least, hops_[node * count_ + next] + way(left & ~bit(next), next));
      }
      way(left, node) = least;
    }
  }
}

Uneven::Filled Uneven::fill(Set set, std::uint32_t first, std::uint32_t last) const {
  double left = weights_[layers_] - size_of(set) * least_weight_;
  Filled filled{0.0, layer_[lowest(set)]};
  for (; set != 0; set &= set - 1) {
    const std::uint32_t node = lowest(set);
    const Heaviest& holds = heaviest_[node];
    const double most = node == first   ? holds.first
                        : last == kWide ? std::max(holds.inner, holds.last)
                        : node == last  ? holds.last
                                        : holds.inner;
    if (most == 0.0) return {};
    if (left > 0.0) filled.price = layer_[node];
    const double more = std::clamp(left, 0.0, most - least_weight_);
    left -= more;
    filled.seconds += toll_[node] + (least_weight_ + more) * layer_[node];
  }
  if (left > kSlack * weights_[layers_]) return {};
  return filled;
}

double Uneven::least(Set set, std::uint32_t first) {
  if (set == bit(first)) return kNever;  // it is tried at once
  const double hops = way(set & ~bit(first), first);
  if (hops == kNever || hops + fill(set, first, kWide).seconds >= limit_) return kNever;
  double least = kNever;
  for (Set lasts = set & ~bit(first); lasts != 0; lasts &= lasts - 1) {
    least = std::min(least, fill(set, first, lowest(lasts)).seconds);
  }
  return hops + least < limit_ ? hops + least : kNever;
}

bool Uneven::mark(std::uint32_t first) {
  read_ways(all_, first);
  reach(first);
  wanted_.assign(std::size_t{all_} + 1, 0);
  double best = kNever;
  double least_price = kNever;
  double most_price = 0.0;
  double best_price = 0.0;
  for (Set set = bit(first); set <= all_; ++set) {
    if ((set & bit(first)) == 0 || !allowed(set) || size_of(set) > layers_) continue;
    const double seconds = least(set, first);
    if (seconds == kNever || !closes(set, first)) continue;
    wanted_[set] = 1;
    const double price = fill(set, first, kWide).price;
    least_price = std::min(least_price, price);
    most_price = std::max(most_price, price);
    if (seconds >= best) continue;
    best = seconds;
    best_price = price;
  }
  prices_ = {best_price};
  if (least_price < best_price) prices_.push_back(least_price);
  if (most_price > best_price) prices_.push_back(most_price);
  return best < kNever;
}

void Uneven::read_rests(std::uint32_t first) {
  grows_.assign(std::size_t{all_} + 1, 0);
  for (Set set = all_; set != 0; --set) {
    if ((set & bit(first)) == 0) continue;
    for (Set left = all_ & ~set; left != 0 && grows_[set] == 0; left &= left - 1) {
      const Set with = set | bit(lowest(left));
      if (wanted_[with] != 0 || grows_[with] != 0) grows_[set] = 1;
    }
    if (grows_[set] == 0) continue;
    for (Set lasts = set; lasts != 0; lasts &= lasts - 1) {
      for (std::size_t price = 0; price < prices_.size(); ++price) {
        rest(set, lowest(lasts), price) = read_rest(set, lowest(lasts), first, price);
      }
    }
  }
}

double Uneven::read_rest(Set set, std::uint32_t last, std::uint32_t first,
                         std::size_t price) const {
  const auto stage = [&](std::uint32_t node, double heaviest) {
    if (heaviest == 0.0) return kNever;
    const double each = layer_[node] - prices_[price];
    return toll_[node] + each * (each < 0.0 ? heaviest : least_weight_);
  };
  double least = kNever;
  for (Set left = all_ & ~set; left != 0; left &= left - 1) {
    const std::uint32_t next = lowest(left);
    if (!linked(last, next)) continue;
    const Set with = set | bit(next);
    double after = kNever;
    if (wanted_[with] != 0) {
      after = stage(next, heaviest_[next].last) + delays_[next * count_ + first] + head_[next];
    }
    if (grows_[with] != 0) {
      after = std::min(after, stage(next, heaviest_[next].inner) +
                                  rests_[price][std::size_t{with} * kWide + next]);
    }
    least = std::min(least, hops_[last * count_ + next] + after);
  }
  return least;
}

bool Uneven::solve() {
  const double before = limit_;
  for (std::uint32_t first = 0; first < count_; ++first) {
    if (allowed(bit(first)) && heaviest_[first].alone > 0.0) {
      const double alone = toll_[first] + layer_[first] * weights_[layers_] + head_[first];
      if (alone < limit_) take({{nodes_[first], {0, layers_}}}, alone);
    }
    if (heaviest_[first].first == 0.0 || !mark(first)) continue;
    read_rests(first);
    solve(first);
    rows_met_ += rows_.size();
    const bool any = problem_.objective == Objective::kThroughput;
    if (any && (limit_ < before || (pace_ < kNever && rows_met_ >= kRowsMost))) break;
  }
  return limit_ < before;
}

// The sets of a set's nodes are met before it.
void Uneven::solve(std::uint32_t first) {
  rows_.assign(1, {});
  seconds_.clear();
  const Set own = bit(first);
  for (Set set = own; set <= all_; ++set) {
    if ((set & own) == 0) continue;
    if (wanted_[set] != 0) close(set, first);
    for (Set lasts = set; lasts != 0; lasts &= lasts - 1) slot(set, lowest(lasts)) = 0;
    if (grows_[set] == 0) continue;
    if (set == own) {
      const Row row{1, far(first, 0) + 1, 0};
      for (std::uint32_t end = row.begin; end < row.end; ++end) {
        seconds_.push_back(toll_[first] + layer_[first] * weights_[end]);
      }
      keep(own, first, row);
    }
    for (Set lasts = set & ~own; lasts != 0; lasts &= lasts - 1) {
      const std::uint32_t last = lowest(lasts);
      if (arrive(set & ~bit(last), last)) keep(set, last, leave(last));
    }
  }
}

void Uneven::close(Set set, std::uint32_t first) {
  double least = limit_;
  std::uint32_t last = first;
  std::uint32_t from = 0;
  for (Set lasts = set & ~bit(first); lasts != 0; lasts &= lasts - 1) {
    const std::uint32_t node = lowest(lasts);
    const double back = delays_[node * count_ + first] + head_[node] + toll_[node];
    if (back == kNever || !arrive(set & ~bit(node), node)) continue;
    for (std::uint32_t begin = arrivals_begin_; begin < arrivals_end_; ++begin) {
      if (!ends(node, begin)) continue;
      const double all =
          arrivals_[begin] + layer_[node] * (weights_[layers_] - weights_[begin]) + back;
      if (all >= least) continue;
      least = all;
      last = node;
      from = begin;
    }
  }
  if (last != first) take(trace(set, last, from), least);
}

// The quickest way to each end of a set's layers from which the node goes on.
bool Uneven::arrive(Set before, std::uint32_t node) {
  arrivals_begin_ = layers_;
  arrivals_end_ = 0;
  for (Set lasts = before & from_[node]; lasts != 0; lasts &= lasts - 1) {
    const Row& row = rows_[slot(before, lowest(lasts))];
    if (row.begin == row.end) continue;
    arrivals_begin_ = std::min(arrivals_begin_, row.begin);
    arrivals_end_ = std::max(arrivals_end_, row.end);
  }
  if (arrivals_begin_ >= arrivals_end_) return false;
  std::fill(arrivals_.begin() + arrivals_begin_, arrivals_.begin() + arrivals_end_, kNever);
  for (Set lasts = before & from_[node]; lasts != 0; lasts &= lasts - 1) {
    const std::uint32_t last = lowest(lasts);
    const Row& row = rows_[slot(before, last)];
    const double hop = hops_[last * count_ + node];
    const double* const seconds = seconds_.data() + row.at;
    double* const arrivals = arrivals_.data() + row.begin;
    for (std::uint32_t i = 0; i < row.end - row.begin; ++i) {
      arrivals[i] = std::min(arrivals[i], seconds[i] + hop);
    }
  }
  return true;
}

// The node's stage after the arrivals: of every end the best begin. Later begins reach later ends,
// so that begins wait in a queue, each until a later one is better or the end is too far for it.
Row Uneven::leave(std::uint32_t node) {
  const double each = layer_[node];
  const auto before = [&](std::uint32_t begin) {
    return arrivals_[begin] - each * weights_[begin];
  };
  const Row row{arrivals_begin_ + 1, far(node, arrivals_end_ - 1) + 1, seconds_.size()};
  queue_.clear();
  std::size_t front = 0;
  for (std::uint32_t end = row.begin; end < row.end; ++end) {
    const std::uint32_t begin = end - 1;
    if (begin < arrivals_end_ && arrivals_[begin] < kNever) {
      while (queue_.size() > front && before(queue_.back()) >= before(begin)) queue_.pop_back();
      queue_.push_back(begin);
    }
    while (front < queue_.size() && far(node, queue_[front]) < end) ++front;
    const bool none = front == queue_.size();
    seconds_.push_back(none ? kNever : before(queue_[front]) + each * weights_[end] + toll_[node]);
  }
  return row;
}

// Keeps of a row, the newest, the ends from which others may come round within the limit.
void Uneven::keep(Set set, std::uint32_t last, Row row) {
  double* const seconds = seconds_.data() + row.at;
  Row kept{row.end, row.begin, row.at};
  for (std::uint32_t end = row.begin; end < row.end; ++end) {
    const double left = weights_[layers_] - weights_[end];
    double least = 0.0;
    for (std::size_t price = 0; price < prices_.size(); ++price) {
      const double all = rest(set, last, price) + prices_[price] * left;
      least = price == 0 ? all : std::max(least, all);
    }
    double& one = seconds[end - row.begin];
    if (one + least >= limit_) {
      one = kNever;
      continue;
    }
    kept.begin = std::min(kept.begin, end);
    kept.end = end + 1;
  }
  if (kept.begin >= kept.end) {
    seconds_.resize(row.at);
    return;
  }
  seconds_.resize(row.at + (kept.end - row.begin));
  kept.at += kept.begin - row.begin;
  slot(set, last) = static_cast<std::uint32_t>(rows_.size());
  rows_.push_back(kept);
}

std::vector<Stage> Uneven::trace(Set set, std::uint32_t last, std::uint32_t begin) {
  std::vector<Stage> stages{{nodes_[last], {begin, layers_}}};
  for (set &= ~bit(last); size_of(set) > 1; set &= ~bit(last)) {
    const std::uint32_t end = begin;
    const std::uint32_t next = last;
    const auto end_of = [&](std::uint32_t node) {
      const Row& row = rows_[slot(set, node)];
      return end < row.begin || end >= row.end ? kNever : seconds_[row.at + (end - row.begin)];
    };
    double least = kNever;
    for (Set lasts = set & from_[next]; lasts != 0; lasts &= lasts - 1) {
      const std::uint32_t node = lowest(lasts);
      const double way = end_of(node) + hops_[node * count_ + next];
      if (way >= least) continue;
      least = way;
      last = node;
    }
    arrive(set & ~bit(last), last);
    least = kNever;
    for (std::uint32_t from = arrivals_begin_; from < std::min(arrivals_end_, end); ++from) {
      if (far(last, from) < end) continue;
      const double way = arrivals_[from] - layer_[last] * weights_[from];
      if (way >= least) continue;
      least = way;
      begin = from;
    }
    stages.push_back({nodes_[last], {begin, end}});
  }
  stages.push_back({nodes_[lowest(set)], {0, begin}});
  std::reverse(stages.begin(), stages.end());
  return stages;
}

void Uneven::take(std::vector<Stage> stages, double seconds) {
  best_ = std::move(stages);
  limit_ = seconds - kSlack * std::abs(seconds);
}

std::optional<std::vector<Stage>> Uneven::run() {
  bound(kNever);
  if (problem_.objective == Objective::kLatency) {
    if (best_) limit_ = cost_seconds(problem_, *best_) * (1.0 - kSlack);
    solve();
    return std::move(best_);
  }
  if (!best_ && !solve()) return std::nullopt;
  rows_met_ = 0;
  const std::optional<double> least = least_pace();
  if (!least) return std::move(best_);
  bound(*least);
  if (solve()) return std::move(best_);
  double low = *least;
  double high = cost_seconds(problem_, *best_);
  while (high - low > kPrecision * high && rows_met_ < kRowsMost) {
    const double pace = low + (high - low) / 2.0;
    bound(pace);
    if (solve()) {
      high = std::min(pace, cost_seconds(problem_, *best_));
    } else {
      low = pace;
    }
  }
  return std::move(best_);
}

}  // namespace

std::optional<std::vector<Stage>> search_uneven(const Problem& problem,
                                                std::optional<std::vector<Stage>> known,
                                                std::uint32_t must) {
  return Uneven(problem, std::move(known), must).run();
}

}  // namespace hearth::placement
