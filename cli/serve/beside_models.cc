#include "cli/serve/beside_models.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/available_memory.h"
#include "base/check.h"
#include "cli/serve/local_workers.h"
#include "coordinator/membership/membership.h"
#include "node/engine/stage_memory.h"

namespace hearth::cli {
namespace {

using coordinator::ControlService;
using coordinator::Coordinator;
using coordinator::RoomBeside;

constexpr const char* kAnyPort = "127.0.0.1:0";

bool has_joined_workers(const ServeOptions& options, bool in_cluster,
                        const coordinator::SwarmStatus& now) {
  const std::vector<std::string> own = local_worker_names(options, in_cluster);
  return std::ranges::any_of(now.nodes, [&own](const coordinator::NodeStatus& node) {
    return node.state != "lost" && std::ranges::find(own, node.name) == own.end();
  });
}

// What processes may still take of `bytes`. They take KV pages when a request needs them.
std::uint64_t untouched_of(std::uint64_t bytes, const std::vector<pid_t>& processes) {
  for (const pid_t process : processes) {
    bytes -= std::min(bytes, held_memory(process).value_or(0));
  }
  return bytes;
}

}  // namespace

BesideModels::BesideModels(Wiring wiring) : wiring_(std::move(wiring)) {}
BesideModels::~BesideModels() = default;

bool BesideModels::are_possible(const ServeOptions& options) {
  const std::vector<std::string> devices = devices_of(options);
  const bool cpu_only =
      std::ranges::all_of(devices, [](const std::string& device) { return device == "cpu"; });
  return options.local_workers > 0 && options.loaded_models != 1 && cpu_only &&
         options.emulate.empty();
}

void BesideModels::wire(coordinator::ModelSwitch::Options& options) {
  options.room_beside = std::bind_front(&BesideModels::room, this);
  options.fits_in_place = std::bind_front(&BesideModels::fits_in_place, this);
  options.unload_beside = std::bind_front(&BesideModels::unload, this);
}

// The memory that may be used now: of the machine, or of the part that --memory leaves to this
// server. What loaded models have been promised is not free, though nothing may have touched it.
std::uint64_t BesideModels::free_bytes(const coordinator::SwarmStatus& now) const {
  const ServeOptions& options = wiring_.options;
  std::uint64_t all = 0;
  std::uint64_t used = 0;
  if (options.memory_bytes == 0) {
    all = node::memory_budget(0);
    used = untouched_bytes(now);
  } else {
    all = options.memory_bytes * options.local_workers;
    used = wiring_.models[wiring_.current].local_bytes + held_bytes();
  }
  return all - std::min(all, used);
}

std::uint64_t BesideModels::untouched_bytes(const coordinator::SwarmStatus& now) const {
  std::uint64_t sum = 0;
  for (const auto& [model, one] : loaded_) {
    sum += untouched_of(wiring_.models[model].local_bytes, one.workers->processes());
  }
  // Joined workers hold a part of the current model that is not known here.
  if (has_joined_workers(wiring_.options, wiring_.in_cluster, now)) return sum;
  std::vector<pid_t> processes;
  for (const coordinator::NodeStatus& node : now.nodes) {
    if (node.state != "lost") processes.push_back(static_cast<pid_t>(node.process_id));
  }
  return sum + untouched_of(wiring_.models[wiring_.current].local_bytes, processes);
}

std::uint64_t BesideModels::held_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [model, one] : loaded_) sum += wiring_.models[model].local_bytes;
  return sum;
}

RoomBeside BesideModels::room(std::uint32_t model, const coordinator::SwarmStatus& now) const {
  const OfferedModel& offered = wiring_.models[model];
  if (offered.local_bytes == 0) return RoomBeside::kImpossible;
  const bool is_for_all = !offered.served.spec.gives_embeddings;
  if (is_for_all && has_joined_workers(wiring_.options, wiring_.in_cluster, now)) {
    return RoomBeside::kImpossible;
  }
  const std::uint64_t free = free_bytes(now);
  if (offered.local_bytes <= free) return RoomBeside::kNow;
  if (!ending_.empty()) return RoomBeside::kSoon;
  return offered.local_bytes <= free + held_bytes() ? RoomBeside::kTaken : RoomBeside::kImpossible;
}

bool BesideModels::fits_in_place(std::uint32_t model, const coordinator::SwarmStatus& now) const {
  if (has_joined_workers(wiring_.options, wiring_.in_cluster, now)) return false;
  const std::uint64_t bytes = wiring_.models[model].local_bytes;
  return bytes > 0 && bytes <= free_bytes(now) + wiring_.models[wiring_.current].local_bytes;
}

Result<std::unique_ptr<Coordinator>> BesideModels::load(std::uint32_t model,
                                                        coordinator::CoordinatorOptions options) {
  INVARIANT(!loaded_.contains(model), "a model is loaded beside the current one once");
  options.stages = std::min(options.stages, wiring_.options.local_workers);
  if (options.ranks > wiring_.options.local_workers) options.ranks = 1;
  Beside one;
  TcpOptions tcp;
  tcp.listen_address = kAnyPort;
  tcp.identity = wiring_.identity;
  tcp.roster = wiring_.roster;
  tcp.on_refused = [](const std::string& why) { spdlog::warn("refused a data link: {}", why); };
  TRY(one.data, TcpTransport::open(wiring_.io, tcp));
  coordinator::ControlOptions control;
  control.address = kAnyPort;
  control.identity = wiring_.identity;
  control.roster = wiring_.roster;
  control.admissions = wiring_.membership;
  control.door = wiring_.membership->door();
  control.on_refused = [](const std::string& why) {
    spdlog::warn("refused a control session: {}", why);
  };
  TRY(one.control, ControlService::open(wiring_.io, control));
  auto coordinator = Coordinator::start(std::move(options), wiring_.clock, wiring_.random,
                                        one.control->sessions(), *one.data);
  one.workers = std::make_unique<Children>(wiring_.io);
  one.workers->start(local_workers(wiring_.options, wiring_.in_cluster, wiring_.models[model].path,
                                   one.control->address(), model + 1));
  loaded_.emplace(model, std::move(one));
  return coordinator;
}

void BesideModels::unload(std::uint32_t model) {
  const auto found = loaded_.find(model);
  INVARIANT(found != loaded_.end(), "only a loaded model is unloaded");
  found->second.workers->stop();
  ending_.push_back(
      {std::move(found->second.workers), wiring_.clock.now() + kLocalWorkersFarewell});
  loaded_.erase(found);
}

void BesideModels::on_timer() {
  const TimePoint now = wiring_.clock.now();
  std::erase_if(ending_, [now](const Ending& one) {
    return one.workers->running() == 0 || now >= one.kill_at;
  });
}

void BesideModels::recheck_peers() {
  for (const auto& [model, one] : loaded_) {
    one.data->recheck_peers();
    one.control->recheck_peers();
  }
}

void BesideModels::stop() {
  for (const auto& [model, one] : loaded_) one.workers->stop();
}

}  // namespace hearth::cli
