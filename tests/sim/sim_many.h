// Swarms of 24 to 60 nodes of unlike speed that a real Coordinator places by what real Stages say
// that they measured: what must hold of them under faults, and how much they serve.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/sim_client.h"
#include "tests/sim/sim_compute.h"
#include "tests/sim/sim_machines.h"

namespace hearth::sim {

constexpr std::size_t kManyKvBytesPerLayer = 2 << 20;  // on every stage, for 128 streams and more

struct ManyOutcome {
  std::uint64_t seed = 0;
  std::uint64_t trace_hash = 0;
  std::uint32_t nodes = 0;
  std::uint32_t pipelines = 0;  // that formed of all nodes
  std::uint32_t crashes = 0;
  std::uint32_t freezes = 0;
  std::uint32_t pauses = 0;
  std::uint32_t other_faults = 0;
  std::uint32_t joined = 0;
  std::uint64_t resumed = 0;
  Tally tally;
  std::vector<std::string> violations;
};

// A time of requests and faults, then quiet. Then nodes come while requests run: what runs stays as
// it is. Then a node is lost for good: what it served goes on. No request fails.
ManyOutcome run_many_nodes(std::uint64_t seed, EnginePool& pool, const Reference& reference,
                           bool print);

struct Served {
  std::uint32_t nodes = 0;
  std::uint32_t pipelines = 0;
  double bound = 0.0;              // tokens a second that no placement exceeds
  double tokens_per_second = 0.0;  // that came, with as many streams as there is room for
};

// Without faults.
Served serve_many(std::uint64_t seed, EnginePool& pool, const Reference& reference);

}  // namespace hearth::sim
