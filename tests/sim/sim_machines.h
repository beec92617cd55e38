// Machines of unlike speed that a real Coordinator places by what real Stages say that they
// measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "node/pipeline/stage.h"
#include "placement/problem.h"
#include "tests/sim/sim_compute.h"
#include "tests/sim/sim_transport.h"
#include "tests/sim/sim_world.h"

namespace hearth::sim {

// Of the model of these swarms.
constexpr std::uint32_t kManyLayers = 12;

// One machine: what it says that it measured is what its steps take.
struct Machine {
  std::string name;
  placement::Node figures;
  bool away = false;
  TimePoint lost_until{};
};

// A third of them quick, a third half and a third a quarter as quick, each a little off; the quick
// ones hold half of the model, the others a quarter or a third. `slowness` multiplies all times.
Machine unlike_machine(SimWorld& world, std::size_t number, double slowness);

// The placement of these machines, all links alike.
placement::Problem problem_of(const std::vector<Machine>& machines);

coordinator::CoordinatorOptions many_options(const EnginePool& pool);

// The process of a worker on a machine. Its destruction is a crash.
struct WorkerProcess {
  WorkerProcess(SimNetwork& network, SimWorld& world, EnginePool& pool, const Machine& machine,
                std::uint32_t incarnation);
  ~WorkerProcess() { *alive = false; }

  std::shared_ptr<bool> alive = std::make_shared<bool>(true);
  SimTransport control;
  SimTransport data;
  SimCompute compute;
  std::unique_ptr<node::Stage> stage;
};

}  // namespace hearth::sim
