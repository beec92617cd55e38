// Machines that their owners want for themselves: nobody is to blame, and what they served goes on
// elsewhere as it does after a loss.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "coordinator/machine/coordinator_machine.h"
#include "coordinator/machine/missing.h"
#include "coordinator/proof/ledger_service.h"
#include "proto/address.h"

namespace hearth::coordinator {
namespace {

// What a change of is logged. A port is another one with every start.
std::string machine_of(const NodeStatus& status) {
  const auto address = parse_address(status.data_address);
  const std::string host = address.ok() ? address->host : status.data_address;
  return status.build + "\n" + status.device + "\n" + status.isa + "\n" + host;
}

}  // namespace

void CoordinatorMachine::on_worker_away(Node& node, std::optional<Away> away) {
  if (away == node.status.away) return;
  node.status.away = std::move(away);
  const std::string name = node.status.name;
  if (!node.status.away) {
    node.measured_at = clock_.now();
    spdlog::info("worker {} is back from its owner", name);
  } else {
    const Away& now = *node.status.away;
    spdlog::info("worker {} is {} by its owner: {}", name, verb_of(now), now.why);
    if (!now.drain) {
      node.loaded = false;
      withdraw_pipeline(node.status.epoch, node.status.stage);
    }
  }
  drain_pipelines();
  form_pipelines();
  sequences_.admit();
}

void CoordinatorMachine::withdraw_pipeline(Epoch epoch, std::uint32_t stage) {
  const Pipeline* pipeline = pipelines_.find(epoch);
  if (pipeline == nullptr) return;
  end_pipeline(epoch, pipeline->describe(stage) + " was taken back by its owner", {});
}

// All are closed before the first one ends, so that none counts on another; then one after the
// other, for each may take the room on which the next one would count.
void CoordinatorMachine::drain_pipelines() {
  std::vector<std::pair<Epoch, std::uint32_t>> draining;
  for (const auto& [epoch, pipeline] : pipelines_.all()) {
    const auto& members = pipeline.members;
    const auto away = std::find_if(members.begin(), members.end(), [&](const Member& member) {
      return registry_.find(member.node)->status.away.has_value();
    });
    scheduler_.close_pool(epoch, away != members.end());
    if (away != members.end()) draining.emplace_back(epoch, away - members.begin());
  }
  for (const auto& [epoch, stage] : draining) {
    const Pipeline* pipeline = pipelines_.find(epoch);
    if (pipeline != nullptr && may_end_now(*pipeline)) withdraw_pipeline(epoch, stage);
  }
}

bool CoordinatorMachine::may_end_now(const Pipeline& pipeline) const {
  if (pipeline.checking) return true;  // nobody waits for what it computes
  const auto pool = scheduler_.pools().find(pipeline.epoch);
  if (pool == scheduler_.pools().end() || pool->second.running == 0) return true;
  if (scheduler_.others_have_room(pipeline.epoch)) return true;
  const std::vector<std::string> next = pipelines_.successor(pipeline);
  return !next.empty() &&
         scheduler_.may_all_run_on(pipeline.epoch, next, standings_.level_of(next));
}

// --- standing ---

// What is said to the accused only this version of the program understands.
void CoordinatorMachine::meet(Node& node) {
  const auto peer = control_.peer(node.link);
  if (!peer) return;
  node.status.newcomer = options_.is_newcomer && options_.is_newcomer(peer->key);
  if (options_.receipts == nullptr) return;
  if (node.status.newcomer) options_.receipts->doubt(peer->key);
  node.status.newcomer = options_.receipts->is_newcomer(peer->key);
  node.status.barred = options_.receipts->why_barred(peer->key);
  options_.receipts->meet_machine(peer->key, machine_of(node.status));
  if (node.status.build == options_.receipts->build()) {
    options_.receipts->meet(node.status.name, peer->key);
  }
}

void CoordinatorMachine::follow_standing() {
  std::vector<std::string> names;  // ending a pipeline may lose a worker
  for (const Node* node : registry_.all()) names.push_back(node->status.name);
  for (const std::string& name : names) {
    Node* node = registry_.find(name);
    const auto peer = node != nullptr && node->state != Node::State::kLost
                          ? control_.peer(node->link)
                          : std::nullopt;
    if (!peer) continue;
    follow_newcomer(*node, options_.receipts->is_newcomer(peer->key));
    node = registry_.find(name);
    if (node == nullptr || node->state == Node::State::kLost) continue;
    const std::string why = options_.receipts->why_barred(peer->key);
    if (why == node->status.barred) continue;
    node->status.barred = why;
    if (why.empty()) {
      spdlog::info("worker {} may be given work again", name);
      continue;
    }
    spdlog::error("worker {} is given no work: {}", name, why);
    const Pipeline* pipeline = pipelines_.find(node->status.epoch);
    if (pipeline == nullptr) continue;
    end_pipeline(node->status.epoch,
                 pipeline->describe(node->status.stage) + " is given no work: " + why, {});
  }
  form_pipelines();
  sequences_.admit();
}

// One that is a newcomer again serves nobody from here on; who is none any more is placed like
// others once its checking pipeline has ended (end_outdated()).
void CoordinatorMachine::follow_newcomer(Node& node, bool newcomer) {
  if (newcomer == node.status.newcomer) return;
  node.status.newcomer = newcomer;
  if (!newcomer) {
    spdlog::info("worker {} has done a newcomer's dues, and may serve", node.status.name);
    return;
  }
  spdlog::warn("worker {} is a newcomer again: it checks, and serves nobody", node.status.name);
  const Pipeline* pipeline = pipelines_.find(node.status.epoch);
  if (pipeline == nullptr || pipeline->checking) return;
  end_pipeline(node.status.epoch,
               pipeline->describe(node.status.stage) + " is a newcomer again, and serves nobody",
               {});
}

}  // namespace hearth::coordinator
