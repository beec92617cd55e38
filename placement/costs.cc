#include "placement/costs.h"

#include <algorithm>

#include "base/check.h"

namespace hearth::placement {
namespace {

double median(std::vector<double>& values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Speed speed_of(const Problem& problem, const Node& node) {
  Speed speed;
  speed.step = node.step_seconds;
  speed.one_layer = node.layer.one;
  speed.one_head = node.head.one;
  // A batch measured as quicker than one row is noise.
  speed.layer = std::max(node.layer.one, node.layer.batch);
  speed.head = std::max(node.head.one, node.head.batch);
  speed.memory = node.memory_bytes;
  const KvBytes kv = problem.model.kv_of({0, problem.layers()});
  const bool has_kv = kv.position + kv.state > 0;
  speed.kv_budget = has_kv ? node.kv_budget_bytes : std::numeric_limits<std::uint64_t>::max();
  return speed;
}

}  // namespace

Costs::Costs(const Problem& problem)
    : problem_(problem),
      mean_bytes_(problem.model.mean_read_bytes()),
      bytes_{0},
      read_bytes_{0},
      kv_{KvBytes{}} {
  INVARIANT(mean_bytes_ > 0.0, "every layer has bytes");
  for (const std::uint64_t bytes : problem.model.layer_bytes) {
    bytes_.push_back(bytes_.back() + bytes);
  }
  for (const std::uint64_t bytes : problem.model.read_bytes()) {
    read_bytes_.push_back(read_bytes_.back() + bytes);
  }
  for (std::uint32_t layer = 0; layer < problem.layers(); ++layer) {
    const KvBytes one = problem.model.kv_of({layer, layer + 1});
    kv_.push_back({kv_.back().position + one.position, kv_.back().state + one.state});
  }
  const auto count = static_cast<std::uint32_t>(problem.nodes.size());
  const double batch =
      static_cast<double>(problem.batch_rows) * static_cast<double>(problem.model.activation_bytes);
  std::vector<double> rates;
  std::vector<double> delays;
  for (std::uint32_t from = 0; from < count; ++from) {
    rates.clear();
    delays.clear();
    for (std::uint32_t to = 0; to < count; ++to) {
      const Link& link = problem.link(from, to);
      if (to == from || link.bytes_per_second <= 0.0) continue;
      rates.push_back(link.bytes_per_second);
      delays.push_back(link.delay_seconds);
    }
    Speed& speed = speeds_.emplace_back(speed_of(problem, problem.nodes[from]));
    const double rate = median(rates);
    // Without a link the node can only hold the whole model.
    speed.bytes = rate > 0.0 ? batch / rate : 0.0;
    delays_.push_back(median(delays));
  }
  INVARIANT(speeds_.size() == count && delays_.size() == count, "every node has its speed");
}

double Costs::weight(LayerRange layers) const {
  INVARIANT(layers.begin <= layers.end && layers.end < bytes_.size(), "layers are the model's");
  return static_cast<double>(read_bytes_[layers.end] - read_bytes_[layers.begin]) / mean_bytes_;
}

bool Costs::fits(const Speed& speed, LayerRange layers) const {
  std::uint64_t bytes = bytes_[layers.end] - bytes_[layers.begin];
  if (layers.begin == 0) bytes += problem_.model.embedding_bytes;
  if (layers.end == this->layers()) bytes += problem_.model.head_bytes;
  const KvBytes& before = kv_[layers.begin];
  const KvBytes& all = kv_[layers.end];
  const std::uint64_t kv =
      KvBytes{all.position - before.position, all.state - before.state}.of(problem_.kv_tokens);
  return bytes <= speed.memory && kv <= std::min(speed.memory - bytes, speed.kv_budget);
}

double Costs::row_seconds(std::uint32_t node, LayerRange layers) const {
  const Speed& speed = speeds_[node];
  const double head = layers.end == this->layers() ? speed.one_head : 0.0;
  return speed.step + weight(layers) * speed.one_layer + head;
}

// The last stage sends tokens, which have a few bytes.
double Costs::batch_seconds(const Speed& speed, LayerRange layers) const {
  const double stage = speed.step + weight(layers) * speed.layer;
  if (layers.end == this->layers()) return stage + speed.head;
  return std::max(stage, speed.bytes);
}

}  // namespace hearth::placement
