// What workers that have not the whole model are told to hold, and what they say that they do.
#include <spdlog/spdlog.h>

#include "base/limits.h"
#include "coordinator/machine/coordinator_machine.h"
#include "coordinator/workers/holdings.h"
#include "proto/frame.h"
#include "proto/split.h"
#include "proto/wrong_bytes.h"

namespace hearth::coordinator {

using control::v1::CoordinatorMessage;

void CoordinatorMachine::send_plan(Node& node) {
  // Where layers are not split evenly it hears with the pipeline that takes it.
  if (!node.status.partial || options_.placement || !options_.by_hand.empty()) return;
  const HoldChoice choice =
      choose_holding(split_layers(options_.layers, options_.stages), node, registry_.all());
  node.plan = choice.layers;
  node.why = choice.why;
  send_control(node.link, hold_message(node));
}

CoordinatorMessage CoordinatorMachine::hold_message(const Node& node) const {
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
  // Nobody's word but its own keeps a node from the coordinator, without whom few could come in.
  if (!accusers_.names.contains(node.status.name)) add(options_.node, data_.address());
  for (const Node* other : registry_.all()) {
    const NodeStatus& status = other->status;
    if (status.name == node.status.name || !status.partial || !holds(status, node.plan)) continue;
    if (may_ask(other->accusers, node.status.name)) add(status.name, status.data_address);
  }
  return message;
}

void CoordinatorMachine::publish_model(const Hash256& model) {
  model_ = model;
  send_plans_again();
}

void CoordinatorMachine::send_plans_again() {
  std::vector<std::string> names;  // sending may lose a worker
  for (const Node* node : registry_.all()) {
    if (node->status.partial && node->plan.size() > 0) names.push_back(node->status.name);
  }
  for (const std::string& name : names) {
    const Node* node = registry_.find(name);
    if (node == nullptr || node->state == Node::State::kLost) continue;
    send_control(node->link, hold_message(*node));
  }
}

Accusers* CoordinatorMachine::accusers_of(const std::string& holder) {
  if (holder == options_.node) return &accusers_;
  Node* node = registry_.find(holder);
  return node == nullptr ? nullptr : &node->accusers;
}

// What is said of nodes that are not here, or of another model, is over.
Status CoordinatorMachine::take_wrong_bytes(Node& node, const control::v1::Heartbeat& heartbeat) {
  const auto count = static_cast<std::size_t>(heartbeat.wrong_bytes_size());
  REQUIRE(count <= limits::kWrongBytesTold, "it says that " + std::to_string(count) +
                                                " nodes sent wrong bytes; the limit is " +
                                                std::to_string(limits::kWrongBytesTold));
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
    const bool out = is_out(*accusers) && accusers != &accusers_;
    spdlog::warn("{} says that {} sent it wrong bytes: {}, bytes {} to {} of the model; {}", name,
                 wrong.node, wrong.item, wrong.begin, wrong.end,
                 out ? "nobody is sent there until it registers again" : "it is sent elsewhere");
    heard = true;
    for_all = for_all || out;
  }
  if (for_all) {
    send_plans_again();
  } else if (heard && node.plan.size() > 0) {
    send_control(node.link, hold_message(node));
  }
  return ok_status();
}

std::vector<AccusedStatus> CoordinatorMachine::accused() const {
  std::vector<AccusedStatus> all;
  const auto add = [&](const std::string& node, const Accusers& accusers, bool out) {
    if (accusers.names.empty()) return;
    all.push_back({node, static_cast<std::uint32_t>(accusers.names.size()), accusers.item, out});
  };
  add(options_.node, accusers_, false);
  for (const Node* node : registry_.known()) {
    add(node->status.name, node->accusers, is_out(node->accusers));
  }
  return all;
}

// Whoever still fetches is given the time for it.
void CoordinatorMachine::take_holding(Node& node, const control::v1::Holding& holding) {
  const std::uint64_t before = node.status.held_bytes;
  registry_.hold(node, holding);
  if (node.state != Node::State::kLoading || node.status.held_bytes <= before) return;
  Pipeline* pipeline = pipelines_.find(node.status.epoch);
  if (pipeline != nullptr) pipeline->deadline = clock_.now() + options_.forming_timeout;
}

}  // namespace hearth::coordinator
