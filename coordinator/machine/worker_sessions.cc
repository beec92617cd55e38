#include "coordinator/machine/worker_sessions.h"

#include <spdlog/spdlog.h>

#include <utility>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "coordinator/machine/meetings.h"
#include "coordinator/machine/pipeline_lifecycle.h"
#include "coordinator/machine/sequence_lifecycle.h"
#include "coordinator/machine/worker_holdings.h"
#include "coordinator/pipelines/pipelines.h"
#include "coordinator/proof/ledger_service.h"
#include "proto/address.h"
#include "proto/away.h"
#include "proto/frame.h"
#include "proto/roster.h"

namespace hearth::coordinator {
namespace {

using control::v1::CoordinatorMessage;
using control::v1::WorkerMessage;

constexpr Duration kRegisterPatience = std::chrono::seconds(5);
// The search for the next link to measure takes time by the number of nodes, and so does the pause
// between two of them: 1,000 nodes are searched once a second.
constexpr Duration kWaysOfNode = std::chrono::milliseconds(1);
constexpr Duration kOtherRemembered = std::chrono::minutes(1);
constexpr std::uint32_t kFirstPort = 1024;  // those below belong to services
constexpr std::uint32_t kLastPort = 65'535;
constexpr Duration kDialAgain = std::chrono::minutes(10);  // the same outside port, or another one

// What a change of is logged. A port is another one with every start.
std::string machine_of(const NodeStatus& status) {
  return status.build + "\n" + status.device + "\n" + status.isa + "\n" + status.machine();
}

// Others are told to dial this address, and `hearth doctor` lets the coordinator do so. Returns
// NodeStatus::seen_host: behind a router that translates addresses, the worker knows only its own
// private one, which then only nodes behind the same router are told to dial.
Result<std::string> seen_host_of(const std::string& speaker, const control::v1::Register& body,
                                 bool has_routes) {
  if (speaker.empty()) return std::string();
  TRY(const Address address, parse_address(body.data_address()));
  const Status own = check_own_host(address, speaker);
  if (own.ok()) return std::string();
  const bool translated = has_routes && body.protocol_version() >= kProtocolMeet;
  if (translated && is_private(address.host)) return speaker;
  return Error::invalid("data_address: ", own.error().message);
}

// Others are told to dial this address, and `hearth doctor` lets the coordinator do so.
Status check_place(const std::string& speaker, const char* field, const std::string& text) {
  if (speaker.empty()) return ok_status();
  TRY(const Address address, parse_address(text));
  const Status own = check_own_host(address, speaker);
  if (!own.ok()) return Error::invalid(field, ": ", own.error().message);
  return ok_status();
}

// What is no figure that a machine can have is left out.
void take_energy(Node& node, const control::v1::Heartbeat& heartbeat, TimePoint now) {
  constexpr double kMost = 1e15;  // joules: of 1 MW in 30 years
  const double joules = heartbeat.energy_joules_total();
  node.status.energy_joules_total.reset();
  if (!heartbeat.has_energy_joules_total() || !(joules >= 0.0 && joules <= kMost)) return;
  node.status.energy_joules_total = joules;
  node.energy.report(now, joules);
}

}  // namespace

void WorkerSessions::on_timer() {
  const TimePoint now = clock_.now();
  std::vector<LinkId> nameless;
  for (const auto& [link, stranger] : strangers_) {
    if (now >= stranger.deadline) nameless.push_back(link);
  }
  for (const LinkId link : nameless) {
    strangers_.erase(link);
    control_.close(link);
  }
  std::vector<std::string> silent;
  for (const Node* node : registry_.silent_nodes()) silent.push_back(node->status.name);
  for (const std::string& name : silent) lose(name, "no heartbeat came in time");
}

void WorkerSessions::on_link_open(LinkId link, bool incoming) {
  if (!incoming || strangers_.size() >= limits::kWorkers) return control_.close(link);
  strangers_[link] = {clock_.now() + kRegisterPatience, false};
}

void WorkerSessions::on_frame(LinkId link, Frame frame) {
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
    return refuse(link, "the first message of a session must be a Register");
  }
  if (!parsed) return lose(node->status.name, "it sent bytes that are not a control message");
  on_message(*node, message);
}

void WorkerSessions::on_link_closed(LinkId link, const Error& why) {
  strangers_.erase(link);
  const Node* node = registry_.find(link);
  if (node != nullptr) lose(node->status.name, "its control session ended: " + why.message);
}

void WorkerSessions::on_first_message(LinkId link, const WorkerMessage& message) {
  if (!message.has_register_()) {
    return refuse(link, "the first message of a session must be a Register");
  }
  const Status speaker = check_peer(control_, link, message.register_().node(), Role::kWorker);
  if (!speaker.ok()) {
    spdlog::warn("refused a worker: {}", speaker.error().message);
    return refuse(link, std::string(kNotAdmitted));
  }
  if (options_.other_models.contains(message.register_().model_fingerprint())) {
    other_at_ = clock_.now();
    return refuse(link, "the server has another of its models loaded now", Refusal::kOtherModel);
  }
  const Status fit = registry_.check(message.register_());
  if (!fit.ok()) return refuse(link, fit.error().message);
  const Result<std::string> seen =
      seen_host_of(control_.host(link), message.register_(), options_.relay != nullptr);
  if (!seen.ok()) return refuse(link, seen.error().message);
  const std::string& name = message.register_().node();
  if (registry_.holds(name)) {
    // May pass: a worker that was started again can be faster than the end of its old connection.
    // The one that is connected stays: a copy of its key does not take its place.
    spdlog::warn(
        "worker {} is connected, and a second connection uses its key. If it was neither restarted "
        "nor started twice, its key was copied: remove it with hearth nodes rm {}",
        name, name);
    return refuse(link,
                  "a worker named " + name +
                      " is already connected with this key: it was started twice, or this folder "
                      "is a copy of its folder. Give a copy its own key: hearth leave --here-only, "
                      "then hearth join with a new join token. Give a second worker on the "
                      "server's machine another --name",
                  Refusal::kMayPass);
  }
  lose(name, "no heartbeat came in time");  // connected still, but silent for too long
  const Node* before = registry_.find(name);
  const bool moved = before != nullptr && before->status.seen_host != *seen;
  auto added = registry_.add(link, message.register_(), *seen);
  pipelines_.ways().forget_routes(name, moved);
  strangers_.erase(link);
  holdings_.forget_accuser(name);
  if (!added.ok()) {  // not for good: it may come back when there is room
    spdlog::warn("no room for worker {}: {}", message.register_().node(), added.error().message);
    return control_.close(link);
  }
  spdlog::info("worker {} registered: {} threads of {}, data links at {}", (*added)->status.name,
               (*added)->status.threads, (*added)->status.isa, (*added)->status.data_address);
  pipelines_.go_on_above(Epoch(message.register_().newest_epoch()));
  welcome(link, **added);
  if (Node* node = registry_.find(link); node != nullptr) meet(*node);
  if (Node* node = registry_.find(link); node != nullptr) holdings_.send_plan(*node);
  lifecycle_.form();
}

void WorkerSessions::welcome(LinkId link, const Node& node) {
  INVARIANT(node.link == link && node.state == Node::State::kFree,
            "a worker that has registered is free, and speaks by its own link");
  CoordinatorMessage answer;
  const auto beat = std::chrono::duration_cast<std::chrono::milliseconds>(options_.heartbeat);
  answer.mutable_registered()->set_heartbeat_milliseconds(static_cast<std::uint32_t>(beat.count()));
  answer.mutable_registered()->set_groups(options_.ranks != 1);
  answer.mutable_registered()->set_behind_router(!node.status.seen_host.empty());
  answer.mutable_registered()->set_measure(options_.placement && !node.status.measured);
  send(link, answer);
  send_roster(link);
}

// What is said to the accused only this version of the program understands.
void WorkerSessions::meet(Node& node) {
  const auto peer = control_.peer(node.link);
  if (!peer) return;
  node.status.newcomer = options_.is_newcomer && options_.is_newcomer(peer->key);
  if (options_.receipts == nullptr) return;
  const auto owner = options_.owner_of ? options_.owner_of(peer->key) : std::nullopt;
  node.owner = owner ? owner->id.hex() : "";
  if (node.status.newcomer) options_.receipts->doubt(peer->key);
  node.status.newcomer = options_.receipts->is_newcomer(peer->key);
  node.status.barred = options_.receipts->why_barred(peer->key);
  node.status.unreceipted = options_.receipts->why_unreceipted(node.status.name, node.status.build);
  options_.receipts->meet_machine(peer->key, machine_of(node.status));
  if (node.status.build == options_.receipts->build()) {
    options_.receipts->meet(node.status.name, peer->key);
  }
}

void WorkerSessions::refuse(LinkId link, const std::string& why, Refusal kind) {
  const bool is_expected = kind == Refusal::kOtherModel;
  spdlog::log(is_expected ? spdlog::level::debug : spdlog::level::warn, "refused a worker: {}",
              why);
  CoordinatorMessage message;
  message.mutable_refused()->set_reason(decode_refused(as_bytes(why)));
  message.mutable_refused()->set_may_pass(kind != Refusal::kForGood);
  message.mutable_refused()->set_other_model(is_expected);
  Frame frame{FrameType::kControl, Bytes(message.ByteSizeLong())};
  message.SerializeToArray(frame.payload.data(), static_cast<int>(frame.payload.size()));
  // The worker hangs up when it has read this; the deadline is for one that does not.
  (void)control_.send(link, std::move(frame)).ok();
  strangers_[link] = {clock_.now() + kRegisterPatience, true};
}

void WorkerSessions::send(LinkId link, const CoordinatorMessage& message) {
  Frame frame{FrameType::kControl, Bytes(message.ByteSizeLong())};
  message.SerializeToArray(frame.payload.data(), static_cast<int>(frame.payload.size()));
  const Status sent = control_.send(link, std::move(frame));
  if (sent.ok()) return;
  const Node* node = registry_.find(link);
  if (node != nullptr) lose(node->status.name, sent.error().message);
}

void WorkerSessions::close_all() {
  for (const auto& [link, stranger] : std::exchange(strangers_, {})) control_.close(link);
  std::vector<std::string> names;
  for (const Node* node : registry_.all()) names.push_back(node->status.name);
  for (const std::string& name : names) {
    Node* node = registry_.find(name);
    control_.close(node->link);
    if (options_.receipts != nullptr) options_.receipts->lose(name);
    registry_.lose(*node);
    INVARIANT(node->state == Node::State::kLost, "a worker whose session is closed is lost");
  }
}

bool WorkerSessions::has_other_workers() const {
  return other_at_ && clock_.now() - *other_at_ < kOtherRemembered;
}

void WorkerSessions::publish_roster(Bytes roster) {
  roster_ = std::move(roster);
  if (const auto parsed = parse_roster(roster_); parsed.ok()) {
    registry_.set_members(names_of(*parsed));
  }
  std::vector<LinkId> links;  // sending may lose a worker
  for (const NodeStatus& node : registry_.snapshot()) {
    const Node* known = registry_.find(node.name);
    if (known != nullptr && known->state != Node::State::kLost) links.push_back(known->link);
  }
  for (const LinkId link : links) send_roster(link);
}

Status WorkerSessions::order(const std::string& name, const std::optional<Away>& away) {
  const Node* node = registry_.find(name);
  if (node == nullptr || node->state == Node::State::kLost) {
    return Error::of(ErrorCode::kNotFound, "no worker named ", name,
                     " is connected; hearth status lists the workers");
  }
  if (node->status.protocol < kProtocolOrders) {
    return Error::of(ErrorCode::kVersion, "the program of ", name,
                     " is too old to take orders; update it, or run hearth pause on that machine");
  }
  CoordinatorMessage message;
  auto& order = *message.mutable_host_order();
  if (away) write_away(*away, *order.mutable_away());
  send(node->link, message);
  return ok_status();
}

void WorkerSessions::send_roster(LinkId link) {
  if (roster_.empty()) return;
  CoordinatorMessage message;
  message.mutable_roster()->set_roster(roster_.data(), roster_.size());
  send(link, message);
}

void WorkerSessions::lose(const std::string& name, const std::string& why) {
  Node* node = registry_.find(name);
  if (node == nullptr || node->state == Node::State::kLost) return;
  spdlog::warn("worker {} lost: {}", name, why);
  const Epoch epoch = node->status.epoch;
  const Seat seat{node->status.stage, node->status.rank};
  if (!strangers_.contains(node->link)) control_.close(node->link);
  if (options_.receipts != nullptr) options_.receipts->lose(name);
  registry_.lose(*node);
  INVARIANT(node->state == Node::State::kLost, "a worker is lost before its pipeline ends");
  ways_at_ = {};
  lifecycle_.lose(epoch, seat, why);
}

void WorkerSessions::on_receipts(Node& node, const WorkerMessage& message, int windows) {
  const int most = message.has_receipts() ? limits::kReceiptsAsked : limits::kReceiptBatch;
  if (windows > most) {
    return lose(node.status.name,
                message_of("it sent a message about ", windows, " windows; the limit is ", most));
  }
  if (options_.receipts != nullptr) options_.receipts->take(node.status.name, message);
}

void WorkerSessions::on_message(Node& node, const WorkerMessage& message) {
  node.last_heard = clock_.now();
  switch (message.body_case()) {
    case WorkerMessage::kHeartbeat: return on_heartbeat(node, message.heartbeat());
    case WorkerMessage::kStageReady: return lifecycle_.stage_ready(node, message.stage_ready());
    case WorkerMessage::kStageFailed: return lifecycle_.stage_failed(node, message.stage_failed());
    case WorkerMessage::kStepHashes: {
      const Status taken = sequences_.take_hashes(node, message.step_hashes());
      if (!taken.ok()) lose(node.status.name, taken.error().message);
      return;
    }
    case WorkerMessage::kWindowClaims:
      return on_receipts(node, message, message.window_claims().windows_size());
    case WorkerMessage::kReceipts:
      return on_receipts(node, message, message.receipts().receipts_size());
    case WorkerMessage::kSeals: return on_receipts(node, message, message.seals().seals_size());
    case WorkerMessage::kOpenings:
      return on_receipts(node, message, message.openings().openings_size());
    case WorkerMessage::kAnswer:
    case WorkerMessage::kSelfChecked:
    case WorkerMessage::kCosigned: return on_receipts(node, message, 0);
    case WorkerMessage::kRoster:
      if (!options_.on_held_roster ||
          options_.on_held_roster(node.status.name, as_bytes(message.roster().roster()))) {
        return;
      }
      return lose(node.status.name, "it sent bytes that are not a roster of this cluster");
    case WorkerMessage::kMeasured: return on_measured(node, message.measured());
    case WorkerMessage::kProbed:
      if (message.probed().unreached() && probed_from_ == node.status.name) {
        meetings_.avoid_relay(std::exchange(probed_relay_, {}));
      }
      ways_at_ = {};  // the next link can be measured at once
      return pipelines_.ways().take(node.status.name, message.probed());
    case WorkerMessage::kRegister:
      return lose(node.status.name, "it registered twice in one session");
    case WorkerMessage::BODY_NOT_SET:
      return lose(node.status.name, "it sent a control message of an unknown kind");
  }
}

void WorkerSessions::on_heartbeat(Node& node, const control::v1::Heartbeat& heartbeat) {
  node.status.steps_total = heartbeat.steps_total();
  node.status.rows_total = heartbeat.rows_total();
  node.status.busy_seconds_total = heartbeat.busy_seconds_total();
  node.status.kv_tokens_used = heartbeat.kv_tokens_used();
  node.status.kv_pages_kept = heartbeat.kv_pages_kept();
  node.status.ring_steps_total = heartbeat.ring_steps_total();
  node.status.ring_seconds_total = heartbeat.ring_seconds_total();
  node.status.late_frames_total = heartbeat.late_frames_total();
  node.status.replayed_rows_total = heartbeat.replayed_rows_total();
  node.rows.report(clock_.now(), static_cast<double>(heartbeat.rows_total()));
  node.busy_seconds.report(clock_.now(), heartbeat.busy_seconds_total());
  node.pace.report(clock_.now(), {heartbeat.steps_total(), heartbeat.rows_total(),
                                  heartbeat.busy_seconds_total(), heartbeat.lateness()});
  take_energy(node, heartbeat, clock_.now());
  node.status.card.reset();
  if (heartbeat.has_card()) node.status.card = read_card(heartbeat.card());
  if (node.status.partial) take_holding(node, heartbeat.holding());
  if (const Status taken = take_rank(node, heartbeat.rank_address()); !taken.ok()) {
    return lose(node.status.name, taken.error().message);
  }
  if (const Status taken = take_outside_port(node, heartbeat.outside_port()); !taken.ok()) {
    return lose(node.status.name, taken.error().message);
  }
  lifecycle_.take_away(node, away_of(heartbeat));
  const Status taken = holdings_.take_wrong_bytes(node, heartbeat);
  if (!taken.ok()) lose(node.status.name, taken.error().message);
}

// Other workers are told to dial it. A worker whose addresses a router translates is dialled by
// none, so it computes no stage in a group.
Status WorkerSessions::take_rank(Node& node, const std::string& address) {
  if (address == node.status.rank_address || !node.status.seen_host.empty()) return ok_status();
  REQUIRE(address.size() <= limits::kAddressBytes, "rank_address has ", address.size(),
          " bytes; it must have at most ", limits::kAddressBytes);
  if (!address.empty()) TRY_VOID(parse_address(address));
  if (!address.empty()) TRY_VOID(check_place(control_.host(node.link), "rank_address", address));
  node.status.rank_address = address;
  return ok_status();
}

// The host is the one that this coordinator sees, whatever the router said: a worker can send
// others to the place from which it speaks, and nowhere else. A port is connected to first: a
// router behind a provider's router forwards one that nothing from outside reaches.
Status WorkerSessions::take_outside_port(Node& node, std::uint32_t port) {
  REQUIRE(port <= kLastPort, "outside_port is ", port, "; it must be at most ", kLastPort);
  NodeStatus& status = node.status;
  if (port == status.outside_port || status.seen_host.empty()) return ok_status();
  if (status.outside_port > 0) {
    spdlog::info("worker {} has no port {} of its router any more", status.name,
                 status.outside_port);
    status.outside_port = 0;
  }
  if (port < kFirstPort) return ok_status();
  const auto own = static_cast<std::uint16_t>(port);
  if (own != node.dialled_port) {
    if (clock_.now() < node.dial_again) return ok_status();
    node.dialled_port = own;
    node.dial_again = clock_.now() + kDialAgain;
  }
  const std::string address = Address{status.seen_host, own}.text();
  const auto open = options_.answers ? options_.answers(address) : std::optional(true);
  if (!open) return ok_status();
  if (!*open) {
    node.dialled_port = 0;
    spdlog::info("worker {} is not reached at {}, the port of its router", status.name, address);
    return ok_status();
  }
  status.outside_port = own;
  spdlog::info("worker {} is reached at {}, a port of its router", status.name, address);
  pipelines_.ways().try_again(status.name);
  return ok_status();
}

// A worker that still fetches gets the time for it.
void WorkerSessions::take_holding(Node& node, const control::v1::Holding& holding) {
  const std::uint64_t before = node.status.held_bytes;
  registry_.hold(node, holding);
  if (node.state != Node::State::kLoading || node.status.held_bytes <= before) return;
  Pipeline* pipeline = pipelines_.find(node.status.epoch);
  if (pipeline != nullptr) pipeline->deadline = clock_.now() + options_.forming_timeout;
}

// A worker with impossible figures is not placed.
void WorkerSessions::on_measured(Node& node, const control::v1::Measured& measured) {
  placement::Node figures;
  figures.name = node.status.name;
  figures.step_seconds = measured.step_seconds();
  figures.layer = {measured.layer_seconds(), measured.layer_batch_seconds()};
  figures.head = {measured.head_seconds(), measured.head_batch_seconds()};
  figures.memory_bytes = measured.memory_bytes();
  figures.kv_budget_bytes = measured.kv_budget_bytes();
  Status usable = placement::check(figures);
  if (usable.ok() && measured.batch_rows() != placement::Problem().batch_rows) {
    usable = Error::invalid("batch_rows is ", measured.batch_rows(), "; it must be ",
                            placement::Problem().batch_rows);
  }
  if (!usable.ok()) {
    spdlog::warn("worker {} is not placed: {}", node.status.name, usable.error().message);
    node.status.measured.reset();
    return;
  }
  node.status.measured = figures;
  node.measured_at = clock_.now();
}

void WorkerSessions::measure_ways() {
  if (!options_.placement || clock_.now() < ways_at_) return;
  ways_at_ = clock_.now() + registry_.connected() * kWaysOfNode;
  const std::optional<LinkBook::Way> way = pipelines_.ways().next(registry_.known());
  if (!way) return;
  const Node* from = registry_.find(way->from);
  const Node* to = registry_.find(way->to);
  const LinkId prober = from->link;
  Meetings::Meeting meeting = meetings_.between(*from, *to, way->route);
  probed_from_ = way->from;
  probed_relay_ = meeting.kind.relay;
  CoordinatorMessage message;
  message.mutable_probe()->set_node(way->to);
  message.mutable_probe()->set_address(meeting.route);
  const auto place = meeting.dials_last() ? meeting.orders.end() : meeting.orders.begin();
  meeting.orders.insert(place, {prober, std::move(message)});
  for (const auto& [session, order] : meeting.orders) send(session, order);
}

}  // namespace hearth::coordinator
