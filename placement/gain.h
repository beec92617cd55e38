// Changes of a swarm that would make its plan quicker.
#pragma once

#include <cstdint>
#include <vector>

namespace hearth::placement {

struct Gain {
  enum class Change : std::uint8_t {
    kMemory,      // the nodes have twice the memory
    kSpeed,       // machines twice as fast in place of the nodes
    kLinkRate,    // all links have ten times the rate
    kLinkDelay,   // all links have half the delay
    kThroughput,  // the objective becomes throughput, for all streams together
  };
  Change change = Change::kMemory;
  std::vector<std::uint32_t> nodes;  // that change: one, or all of a class that are alike
  double tokens_per_second = 0.0;    // now
  double after_tokens_per_second = 0.0;
  double after_one_stream = 0.0;  // kThroughput: tokens a second of one stream
};

constexpr double kMinGain = 1.03;  // a smaller gain is not worth a change
constexpr std::size_t kMaxGains = 3;

// Changes as they are tried, of which the largest are kept.
class Gains {
 public:
  explicit Gains(double tokens_per_second);
  void add(Gain::Change change, std::vector<std::uint32_t> nodes, double after_tokens_per_second);
  std::vector<Gain> largest() const;  // at most kMaxGains, the largest first

 private:
  const double before_;
  std::vector<Gain> all_;
};

}  // namespace hearth::placement
