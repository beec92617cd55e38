// The coordinator's side of the control plane: what workers say, and what they are told.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/limits.h"
#include "coordinator/coordinator_machine.h"
#include "proto/frame.h"

namespace hearth::coordinator {
namespace {

using control::v1::CoordinatorMessage;
using control::v1::WorkerMessage;

constexpr Duration kRegisterPatience = std::chrono::seconds(5);

bool read_hash(const std::string& bytes, Hash256& hash) {
  if (bytes.size() != hash.bytes.size()) return false;
  std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), hash.bytes.begin());
  return true;
}

}  // namespace

void CoordinatorMachine::on_link_open(LinkId link, bool incoming) {
  if (!incoming || strangers_.size() >= limits::kWorkers) return control_.close(link);
  strangers_[link] = {clock_.now() + kRegisterPatience, false};
}

void CoordinatorMachine::on_frame(LinkId link, Frame frame) {
  Node* node = registry_.find(link);
  const auto stranger = strangers_.find(link);
  // Of a link that we closed, or refused and wait for the other side to close.
  if (node == nullptr && (stranger == strangers_.end() || stranger->second.refused)) return;
  WorkerMessage message;
  const bool parsed =
      frame.type == FrameType::kControl && frame.payload.size() <= limits::kControlMessageBytes &&
      message.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size()));
  if (node == nullptr) {
    if (parsed) return on_first_message(link, message);
    return refuse(link, "the first message of a session is a Register");
  }
  if (!parsed) return lose_node(node->status.name, "it sent bytes that are no control message");
  on_message(*node, message);
}

void CoordinatorMachine::on_link_closed(LinkId link, const Error& why) {
  strangers_.erase(link);
  const Node* node = registry_.find(link);
  if (node != nullptr) lose_node(node->status.name, "its control session ended: " + why.message);
}

void CoordinatorMachine::on_first_message(LinkId link, const WorkerMessage& message) {
  if (!message.has_register_()) {
    return refuse(link, "the first message of a session is a Register");
  }
  const Status speaker = check_peer(control_, link, message.register_().node(), Role::kWorker);
  if (!speaker.ok()) {
    spdlog::warn("refused a worker: {}", speaker.error().message);
    return refuse(link, std::string(kNotAdmitted));
  }
  const Status fit = registry_.check(message.register_());
  if (!fit.ok()) return refuse(link, fit.error().message);
  const std::string& name = message.register_().node();
  if (registry_.holds(name)) {
    // May pass: a worker that was started again can be faster than the end of its old connection.
    return refuse(
        link, "a worker named " + name + " is connected; give this one another name with --name",
        true);
  }
  lose_node(name, "no heartbeat came in time");  // connected still, but silent for too long
  auto added = registry_.add(link, message.register_());
  strangers_.erase(link);
  if (!added.ok()) {  // not for good: it may come back when there is room
    spdlog::warn("no room for worker {}: {}", message.register_().node(), added.error().message);
    return control_.close(link);
  }
  spdlog::info("worker {} registered: {} threads of {}, data links at {}", (*added)->status.name,
               (*added)->status.threads, (*added)->status.isa, (*added)->status.data_address);
  CoordinatorMessage answer;
  const auto beat = std::chrono::duration_cast<std::chrono::milliseconds>(options_.heartbeat);
  answer.mutable_registered()->set_heartbeat_milliseconds(static_cast<std::uint32_t>(beat.count()));
  send_control(link, answer);
  send_roster(link);
  form_pipelines();
}

void CoordinatorMachine::refuse(LinkId link, const std::string& why, bool may_pass) {
  spdlog::warn("refused a worker: {}", why);
  CoordinatorMessage message;
  message.mutable_refused()->set_reason(decode_refused(as_bytes(why)));
  message.mutable_refused()->set_may_pass(may_pass);
  Frame frame{FrameType::kControl, Bytes(message.ByteSizeLong())};
  message.SerializeToArray(frame.payload.data(), static_cast<int>(frame.payload.size()));
  // The worker hangs up when it has read this; the deadline is for one that does not.
  (void)control_.send(link, std::move(frame)).ok();
  strangers_[link] = {clock_.now() + kRegisterPatience, true};
}

void CoordinatorMachine::send_control(LinkId link, const CoordinatorMessage& message) {
  Frame frame{FrameType::kControl, Bytes(message.ByteSizeLong())};
  message.SerializeToArray(frame.payload.data(), static_cast<int>(frame.payload.size()));
  const Status sent = control_.send(link, std::move(frame));
  if (sent.ok()) return;
  const Node* node = registry_.find(link);
  if (node != nullptr) lose_node(node->status.name, sent.error().message);
}

void CoordinatorMachine::publish_roster(Bytes roster) {
  roster_ = std::move(roster);
  std::vector<LinkId> links;  // sending may lose a worker
  for (const NodeStatus& node : registry_.snapshot()) {
    const Node* known = registry_.find(node.name);
    if (known != nullptr && known->state != Node::State::kLost) links.push_back(known->link);
  }
  for (const LinkId link : links) send_roster(link);
}

void CoordinatorMachine::send_roster(LinkId link) {
  if (roster_.empty()) return;
  CoordinatorMessage message;
  message.mutable_roster()->set_roster(roster_.data(), roster_.size());
  send_control(link, message);
}

void CoordinatorMachine::lose_node(const std::string& name, const std::string& why) {
  Node* node = registry_.find(name);
  if (node == nullptr || node->state == Node::State::kLost) return;
  spdlog::warn("worker {} lost: {}", name, why);
  const Epoch epoch = node->status.epoch;
  const std::uint32_t stage = node->status.stage;
  if (!strangers_.contains(node->link)) control_.close(node->link);
  registry_.lose(*node);
  lose_pipeline(epoch, stage, why);
}

void CoordinatorMachine::on_message(Node& node, const WorkerMessage& message) {
  node.last_heard = clock_.now();
  switch (message.body_case()) {
    case WorkerMessage::kHeartbeat: return on_heartbeat(node, message.heartbeat());
    case WorkerMessage::kStageReady: return on_stage_ready(node, message.stage_ready());
    case WorkerMessage::kStageFailed: return on_stage_failed(node, message.stage_failed());
    case WorkerMessage::kStepHashes: return on_step_hashes(node, message.step_hashes());
    case WorkerMessage::kRegister:
      return lose_node(node.status.name, "it registered twice in one session");
    case WorkerMessage::BODY_NOT_SET:
      return lose_node(node.status.name, "it sent a control message of an unknown kind");
  }
}

void CoordinatorMachine::on_heartbeat(Node& node, const control::v1::Heartbeat& heartbeat) {
  node.status.steps_total = heartbeat.steps_total();
  node.status.rows_total = heartbeat.rows_total();
  node.status.busy_seconds_total = heartbeat.busy_seconds_total();
  node.status.kv_tokens_used = heartbeat.kv_tokens_used();
  node.status.ring_steps_total = heartbeat.ring_steps_total();
  node.status.ring_seconds_total = heartbeat.ring_seconds_total();
  node.rows.report(clock_.now(), static_cast<double>(heartbeat.rows_total()));
  node.busy_seconds.report(clock_.now(), heartbeat.busy_seconds_total());
  node.status.card.reset();
  if (heartbeat.has_card()) node.status.card = read_card(heartbeat.card());
}

void CoordinatorMachine::on_stage_ready(Node& node, const control::v1::StageReady& ready) {
  const Epoch epoch(ready.epoch());
  Pipeline* pipeline = pipelines_.find(epoch);
  if (pipeline == nullptr || node.status.epoch != epoch || pipeline->serving) return;  // late
  const std::uint32_t stage = node.status.stage;
  node.status.kv_pages = ready.kv_pages();
  node.status.weight_bytes = ready.weight_bytes();
  const Status usable = pipelines_.ready(*pipeline, stage, ready);
  if (!usable.ok()) return lose_pipeline(epoch, stage, usable.error().message);
  serve_if_complete(epoch);
}

void CoordinatorMachine::on_stage_failed(Node& node, const control::v1::StageFailed& failed) {
  const Epoch epoch(failed.epoch());
  if (node.status.epoch != epoch) return;  // late
  lose_pipeline(epoch, node.status.stage, decode_refused(as_bytes(failed.error())));
}

void CoordinatorMachine::on_step_hashes(Node& node, const control::v1::StepHashes& hashes) {
  if (node.status.epoch != Epoch(hashes.epoch())) return;  // late
  for (const auto& row : hashes.rows()) {
    RowHash hash{
        SequenceId(row.sequence()), row.position(), node.status.stage, node.status.layers, {}, {}};
    if (!read_hash(row.in(), hash.in) || !read_hash(row.out(), hash.out)) {
      return lose_node(node.status.name, "it sent a hash that is not of 32 bytes");
    }
    const std::shared_ptr<Sequence> sequence = scheduler_.find(hash.sequence);
    if (!sequence || sequence->ended || sequence->epoch != node.status.epoch) continue;
    if (!sequence->request.report_hashes) continue;
    const Status added = sequence->add_hash(hash);
    if (!added.ok()) return lose_node(node.status.name, added.error().message);
  }
  finish_held(false);
}

}  // namespace hearth::coordinator
