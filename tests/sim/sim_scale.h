// One coordinator and as many machines as it can have, and more: what a routing decision, a
// heartbeat and a node cost, how near the placement is to what no placement exceeds, and how much
// is served while machines leave and join. All of it in one thread, from one seed; the coordinator
// and the stages are the product's own. What is timed is the processor time of this program's
// thread, so those figures are of the computer that runs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/sim_compute.h"
#include "tests/sim/sim_machines.h"

namespace hearth::sim {

constexpr std::size_t kScaleKvBytesPerLayer = 640 * 1024;

// Calls of one kind into the coordinator.
struct Cost {
  std::vector<std::uint32_t> nanoseconds;  // each call

  double total_seconds() const;
  // Of all calls, sorted, this share is not slower.
  double microseconds(double share);
  double mean_microseconds() const;
};

struct CellOutcome {
  std::uint32_t nodes = 0;
  std::uint32_t pipelines = 0;
  double bound = 0.0;    // tokens a second that no placement exceeds
  double planned = 0.0;  // of the placement
  double quiet = 0.0;    // tokens a second, without churn
  double churned = 0.0;  // likewise, while machines leave and join
  std::uint32_t left = 0;
  std::uint32_t joined = 0;
  std::uint64_t resumed = 0;
  std::uint64_t failed = 0;
  Cost heartbeats;
  Cost messages;  // other control messages and frames
  Cost timer;
  Cost submits;
  double simulated_seconds = 0.0;  // of the costs
  std::size_t bytes = 0;           // that the coordinator held at the end
  std::vector<std::string> violations;
};

// So many machines, then as much load as they take: `quiet` seconds without faults, then `churn`
// seconds in which `percent_a_minute` of them leave and as many others join.
struct CellOptions {
  std::uint32_t nodes = 0;
  std::uint32_t quiet = 0;
  std::uint32_t churn = 0;
  double percent_a_minute = 5.0;
};
CellOutcome run_cell(std::uint64_t seed, const CellOptions& options, EnginePool& pool);

// Requests that choose a cell of as many nodes as a coordinator can have, then a pipeline in it,
// each by a Scheduler, while as many requests run as there are nodes. What a decision takes.
Cost route_requests(std::uint64_t seed, std::uint32_t nodes, std::uint32_t requests);

}  // namespace hearth::sim
