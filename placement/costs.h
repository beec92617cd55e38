// Seconds and bytes of any range on any node in constant time, for searches over thousands of them.
// The figures equal those of placement/problem.h except for the last bit of a sum.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "placement/problem.h"

namespace hearth::placement {

// Speeds and memory of a node. Of a class of nodes: the minimum of their memory, and the mean of
// their speeds.
struct Speed {
  double step = 0.0;       // seconds of every step
  double one_layer = 0.0;  // of a layer of mean size, in a step of one row
  double one_head = 0.0;   // of the head
  double layer = 0.0;      // the same for a batch
  double head = 0.0;
  double bytes = 0.0;  // of a batch's activations on the node's usual outgoing link
  std::uint64_t memory = 0;
  std::uint64_t kv_budget = 0;
};

// The fields of Speed that are seconds.
inline constexpr std::array kSpeedSeconds = {&Speed::step,  &Speed::one_layer, &Speed::one_head,
                                             &Speed::layer, &Speed::head,      &Speed::bytes};

class Costs {
 public:
  // n^2 steps for n nodes: a node's usual outgoing link is the median of its links. Keeps a
  // reference to the problem.
  explicit Costs(const Problem& problem);

  const Problem& problem() const { return problem_; }
  std::uint32_t layers() const { return static_cast<std::uint32_t>(bytes_.size() - 1); }
  const Speed& speed(std::uint32_t node) const { return speeds_[node]; }
  // Seconds, of the usual outgoing link.
  double delay(std::uint32_t node) const { return delays_[node]; }

  // The weight of layers, in layers of mean size.
  double weight(LayerRange layers) const;
  bool fits(const Speed& speed, LayerRange layers) const;
  bool fits(std::uint32_t node, LayerRange layers) const { return fits(speeds_[node], layers); }
  // Seconds of a step of one row.
  double row_seconds(std::uint32_t node, LayerRange layers) const;
  // Seconds between two steps of a batch on one replica: the longer of the stage and its transfer.
  // The last stage has the head and no transfer.
  double batch_seconds(const Speed& speed, LayerRange layers) const;
  double batch_seconds(std::uint32_t node, LayerRange layers) const {
    return batch_seconds(speeds_[node], layers);
  }

 private:
  const Problem& problem_;
  double mean_bytes_ = 0.0;
  std::vector<std::uint64_t> bytes_;       // sums of weights before each layer
  std::vector<std::uint64_t> read_bytes_;  // the same, of the bytes that a row reads
  std::vector<KvBytes> kv_;                // likewise
  std::vector<Speed> speeds_;
  std::vector<double> delays_;
};

}  // namespace hearth::placement
