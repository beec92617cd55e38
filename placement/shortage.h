// Why nodes do not hold a model, and why a node has no stage, as figures. The sentences are in
// coordinator/pipelines/placement_text.h.
#pragma once

#include <cstdint>
#include <optional>

#include "placement/problem.h"

namespace hearth::placement {

enum class SpareReason : std::uint8_t {
  kNotSearched,  // the exact search considers limits::kExactNodes nodes, and not this one
  kMemory,       // the memory holds no layer; the smallest one takes `bytes`
  kKvBudget,     // the KV budget does not hold the KV of a layer, which takes `bytes`
  kRangeMemory,  // the memory holds none of the ranges; the smallest one takes `bytes`
  kNotLinked,    // no pipeline with it holds the model over the links that were measured
  kRangeLinks,   // no measured link joins it to the replicas before and after a range that it holds
  kAdded,        // a pipeline with it added is no quicker
  kExchanged,    // a pipeline with it in place of another node is no quicker
  kDetour,       // a stream through it would be too slow
};

struct Spare {
  std::uint32_t node = 0;
  SpareReason reason = SpareReason::kNotSearched;
  std::uint64_t bytes = 0;
  // The rate that the objective maximises (kDetour: the rate of one stream), with the node and
  // without it.
  double with_tokens_per_second = 0.0;
  double tokens_per_second = 0.0;
};

// Set where the node's memory or KV budget holds no layer.
std::optional<Spare> holds_no_layer(const Problem& problem, std::uint32_t node);

struct Shortage {
  enum class Of : std::uint8_t {
    kNodes,        // fewer nodes than stages were asked for
    kKvBudgets,    // the KV budgets hold `kv_layers` layers' KV
    kMemory,       // all memory together is less than the model
    kStageMemory,  // as many nodes as stages were asked for have less memory than the model
    kWholeLayers,  // memory is enough, but not for whole layers on each node
    kLinks,        // no order of stages over the links that were measured holds the model
  };
  Of of = Of::kNodes;
  std::uint64_t model_bytes = 0;   // weights, and KV of the positions asked for
  std::uint64_t memory_bytes = 0;  // of all nodes together
  std::uint64_t kv_layers = 0;     // of as many stages as were asked for
};

// For a problem without a placement.
Shortage shortage_of(const Problem& problem);

// kNoCapacity, for a problem for which no placement was found: shortage_of() has the figures.
Error no_placement(const Problem& problem);

}  // namespace hearth::placement
