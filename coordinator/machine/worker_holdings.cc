#include "coordinator/machine/worker_holdings.h"

#include <spdlog/spdlog.h>

#include "base/limits.h"
#include "coordinator/machine/worker_sessions.h"
#include "coordinator/workers/holdings.h"
#include "proto/split.h"
#include "proto/wrong_bytes.h"

namespace hearth::coordinator {

using control::v1::CoordinatorMessage;

void WorkerHoldings::send_plan(Node& node) {
  if (!node.status.partial || options_.placement || !options_.by_hand.empty()) return;
  const HoldChoice choice =
      choose_holding(split_layers(options_.layers, options_.stages), node, registry_.all());
  send_plan(node, choice.layers, choice.why);
}

void WorkerHoldings::send_plan(Node& node, LayerRange layers, const std::string& why) {
  INVARIANT(layers.end <= options_.layers, "a plan lies within the model");
  node.plan = layers;
  node.why = why;
  sessions_.send(node.link, message(node));
}

CoordinatorMessage WorkerHoldings::message(const Node& node) const {
  CoordinatorMessage message;
  auto& hold = *message.mutable_hold();
  hold.mutable_layers()->set_begin(node.plan.begin);
  hold.mutable_layers()->set_end(node.plan.end);
  hold.set_why(node.why);
  if (model_) hold.set_model(model_->bytes.data(), model_->bytes.size());
  const auto add = [&](const std::string& name, const std::string& address) {
    if (address.empty() || static_cast<std::size_t>(hold.holders_size()) == limits::kHolders) {
      return;
    }
    auto& holder = *hold.add_holders();
    holder.set_node(name);
    holder.set_address(address);
  };
  // Only a worker's own accusation keeps it from the coordinator, which few could do without.
  if (!own_accusers_.names.contains(node.status.name)) add(options_.node, data_.address());
  for (const Node* other : registry_.all()) {
    const NodeStatus& status = other->status;
    if (status.name == node.status.name || !status.partial || !holds(status, node.plan)) continue;
    const std::string address = status.address_for(node.status.seen_host);
    if (address.empty()) continue;
    if (may_ask(other->accusers, node.status.name)) add(status.name, address);
  }
  return message;
}

void WorkerHoldings::publish_model(const Hash256& model) {
  model_ = model;
  send_plans_again();
}

void WorkerHoldings::send_plans_again() {
  std::vector<std::string> names;
  for (const Node* node : registry_.all()) {
    if (node->status.partial && node->plan.size() > 0) names.push_back(node->status.name);
  }
  for (const std::string& name : names) {
    const Node* node = registry_.find(name);
    if (node == nullptr || node->state == Node::State::kLost) continue;
    sessions_.send(node->link, message(*node));
  }
}

Accusers* WorkerHoldings::accusers_of(const std::string& holder) {
  if (holder == options_.node) return &own_accusers_;
  Node* node = registry_.find(holder);
  return node == nullptr ? nullptr : &node->accusers;
}

// Accusations of nodes that are not here, or of another model, no longer matter.
Status WorkerHoldings::take_wrong_bytes(Node& node, const control::v1::Heartbeat& heartbeat) {
  const auto count = static_cast<std::size_t>(heartbeat.wrong_bytes_size());
  REQUIRE(count <= limits::kWrongBytesTold, "the heartbeat names ", count,
          " senders of wrong bytes; the limit is ", limits::kWrongBytesTold);
  const std::string& name = node.status.name;
  bool heard = false;
  bool for_all = false;
  for (const auto& each : heartbeat.wrong_bytes()) {
    TRY(const WrongBytes wrong, read_wrong_bytes(each));
    Accusers* accusers = accusers_of(wrong.node);
    if (accusers == nullptr || wrong.model != model_ || wrong.node == name) continue;
    if (!node.status.partial || accusers->names.size() == limits::kAccusers) continue;
    if (!accusers->names.insert(name).second) continue;
    if (accusers->names.size() == 1) accusers->item = wrong.item;
    const bool out = is_out(*accusers) && accusers != &own_accusers_;
    spdlog::warn("worker {} reports wrong bytes from {}: {}, bytes {} to {} of the model; {}", name,
                 wrong.node, wrong.item, wrong.begin, wrong.end,
                 out ? "no worker fetches from there until that node registers again"
                     : "the reporting worker fetches from other nodes");
    heard = true;
    for_all = for_all || out;
  }
  if (for_all) {
    send_plans_again();
  } else if (heard && node.plan.size() > 0) {
    sessions_.send(node.link, message(node));
  }
  return ok_status();
}

std::vector<AccusedStatus> WorkerHoldings::accused() const {
  std::vector<AccusedStatus> all;
  const auto add = [&](const std::string& node, const Accusers& accusers, bool out) {
    if (accusers.names.empty()) return;
    all.push_back({node, static_cast<std::uint32_t>(accusers.names.size()), accusers.item, out});
  };
  add(options_.node, own_accusers_, false);
  for (const Node* node : registry_.known()) {
    add(node->status.name, node->accusers, is_out(node->accusers));
  }
  return all;
}

}  // namespace hearth::coordinator
