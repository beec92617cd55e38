// SimSwarm: a real Coordinator and real Stages in one thread, with faults from the seed, and what
// must hold of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "node/pipeline/stage.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_compute.h"
#include "tests/sim/sim_transport.h"
#include "tests/sim/sim_world.h"

namespace hearth::sim {

struct Outcome {
  std::uint64_t seed = 0;
  std::uint64_t trace_hash = 0;
  std::uint64_t events = 0;
  std::uint32_t crashes = 0;
  std::uint32_t restarts = 0;  // of the coordinator
  std::uint32_t freezes = 0;
  std::uint32_t pauses = 0;        // and drains, by the owners of machines
  std::uint32_t replays = 0;       // of frames of the past, twice the same, or out of order
  std::uint32_t stale_frames = 0;  // of lost pipelines, among requests that must not notice
  std::uint32_t other_faults = 0;
  std::uint64_t late_frames = 0;  // that stages and coordinator dropped
  std::uint64_t replayed = 0;     // rows that a stage said again
  std::uint64_t resumed = 0;      // times that a sequence went on after the loss of its pipeline
  std::uint64_t accepted = 0;     // drafts that were right
  std::uint64_t dropped = 0;      // and wrong
  Tally tally;
  std::vector<std::string> violations;
};

// One whole swarm: a time of requests and faults, then quiet, then frames of lost pipelines among a
// few more requests. About half of all swarms are covered: no more workers are lost at once than
// there are spare ones, and the coordinator lives. In those no request may fail.
Outcome run_swarm(std::uint64_t seed, EnginePool& pool, const Reference& reference, bool print);

}  // namespace hearth::sim
