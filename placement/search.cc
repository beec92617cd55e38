#include "placement/search.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "placement/search_input.h"

namespace hearth::placement {
namespace {

constexpr double kPrecision = 1e-4;
constexpr std::size_t kPrices = 3;
constexpr std::size_t kMaxPaceRows = 1'000'000;  // of all tests of paces together

// A row of the table over (set of nodes, last node): seconds for each end of the last node's
// layers, for ends in [begin, end). No pipeline with another end is within the limit.
struct Row {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::size_t at = 0;  // of Search::seconds_
};

class Search {
 public:
  // `known`: a pipeline; the result is it or a better one.
  Search(const Problem& problem, std::optional<std::vector<Stage>> known, Set required)
      : problem_(problem),
        in_(problem),
        count_(in_.count()),
        layers_(in_.layers()),
        stages_(problem.stages),
        max_stages_(std::min(count_, stages_ == 0 ? layers_ : stages_)),
        all_(bit(count_) - 1),
        equal_(in_.equal_layers()),
        best_(std::move(known)) {
    INVARIANT((required & ~all_) == 0, "a required node is one of the problem's");
    for (std::uint32_t i = 0; i < count_; ++i) {
      if ((required >> in_.node(i)) & 1U) required_ |= bit(i);
    }
    INVARIANT(size_of(required_) == size_of(required), "every required node has a number");
    paths_.resize((std::size_t{all_} + 1) * count_);
    reach_.resize(std::size_t{all_} + 1);
    if (equal_) return;
    slots_.resize((std::size_t{all_} + 1) * kMaxNodes);
    for (auto& rests : rests_) rests.resize((std::size_t{all_} + 1) * kMaxNodes);
    arrivals_.resize(layers_);
  }

  std::optional<std::vector<Stage>> run() {
    bound(kNever);
    if (problem_.objective != Objective::kThroughput) {
      if (best_) limit_ = cost_seconds(problem_, *best_) * (1.0 - kSlack);
      solve();
      return std::move(best_);
    }
    if (!equal_ && !best_ && !solve()) return std::nullopt;
    rows_visited_ = 0;
    const std::optional<double> pace = min_pace();
    if (!pace) return std::move(best_);
    bound(*pace);
    if (solve()) return std::move(best_);
    // The time round the ring takes more than S + 1 of that pace.
    if (!best_) {
      bound(kNever);
      if (!solve()) return std::nullopt;
    }
    double low = *pace;
    double high = cost_seconds(problem_, *best_);
    while (high - low > kPrecision * high && rows_visited_ < kMaxPaceRows) {
      const double middle = low + (high - low) / 2.0;
      bound(middle);
      if (solve()) {
        high = std::min(middle, cost_seconds(problem_, *best_));
      } else {
        low = middle;
      }
    }
    return std::move(best_);
  }

 private:
  bool allowed(Set set) const {
    return (set & required_) == required_ && (stages_ == 0 || size_of(set) == stages_);
  }
  // From now on every stage and link keeps within `pace`.
  void bound(double pace) {
    in_.bound(pace);
    limit_ = equal_ ? kNever : pace * (1.0 + kSlack);
  }

  // The limit for the ring of a pipeline of so many stages.
  double max_seconds(std::uint32_t stages) const {
    if (in_.pace() == kNever) return limit_;
    if (equal_) return std::min(limit_, (stages + 1) * in_.pace() * (1.0 + kSlack));
    return limit_ + stages * in_.pace();
  }

  // Reads how far the nodes of a set reach, by their last node; the set's subsets were read before.
  // For a node that holds the same anywhere, a longer reach never costs anything; for others an
  // impossible set may count as possible. True: they reach the end.
  bool reach(std::uint32_t first, Set set) {
    auto& reach = reach_[set];
    reach.fill(0);
    if (set == bit(first)) {
      reach[first] = static_cast<std::uint16_t>(in_.far(first, 0));
      return in_.heaviest(first, kAlone) > 0.0;
    }
    bool closes = false;
    for (Set lasts = set & ~bit(first); lasts != 0; lasts &= lasts - 1) {
      const std::uint32_t last = lowest(lasts);
      const std::uint32_t begin = reached(set & ~bit(last), last);
      if (begin == 0) continue;
      closes = closes || (in_.holds_end(last, begin) && in_.delay(last, first) < kNever);
      if (in_.heaviest(last, kInner) == 0.0) continue;
      reach[last] = static_cast<std::uint16_t>(in_.far(last, begin));
    }
    return closes;
  }

  // Written so that a compiler vectorises it over all nodes.
  std::uint32_t reached(Set set, std::uint32_t next) const {
    const auto& reach = reach_[set];
    const auto& from = in_.source_masks(next);
    std::uint16_t farthest = 0;
    for (std::uint32_t i = 0; i < kMaxNodes; ++i) {
      const auto one = static_cast<std::uint16_t>(reach[i] & from[i]);
      farthest = std::max(farthest, one);
    }
    return farthest;
  }

  bool keeps_pace() {
    for (std::uint32_t first = 0; first < count_; ++first) {
      for (Set set = bit(first); set <= all_; ++set) {
        if ((set & bit(first)) == 0 || size_of(set) > max_stages_) continue;
        if (reach(first, set) && allowed(set)) return true;
      }
    }
    return false;
  }

  std::optional<double> min_pace() {
    bound(kNever);
    const std::vector<double> all =
        in_.paces(best_ ? cost_seconds(problem_, *best_) * (1.0 - kSlack) : kNever);
    const auto first_kept = std::ranges::partition_point(all, [&](double pace) {
      bound(pace);
      return !keeps_pace();
    });
    return first_kept == all.end() ? std::nullopt : std::optional(*first_kept);
  }

  // Held and Karp: the shortest path from `first` through all of a set to its last node.
  void read_paths(std::uint32_t first) {
    std::ranges::fill(paths_, kNever);
    const Set own = bit(first);
    path(own, first) = 0.0;
    // A longer path leaves too little time for the layers, even if the quickest node had them all.
    const double max_length =
        max_seconds(max_stages_) - in_.layer(0) * in_.all_weight() * (1.0 - kSlack);
    for (Set set = own; set <= all_; ++set) {
      if ((set & own) == 0 || size_of(set) >= max_stages_) continue;
      for (Set members = set; members != 0; members &= members - 1) {
        const std::uint32_t last = lowest(members);
        const double so_far = path(set, last);
        if (so_far >= max_length) continue;
        for (Set left = all_ & ~set; left != 0; left &= left - 1) {
          const std::uint32_t next = lowest(left);
          if (!in_.linked(last, next)) continue;
          double& there = path(set | bit(next), next);
          there = std::min(there, so_far + in_.hop(last, next));
        }
      }
    }
  }

  double& path(Set set, std::uint32_t last) { return paths_[std::size_t{set} * count_ + last]; }
  double path(Set set, std::uint32_t last) const {
    return paths_[std::size_t{set} * count_ + last];
  }
  // The best relaxed pipeline of the set that takes less than `below`; kNone: no pipeline does.
  struct Relaxed {
    double seconds = kNever;
    double price = 0.0;
    std::uint32_t last = kNone;
  };
  Relaxed relax(Set set, std::uint32_t first, double below) const {
    Relaxed best{below};
    const Set own = bit(first);
    double stages = -1.0;  // seconds at least, whichever node is the last one
    for (Set lasts = set == own ? own : set & ~own; lasts != 0; lasts &= lasts - 1) {
      const std::uint32_t last = lowest(lasts);
      const double back = set == own ? 0.0 : in_.delay(last, first);
      const double ring = path(set, last) + back + in_.head(last);
      if (ring >= best.seconds) continue;
      if (stages < 0.0 && set != own) stages = in_.fill(set, first, kNone).seconds * (1.0 - kSlack);
      if (ring + stages >= best.seconds) continue;
      const SearchInput::Filled filled = in_.fill(set, first, last);
      if (ring + filled.seconds >= best.seconds) continue;
      best = {ring + filled.seconds, filled.price, last};
    }
    return best;
  }

  // The best relaxed pipeline is a real one.
  void solve_equal(std::uint32_t first) {
    read_paths(first);
    Set best = 0;
    std::uint32_t last = kNone;
    for (Set set = bit(first); set <= all_; ++set) {
      if ((set & bit(first)) == 0 || !allowed(set)) continue;
      const Relaxed found = relax(set, first, max_seconds(size_of(set)));
      if (found.last == kNone) continue;
      INVARIANT(found.seconds < limit_, "a pipeline is taken for a better one only");
      limit_ = found.seconds;
      best = set;
      last = found.last;
    }
    if (best != 0) best_ = stages_of(best, first, last);
  }

  std::vector<std::uint32_t> order_of(Set set, std::uint32_t first, std::uint32_t last) const {
    std::vector<std::uint32_t> order{last};
    while (set != bit(first)) {
      const std::uint32_t next = order.back();
      set &= ~bit(next);
      double shortest = kNever;
      std::uint32_t before = kNone;
      for (Set members = set & in_.sources(next); members != 0; members &= members - 1) {
        const std::uint32_t node = lowest(members);
        const double length = path(set, node) + in_.hop(node, next);
        if (length >= shortest) continue;
        shortest = length;
        before = node;
      }
      INVARIANT(before != kNone, "a path leads to every node of its set");
      order.push_back(before);
    }
    INVARIANT(order.back() == first, "a path begins at the first node");
    std::ranges::reverse(order);
    return order;
  }

  // Divides layers as SearchInput::fill() does: for equal layers all figures are whole numbers.
  std::vector<Stage> stages_of(Set set, std::uint32_t first, std::uint32_t last) const {
    INVARIANT(equal_ && size_of(set) <= layers_, "every stage has a layer");
    std::array<std::uint32_t, kMaxNodes> sizes{};
    std::uint32_t left = layers_ - size_of(set);
    for (Set members = set; members != 0; members &= members - 1) {
      const std::uint32_t node = lowest(members);
      const auto held = static_cast<std::uint32_t>(in_.heaviest(node, role_of(node, first, last)));
      INVARIANT(held >= 1, "every node of a pipeline holds a layer");
      const std::uint32_t more = std::min(left, held - 1);
      sizes[node] = 1 + more;
      left -= more;
    }
    INVARIANT(left == 0, "the nodes of a pipeline hold all layers");
    std::vector<Stage> stages;
    std::uint32_t begin = 0;
    for (const std::uint32_t node : order_of(set, first, last)) {
      stages.push_back({in_.node(node), {begin, begin + sizes[node]}});
      begin += sizes[node];
    }
    return stages;
  }

  // Marks the sets that may beat the limit with this first node; false: no set may.
  bool mark(std::uint32_t first) {
    read_paths(first);
    wanted_.assign(std::size_t{all_} + 1, 0);
    double best = kNever;
    double min_price = kNever;
    double max_price = 0.0;
    double best_price = 0.0;
    for (Set set = bit(first); set <= all_; ++set) {
      if ((set & bit(first)) == 0 || size_of(set) > max_stages_) continue;
      if (!reach(first, set) || !allowed(set)) continue;
      if (set == bit(first)) continue;  // solve() tries it
      const Relaxed relaxed = relax(set, first, max_seconds(size_of(set)));
      if (relaxed.last == kNone) continue;
      wanted_[set] = 1;
      min_price = std::min(min_price, relaxed.price);
      max_price = std::max(max_price, relaxed.price);
      const double seconds =
          relaxed.seconds - (in_.pace() < kNever ? size_of(set) * in_.pace() : 0.0);
      if (seconds >= best) continue;
      best = seconds;
      best_price = relaxed.price;
    }
    prices_ = {best_price};
    if (min_price < best_price) prices_.push_back(min_price);
    if (max_price > best_price) prices_.push_back(max_price);
    INVARIANT(prices_.size() <= kPrices, "every price has its bounds");
    return best < kNever;
  }

  // Bounds of the remaining cost after a path: at a price for each layer, every node takes those
  // that pay, and the rest are charged at the price.
  void read_rests(std::uint32_t first) {
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

  double read_rest(Set set, std::uint32_t last, std::uint32_t first, std::size_t price) const {
    const auto stage = [&](std::uint32_t node, double heaviest) {
      if (heaviest == 0.0) return kNever;
      const double each = in_.layer(node) - prices_[price];
      return in_.toll(node) + each * (each < 0.0 ? heaviest : in_.min_weight());
    };
    double shortest = kNever;
    for (Set left = all_ & ~set; left != 0; left &= left - 1) {
      const std::uint32_t next = lowest(left);
      if (!in_.linked(last, next)) continue;
      const Set with = set | bit(next);
      double after = kNever;
      if (wanted_[with] != 0) {
        after = stage(next, in_.heaviest(next, kLast)) + in_.delay(next, first) + in_.head(next);
      }
      if (grows_[with] != 0) {
        after = std::min(after, stage(next, in_.heaviest(next, kInner)) +
                                    rests_[price][std::size_t{with} * kMaxNodes + next]);
      }
      shortest = std::min(shortest, in_.hop(last, next) + after);
    }
    return shortest;
  }

  double& rest(Set set, std::uint32_t last, std::size_t price) {
    return rests_[price][std::size_t{set} * kMaxNodes + last];
  }

  // Finds the best pipeline; for throughput with unequal layers, the first one within the limit.
  // False: none was found within the limit.
  bool solve() {
    const double before = limit_;
    for (std::uint32_t first = 0; first < count_; ++first) {
      if (equal_) {
        solve_equal(first);
        continue;
      }
      if (allowed(bit(first)) && in_.heaviest(first, kAlone) > 0.0) {
        const double alone =
            in_.toll(first) + in_.layer(first) * in_.all_weight() + in_.head(first);
        if (alone < limit_) take({{in_.node(first), {0, layers_}}}, alone);
      }
      if (in_.heaviest(first, kFirst) == 0.0 || !mark(first)) continue;
      read_rests(first);
      solve_unequal(first);
      rows_visited_ += rows_.size();
      const bool any = problem_.objective == Objective::kThroughput;
      if (any && (limit_ < before || (in_.pace() < kNever && rows_visited_ >= kMaxPaceRows))) break;
    }
    INVARIANT(limit_ <= before, "a limit only falls");
    const bool found = limit_ < before;
    if (found) check_best();
    return found;
  }

  // Subsets are visited before their supersets.
  void solve_unequal(std::uint32_t first) {
    rows_.assign(1, {});
    seconds_.clear();
    const Set own = bit(first);
    for (Set set = own; set <= all_; ++set) {
      if ((set & own) == 0) continue;
      if (wanted_[set] != 0) close(set, first);
      for (Set lasts = set; lasts != 0; lasts &= lasts - 1) slot(set, lowest(lasts)) = 0;
      if (grows_[set] == 0) continue;
      if (set == own) {
        const Row row{1, in_.far(first, 0) + 1, 0};
        for (std::uint32_t end = row.begin; end < row.end; ++end) {
          seconds_.push_back(in_.toll(first) + in_.layer(first) * in_.weight_before(end));
        }
        keep(own, first, row);
      }
      for (Set lasts = set & ~own; lasts != 0; lasts &= lasts - 1) {
        const std::uint32_t last = lowest(lasts);
        if (arrive(set & ~bit(last), last)) keep(set, last, leave(last));
      }
    }
  }

  void close(Set set, std::uint32_t first) {
    double best = limit_;
    std::uint32_t last = first;
    std::uint32_t from = 0;
    for (Set lasts = set & ~bit(first); lasts != 0; lasts &= lasts - 1) {
      const std::uint32_t node = lowest(lasts);
      const double back = in_.delay(node, first) + in_.head(node) + in_.toll(node);
      if (back == kNever || !arrive(set & ~bit(node), node)) continue;
      for (std::uint32_t begin = arrivals_begin_; begin < arrivals_end_; ++begin) {
        if (!in_.holds_end(node, begin)) continue;
        const double all = arrivals_[begin] + in_.layer(node) * in_.weight({begin, layers_}) + back;
        if (all >= best) continue;
        best = all;
        last = node;
        from = begin;
      }
    }
    if (last != first) take(trace(set, last, from), best);
  }

  std::uint32_t& slot(Set set, std::uint32_t last) {
    return slots_[std::size_t{set} * kMaxNodes + last];
  }
  // The seconds of the best path to each end of a set's layers from which the node may go on.
  bool arrive(Set before, std::uint32_t node) {
    arrivals_begin_ = layers_;
    arrivals_end_ = 0;
    for (Set lasts = before & in_.sources(node); lasts != 0; lasts &= lasts - 1) {
      const Row& row = rows_[slot(before, lowest(lasts))];
      if (row.begin == row.end) continue;
      arrivals_begin_ = std::min(arrivals_begin_, row.begin);
      arrivals_end_ = std::max(arrivals_end_, row.end);
    }
    if (arrivals_begin_ >= arrivals_end_) return false;
    std::fill(arrivals_.begin() + arrivals_begin_, arrivals_.begin() + arrivals_end_, kNever);
    for (Set lasts = before & in_.sources(node); lasts != 0; lasts &= lasts - 1) {
      const std::uint32_t last = lowest(lasts);
      const Row& row = rows_[slot(before, last)];
      const double hop = in_.hop(last, node);
      const double* const seconds = seconds_.data() + row.at;
      double* const arrivals = arrivals_.data() + row.begin;
      for (std::uint32_t i = 0; i < row.end - row.begin; ++i) {
        arrivals[i] = std::min(arrivals[i], seconds[i] + hop);
      }
    }
    return true;
  }

  // The node's stage after the arrivals: the best begin for every end. Later begins reach later
  // ends. So begins wait in a queue until a later one is better or the end is out of reach.
  Row leave(std::uint32_t node) {
    const double each = in_.layer(node);
    const auto before = [&](std::uint32_t begin) {
      return arrivals_[begin] - each * in_.weight_before(begin);
    };
    const Row row{arrivals_begin_ + 1, in_.far(node, arrivals_end_ - 1) + 1, seconds_.size()};
    queue_.clear();
    std::size_t front = 0;
    for (std::uint32_t end = row.begin; end < row.end; ++end) {
      const std::uint32_t begin = end - 1;
      if (begin < arrivals_end_ && arrivals_[begin] < kNever) {
        while (queue_.size() > front && before(queue_.back()) >= before(begin)) queue_.pop_back();
        queue_.push_back(begin);
      }
      while (front < queue_.size() && in_.far(node, queue_[front]) < end) ++front;
      const bool none = front == queue_.size();
      seconds_.push_back(
          none ? kNever : before(queue_[front]) + each * in_.weight_before(end) + in_.toll(node));
    }
    return row;
  }

  // Trims the newest row to the ends from which other nodes can close the ring within the limit.
  void keep(Set set, std::uint32_t last, Row row) {
    double* const seconds = seconds_.data() + row.at;
    Row kept{row.end, row.begin, row.at};
    for (std::uint32_t end = row.begin; end < row.end; ++end) {
      const double left = in_.weight({end, layers_});
      double rest_seconds = 0.0;  // at least
      for (std::size_t price = 0; price < prices_.size(); ++price) {
        const double all = rest(set, last, price) + prices_[price] * left;
        rest_seconds = price == 0 ? all : std::max(rest_seconds, all);
      }
      double& one = seconds[end - row.begin];
      if (one + rest_seconds >= limit_) {
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
    INVARIANT(kept.at + (kept.end - kept.begin) <= seconds_.size(), "a row has its seconds");
    rows_.push_back(kept);
  }

  // The pipeline whose last stage begins at `begin`, read from the rows of its subsets.
  std::vector<Stage> trace(Set set, std::uint32_t last, std::uint32_t begin) {
    std::vector<Stage> stages{{in_.node(last), {begin, layers_}}};
    for (set &= ~bit(last); size_of(set) > 1; set &= ~bit(last)) {
      const std::uint32_t end = begin;
      const std::uint32_t next = last;
      const auto until = [&](std::uint32_t node) {
        const Row& row = rows_[slot(set, node)];
        return end < row.begin || end >= row.end ? kNever : seconds_[row.at + (end - row.begin)];
      };
      double shortest = kNever;
      for (Set lasts = set & in_.sources(next); lasts != 0; lasts &= lasts - 1) {
        const std::uint32_t node = lowest(lasts);
        const double seconds = until(node) + in_.hop(node, next);
        if (seconds >= shortest) continue;
        shortest = seconds;
        last = node;
      }
      INVARIANT(last != next, "a row leads to every stage but the first one");
      arrive(set & ~bit(last), last);
      shortest = kNever;
      for (std::uint32_t from = arrivals_begin_; from < std::min(arrivals_end_, end); ++from) {
        if (in_.far(last, from) < end) continue;
        const double seconds = arrivals_[from] - in_.layer(last) * in_.weight_before(from);
        if (seconds >= shortest) continue;
        shortest = seconds;
        begin = from;
      }
      INVARIANT(begin < end, "every stage has a layer");
      stages.push_back({in_.node(last), {begin, end}});
    }
    stages.push_back({in_.node(lowest(set)), {0, begin}});
    std::ranges::reverse(stages);
    return stages;
  }

  void take(std::vector<Stage> stages, double seconds) {
    INVARIANT(seconds < limit_, "a pipeline is taken for a better one only");
    best_ = std::move(stages);
    limit_ = seconds - kSlack * std::abs(seconds);
  }

  void check_best() const {
    INVARIANT(best_ && !best_->empty(), "a limit falls by a pipeline");
    INVARIANT(stages_ == 0 || best_->size() == stages_, "as many stages as were asked for");
    std::uint32_t begin = 0;
    for (const Stage& stage : *best_) {
      INVARIANT(stage.layers.begin == begin && stage.layers.end > begin, "stages are neighbours");
      INVARIANT(in_.costs().fits(stage.node, stage.layers), "a stage fits into its node's memory");
      begin = stage.layers.end;
    }
    INVARIANT(begin == layers_, "a pipeline has all layers");
  }

  const Problem& problem_;
  SearchInput in_;
  const std::uint32_t count_;
  const std::uint32_t layers_;
  const std::uint32_t stages_;
  const std::uint32_t max_stages_;
  const Set all_;
  const bool equal_;  // all layers have one size
  Set required_ = 0;
  std::optional<std::vector<Stage>> best_;

  // At a given pace, S stages may take S + 1 times the pace. For unequal layers a stage's toll is
  // its step less the pace, and all tolls and layers together may take one pace.
  double limit_ = kNever;
  std::vector<std::array<std::uint16_t, kMaxNodes>> reach_;  // by set; 0: not reached
  std::vector<double> paths_;                                // [set * count_ + last]
  // For unequal layers.
  std::vector<char> wanted_;  // sets that may beat the limit
  std::vector<char> grows_;   // proper subsets of wanted sets
  std::vector<double> prices_;
  std::array<std::vector<double>, kPrices> rests_;
  std::vector<std::uint32_t> slots_;  // of rows_, by set and last node; 0: none
  std::vector<Row> rows_;
  std::size_t rows_visited_ = 0;
  std::vector<double> seconds_;  // of rows_
  // Seconds before the next stage, by where that begins.
  std::vector<double> arrivals_;
  std::uint32_t arrivals_begin_ = 0;
  std::uint32_t arrivals_end_ = 0;
  std::vector<std::uint32_t> queue_;  // of leave()
};

// The most, the mean and the least that sequences keep in a layer: pages and state apart.
struct KvSizes {
  KvBytes largest, mean, smallest;
};

KvSizes kv_sizes(const Problem& problem) {
  const KvBytes all = problem.model.kv_of({0, problem.layers()});
  KvSizes sizes;
  sizes.mean = {all.position / problem.layers(), all.state / problem.layers()};
  sizes.largest = sizes.smallest = problem.model.kv_of({0, 1});
  for (std::uint32_t layer = 1; layer < problem.layers(); ++layer) {
    const KvBytes one = problem.model.kv_of({layer, layer + 1});
    sizes.largest = {std::max(sizes.largest.position, one.position),
                     std::max(sizes.largest.state, one.state)};
    sizes.smallest = {std::min(sizes.smallest.position, one.position),
                      std::min(sizes.smallest.state, one.state)};
  }
  return sizes;
}

// An order found with every layer as large as the largest always fits. Smaller sizes also find
// orders that fit only where the large layers are not.
std::optional<std::vector<Stage>> best_of_orders(const Problem& problem, Set required) {
  const auto& bytes = problem.model.layer_bytes;
  const auto [smallest, largest] = std::ranges::minmax_element(bytes);
  const auto mean = static_cast<std::uint64_t>(problem.model.mean_layer_bytes());
  const KvSizes kv = kv_sizes(problem);
  const auto all_fit = [&](const std::vector<Stage>& stages) {
    return std::ranges::all_of(stages, [&](const Stage& stage) { return fits(problem, stage); });
  };
  std::optional<std::vector<Stage>> best;
  for (const auto& [each, keeps] :
       {std::pair(*largest, kv.largest), {mean, kv.mean}, {*smallest, kv.smallest}}) {
    Problem equal = problem;
    equal.model.layer_bytes.assign(bytes.size(), each);
    equal.model.layer_read_bytes.clear();
    equal.model.layer_kv.assign(bytes.size(), keeps);
    const auto found = Search(equal, std::nullopt, required).run();
    if (!found) continue;
    for (std::vector<Stage> stages : {*found, split_layers(problem, *found)}) {
      if (stages.empty() || !all_fit(stages)) continue;
      if (best && cost_seconds(problem, stages) >= cost_seconds(problem, *best)) continue;
      best = std::move(stages);
    }
  }
  return best;
}

}  // namespace

std::vector<Stage> split_layers(const Problem& problem, const std::vector<Stage>& order) {
  const std::uint32_t layers = problem.layers();
  const bool latency = problem.objective != Objective::kThroughput;
  const double rows = latency ? 1.0 : problem.batch_rows;
  const std::size_t count = order.size();
  INVARIANT(count >= 1 && count <= layers, "every stage of an order has a layer");
  // Indexed by the number of stages and by the end of the last stage's layers.
  std::vector<std::vector<double>> cost(count + 1, std::vector<double>(layers + 1, kNever));
  std::vector<std::vector<std::uint32_t>> begins(count, std::vector<std::uint32_t>(layers + 1));
  cost[0][0] = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::uint32_t end = static_cast<std::uint32_t>(i) + 1; end <= layers; ++end) {
      for (std::uint32_t begin = end; begin-- > 0;) {
        const Stage stage{order[i].node, {begin, end}};
        if (!fits(problem, stage)) break;
        if (cost[i][begin] == kNever) continue;
        const double seconds = stage_seconds(problem, stage, rows);
        const double sum = latency ? cost[i][begin] + seconds : std::max(cost[i][begin], seconds);
        if (sum >= cost[i + 1][end]) continue;
        cost[i + 1][end] = sum;
        begins[i][end] = begin;
      }
    }
  }
  if (cost[count][layers] == kNever) return {};
  std::vector<Stage> stages = order;
  std::uint32_t end = layers;
  for (std::size_t i = count; i-- > 0;) {
    INVARIANT(begins[i][end] < end, "a stage has a layer");
    stages[i].layers = {begins[i][end], end};
    end = begins[i][end];
  }
  INVARIANT(end == 0, "a split begins at the first layer");
  return stages;
}

std::optional<std::vector<Stage>> search(const Problem& problem, std::uint32_t required,
                                         Effort effort) {
  if (has_equal_layers(problem)) return search_from(problem, std::nullopt, required);
  std::optional<std::vector<Stage>> known = best_of_orders(problem, required);
  if (effort == Effort::kOrders) return known;
  return search_from(problem, std::move(known), required);
}

std::optional<std::vector<Stage>> search_from(const Problem& problem,
                                              std::optional<std::vector<Stage>> known,
                                              std::uint32_t required) {
  return Search(problem, std::move(known), required).run();
}

}  // namespace hearth::placement
