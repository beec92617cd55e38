#include "tests/sim/sim_machines.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "kernels/canonical.h"

namespace hearth::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kLayerBytes = 100;

}  // namespace

Machine unlike_machine(SimWorld& world, std::size_t number, double slowness) {
  Machine machine;
  machine.name = "w" + std::to_string(100 + number);
  const std::uint64_t kind = world.between(0, 2);
  const double off = 1.0 + static_cast<double>(world.between(0, 20)) / 100.0;
  const double layer = slowness * 1e-4 * static_cast<double>(1ULL << kind) * off;
  const std::uint64_t layers = kind == 0 ? kManyLayers / 2 : kManyLayers / (2 + kind);
  machine.figures = {machine.name,
                     slowness * 5e-5,
                     {layer, 2.0 * layer},
                     {layer, 1.5 * layer},
                     layers * kLayerBytes};
  return machine;
}

placement::Problem problem_of(const std::vector<Machine>& machines) {
  placement::Problem problem;
  problem.model = {std::vector<std::uint64_t>(kManyLayers, kLayerBytes), 0, 0, 128, 0};
  problem.objective = placement::Objective::kThroughput;
  for (const Machine& machine : machines) problem.nodes.push_back(machine.figures);
  problem.links.assign(machines.size() * machines.size(), {2.5e-4, 1e9});
  return problem;
}

coordinator::CoordinatorOptions many_options(const EnginePool& pool) {
  coordinator::CoordinatorOptions options;
  options.stages = 0;
  options.placement.emplace();
  options.placement->model = problem_of({}).model;
  options.placement->objective = placement::Objective::kThroughput;
  options.model_fingerprint = "00ff";
  options.layers = pool.spec().layers;
  options.shape = {pool.spec().hidden, pool.spec().vocabulary, pool.spec().context, false};
  options.canonical_version = kernels::kCanonicalVersion;
  options.batch_rows = 64;
  options.forming_timeout = seconds(5);
  return options;
}

WorkerProcess::WorkerProcess(SimNetwork& network, SimWorld& world, EnginePool& pool,
                             const Machine& machine, std::uint32_t incarnation)
    : control(network, world, machine.name, machine.name + ":control"),
      data(network, world, machine.name, machine.name + ":data" + std::to_string(incarnation)),
      compute(pool, world, 1) {
  node::StageOptions options = stage_options(machine.name, pool, incarnation);
  const placement::Node& own = machine.figures;
  options.measure = [own](const std::function<void(const node::Measured&)>& done) {
    node::Measured measured;
    measured.rate = {
        own.step_seconds, {own.layer.one, own.layer.batch}, {own.head.one, own.head.batch}};
    measured.memory_bytes = own.memory_bytes;
    done(measured);
  };
  options.probe = [&world, alive = alive](const std::string& /*node*/,
                                          const std::string& /*address*/,
                                          const node::ProbeDone& done) {
    world.after(milliseconds(5), [alive, done] {
      if (*alive) done(node::LinkRate{5e-4, 1e9, 1e9});
    });
  };
  compute.set_step_time([machine](LayerRange layers, std::size_t rows) {
    const double step = placement::stage_seconds(
        problem_of({machine}), {0, layers}, static_cast<double>(std::max<std::size_t>(rows, 1)));
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(step));
  });
  stage = std::make_unique<node::Stage>(options, world, world.random(), control, data, compute);
}

}  // namespace hearth::sim
