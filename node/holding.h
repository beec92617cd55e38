// The layers of a model that a worker holds on its disk, and those that it is asked to hold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace hearth::node {

// A node that holds wanted layers.
struct Holder {
  std::string node;     // its name in the roster, whose key must answer
  std::string address;  // "host:port" of its data links
  friend bool operator==(const Holder&, const Holder&) = default;
};

// The coordinator's order.
struct HoldPlan {
  LayerRange layers;
  std::string why;  // a sentence, for people
  std::vector<Holder> holders;
};

struct Holding {
  LayerRange layers;        // empty before the first plan
  std::uint64_t done = 0;   // stored bytes of header and tensors
  std::uint64_t total = 0;  // done == total: all are stored and verified
  bool complete() const { return total > 0 && done == total; }
};

}  // namespace hearth::node
