#include "placement/search_input.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"

namespace hearth::placement {

bool has_equal_layers(const Problem& problem) {
  const std::vector<std::uint64_t>& values = problem.model.layer_bytes;
  return std::ranges::adjacent_find(values, std::not_equal_to<>()) == values.end();
}

SearchInput::SearchInput(const Problem& problem)
    : problem_(problem),
      costs_(problem),
      count_(static_cast<std::uint32_t>(problem.nodes.size())),
      layers_(problem.layers()),
      equal_(has_equal_layers(problem)) {
  INVARIANT(count_ >= 1 && count_ <= kMaxNodes, "the exact search is for a few nodes");
  INVARIANT(layers_ >= 1 && layers_ <= limits::kModelLayers, "the problem was checked");
  INVARIANT(problem.links.size() == std::size_t{count_} * count_, "every pair has a link");
  for (std::uint32_t i = 0; i <= layers_; ++i) {
    weights_.push_back(equal_ ? i : costs_.weight({0, i}));
    if (i > 0) min_weight_ = std::min(min_weight_, costs_.weight({i - 1, i}));
  }
  INVARIANT(min_weight_ > 0.0, "every layer has bytes");
  read_nodes();
  read_links();
  bound(kNever);
}

void SearchInput::read_nodes() {
  const bool latency = problem_.objective == Objective::kLatency;
  const auto layer = [&](std::uint32_t node) {
    const Speed& speed = costs_.speed(node);
    return latency ? speed.one_layer : speed.layer;
  };
  nodes_.resize(count_);
  std::iota(nodes_.begin(), nodes_.end(), 0U);
  std::ranges::stable_sort(nodes_, {}, layer);
  for (const std::uint32_t node : nodes_) {
    const Speed& speed = costs_.speed(node);
    layer_.push_back(layer(node));
    step_.push_back(speed.step);
    head_.push_back(latency ? speed.one_head : speed.head);
  }
}

void SearchInput::read_links() {
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

void SearchInput::bound_node(std::uint32_t node, double max_seconds) {
  const auto holds = [&](LayerRange layers) {
    return costs_.fits(nodes_[node], layers) && seconds(node, layers) <= max_seconds;
  };
  std::array<double, kRoles>& heaviest = heaviest_[node];
  std::uint32_t end = 0;
  for (std::uint32_t begin = 0; begin < layers_; ++begin) {
    end = std::max(begin, end);
    while (end + 1 < layers_ && holds({begin, end + 1})) ++end;
    INVARIANT(end < layers_, "a stage with the last layer has the head");
    far_[std::size_t{node} * layers_ + begin] = end;
    double& one = heaviest[begin == 0 ? kFirst : kInner];
    one = std::max(one, weight({begin, end}));
  }
  while (last_from_[node] > 1 && holds({last_from_[node] - 1, layers_})) --last_from_[node];
  heaviest[kLast] = weight({last_from_[node], layers_});
  heaviest[kLater] = std::max(heaviest[kInner], heaviest[kLast]);
  if (holds({0, layers_})) heaviest[kAlone] = weights_[layers_];
}

void SearchInput::bound(double pace) {
  INVARIANT(pace >= 0.0, "a pace is a time");
  pace_ = pace;
  const double max_seconds = pace * (1.0 + kSlack);
  sources_.assign(count_, 0);
  source_masks_.assign(count_, {});
  far_.assign(std::size_t{count_} * layers_, 0);
  last_from_.assign(count_, layers_);
  heaviest_.assign(count_, {});
  for (std::uint32_t node = 0; node < count_; ++node) {
    for (std::uint32_t from = 0; from < count_; ++from) {
      const double bytes = bytes_[from * count_ + node];
      if (bytes == kNever || bytes > max_seconds) continue;
      sources_[node] |= bit(from);
      source_masks_[node][from] = 0xffff;
    }
    INVARIANT((sources_[node] & bit(node)) == 0, "a node has no link to itself");
    bound_node(node, max_seconds);
  }
}

SearchInput::Filled SearchInput::fill(Set set, std::uint32_t first, std::uint32_t last) const {
  double left = weights_[layers_] - size_of(set) * min_weight_;
  Filled filled{0.0, layer_[lowest(set)]};
  for (; set != 0; set &= set - 1) {
    const std::uint32_t node = lowest(set);
    const double heaviest = heaviest_[node][role_of(node, first, last)];
    if (heaviest == 0.0) return {};
    if (left > 0.0) filled.price = layer_[node];
    const double more = std::max(0.0, std::min(left, heaviest - min_weight_));
    left -= more;
    filled.seconds += step_[node] + (min_weight_ + more) * layer_[node];
  }
  if (left > kSlack * weights_[layers_]) return {};
  return filled;
}

// The slowest stage or link of any pipeline takes one of these. Equal layers take as long wherever
// they are.
std::vector<double> SearchInput::paces(double below) const {
  INVARIANT(pace_ == kNever, "paces are those of all stages that fit");
  std::vector<double> paces;
  const auto add = [&](double pace) {
    if (pace < below) paces.push_back(pace);
  };
  for (const double bytes : bytes_) add(bytes);
  for (std::uint32_t node = 0; node < count_; ++node) {
    for (std::uint32_t begin = 0; begin < layers_; ++begin) {
      if (begin > 0 && holds_end(node, begin)) add(seconds(node, {begin, layers_}));
      if (equal_ && begin > 1) continue;
      for (std::uint32_t end = begin + 1; end <= far(node, begin); ++end) {
        add(seconds(node, {begin, end}));
      }
    }
    if (heaviest_[node][kAlone] > 0.0) add(seconds(node, {0, layers_}));
  }
  std::ranges::sort(paces);
  paces.erase(std::unique(paces.begin(), paces.end()), paces.end());
  return paces;
}

}  // namespace hearth::placement
