// Which layers of a model a worker holds on its disk, and which ones it is asked to hold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace hearth::node {

// A node that holds what another wants.
struct Holder {
  std::string node;     // its name in the roster, whose key must answer
  std::string address;  // "host:port" of its data links
  friend bool operator==(const Holder&, const Holder&) = default;
};

// As the coordinator says.
struct HoldPlan {
  LayerRange layers;
  std::string why;  // a sentence, for people
  std::vector<Holder> holders;
};

struct Holding {
  LayerRange layers;        // empty before the first plan
  std::uint64_t done = 0;   // bytes of header and tensors that are here
  std::uint64_t total = 0;  // all of them are here and right once done is total
  bool complete() const { return total > 0 && done == total; }
};

}  // namespace hearth::node
