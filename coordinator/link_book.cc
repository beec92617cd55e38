#include "coordinator/link_book.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

#include "base/limits.h"
#include "proto/frame.h"

namespace hearth::coordinator {
namespace {

constexpr Duration kPatience = std::chrono::seconds(10);  // with one way; a worker's own is shorter
constexpr Duration kAgain = std::chrono::seconds(30);     // after a failure

// Whom a probe may disturb.
std::vector<const Node*> measured_of(const std::vector<const Node*>& nodes) {
  std::vector<const Node*> measured;
  for (const Node* node : nodes) {
    const bool here = node->state != Node::State::kLost && !node->status.away;
    if (here && node->status.measured) measured.push_back(node);
  }
  std::sort(measured.begin(), measured.end(),
            [](const Node* a, const Node* b) { return a->status.name < b->status.name; });
  if (measured.size() > limits::kLinkedNodes) measured.resize(limits::kLinkedNodes);
  return measured;
}

bool among(const std::vector<const Node*>& nodes, const std::string& name) {
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](const Node* node) { return node->status.name == name; });
}

}  // namespace

LinkBook::Pair LinkBook::pair_of(const std::string& a, const std::string& b) {
  return a < b ? Pair(a, b) : Pair(b, a);
}

void LinkBook::forget(const std::vector<const Node*>& nodes) {
  std::set<std::string> names;
  for (const Node* node : nodes) {
    if (node->status.measured) names.insert(node->status.name);
  }
  const auto gone = [&](const auto& entry) {
    return !names.contains(entry.first.first) || !names.contains(entry.first.second);
  };
  std::erase_if(tried_, gone);
  std::erase_if(links_, gone);
}

std::optional<LinkBook::Way> LinkBook::next(const std::vector<const Node*>& nodes) {
  const TimePoint now = clock_.now();
  const std::vector<const Node*> measured = measured_of(nodes);
  forget(nodes);
  const bool both =
      under_way_ && among(measured, under_way_->from) && among(measured, under_way_->to);
  if (both && now < deadline_) return std::nullopt;
  under_way_.reset();
  for (const Node* from : measured) {
    for (const Node* to : measured) {
      if (from->status.name >= to->status.name) continue;
      const Pair pair(from->status.name, to->status.name);
      const auto tried = tried_.find(pair);
      if (tried != tried_.end() && (links_.contains(pair) || now < tried->second + kAgain))
        continue;
      tried_[pair] = now;
      deadline_ = now + kPatience;
      under_way_ = Way{pair.first, pair.second};
      return under_way_;
    }
  }
  return std::nullopt;
}

void LinkBook::take(const std::string& from, const control::v1::Probed& probed) {
  if (!under_way_ || under_way_->from != from || under_way_->to != probed.node()) return;  // late
  const Way way = *under_way_;
  under_way_.reset();
  const double delay = probed.round_trip_seconds() / 2.0;
  const placement::Link there{delay, probed.to_bytes_per_second()};
  const placement::Link back{delay, probed.from_bytes_per_second()};
  const bool figures = probed.error().empty() && placement::check(there, way.from, way.to).ok() &&
                       placement::check(back, way.to, way.from).ok() &&
                       there.bytes_per_second > 0.0 && back.bytes_per_second > 0.0;
  if (!figures) {
    const std::string why = decode_refused(as_bytes(probed.error()));
    spdlog::warn("the way from {} to {} was not measured: {}", way.from, way.to,
                 why.empty() ? "its figures are none that a link has" : why);
    return;
  }
  links_[{way.from, way.to}] = there;
  links_[{way.to, way.from}] = back;
  spdlog::info("{} to {}: {:.3f} ms, {:.0f} MB/s; back {:.0f} MB/s", way.from, way.to, delay * 1e3,
               there.bytes_per_second / 1e6, back.bytes_per_second / 1e6);
}

bool LinkBook::complete(const std::vector<const Node*>& nodes) const {
  const std::vector<const Node*> measured = measured_of(nodes);
  for (const Node* from : measured) {
    for (const Node* to : measured) {
      if (from->status.name >= to->status.name) continue;
      const Pair pair(from->status.name, to->status.name);
      const bool waits = under_way_ && pair_of(under_way_->from, under_way_->to) == pair;
      if (waits || !tried_.contains(pair)) return false;
    }
  }
  return true;
}

placement::Link LinkBook::find(const std::string& from, const std::string& to) const {
  const auto found = links_.find({from, to});
  return found == links_.end() ? placement::Link{} : found->second;
}

std::vector<LinkStatus> LinkBook::all() const {
  std::vector<LinkStatus> all;
  for (const auto& [pair, link] : links_) all.push_back({pair.first, pair.second, link});
  return all;
}

}  // namespace hearth::coordinator
