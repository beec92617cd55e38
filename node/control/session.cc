#include "node/control/session.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/limits.h"
#include "node/control/hold_messages.h"
#include "node/proof/receipt_maker.h"
#include "proto/fixed_field.h"
#include "proto/wrong_bytes.h"

namespace hearth::node {
namespace {

using control::v1::CoordinatorMessage;
using control::v1::WorkerMessage;

// How long dialling and registering may take before the link is given up.
constexpr Duration kStepPatience = std::chrono::seconds(10);
// While another address is left to try: a machine without power answers nothing.
constexpr Duration kAddressPatience = std::chrono::seconds(2);
constexpr Duration kNextAddressPause = std::chrono::milliseconds(20);
// How long a temporary refusal is retried. The coordinator notices a dead worker much earlier, so a
// longer refusal is permanent.
constexpr Duration kRefusedPatience = std::chrono::seconds(10);
constexpr std::uint32_t kHeartbeatShortest = 10;
constexpr std::uint32_t kHeartbeatLongest = 60'000;

WorkerMessage measured_message(const Measured& measured, std::uint64_t kv_budget_bytes) {
  const StageRate& rate = measured.rate;
  WorkerMessage message;
  auto& body = *message.mutable_measured();
  body.set_batch_rows(kRateRows);
  body.set_step_seconds(rate.step_seconds);
  body.set_layer_seconds(rate.layer.one);
  body.set_layer_batch_seconds(rate.layer.batch);
  body.set_head_seconds(rate.head.one);
  body.set_head_batch_seconds(rate.head.batch);
  body.set_memory_bytes(measured.memory_bytes);
  body.set_kv_budget_bytes(kv_budget_bytes);
  return message;
}

// The report about the link to `node`; an error is reported as its text.
WorkerMessage probed_message(const std::string& node, const Result<LinkRate>& rate) {
  WorkerMessage message;
  auto& body = *message.mutable_probed();
  body.set_node(node);
  if (rate.ok()) {
    body.set_round_trip_seconds(rate->round_trip_seconds);
    body.set_to_bytes_per_second(rate->to_bytes_per_second);
    body.set_from_bytes_per_second(rate->from_bytes_per_second);
  } else {
    body.set_error(decode_refused(as_bytes(rate.error().message)));
    body.set_unreached(rate.error().code == ErrorCode::kUnavailable);
  }
  return message;
}

}  // namespace

ControlSession::ControlSession(const StageOptions& options, std::string data_address,
                               const Clock& clock, Random& random, Transport& transport,
                               ControlEvents& events)
    : options_(options),
      data_address_(std::move(data_address)),
      clock_(clock),
      transport_(transport),
      events_(events),
      backoff_(random) {}

void ControlSession::dial() {
  state_ = State::kDialling;
  deadline_ = clock_.now() + kStepPatience;
  address_ = options_.control_address;
  if (options_.find_coordinator) {
    const Result<std::string> found = options_.find_coordinator();
    if (!found.ok()) return lose(found.error().message);
    if (!found->empty()) address_ = *found;
    // A slow network would otherwise never reach any but the last address.
    if (!tried_all() && !is_patient_) deadline_ = clock_.now() + kAddressPatience;
    if (tried_all()) is_patient_ = !is_patient_;
  }
  link_ = transport_.connect(address_);
}

bool ControlSession::tried_all() const { return !options_.tried_all || options_.tried_all(); }

void ControlSession::on_timer() {
  const TimePoint now = clock_.now();
  switch (state_) {
    case State::kRefused: return;
    case State::kWaiting:
      if (now >= deadline_) dial();
      return;
    case State::kDialling:
    case State::kRegistering:
      if (now >= deadline_) lose("the coordinator does not answer");
      return;
    case State::kRegistered: break;
  }
  if (now < next_heartbeat_) return;
  next_heartbeat_ = now + heartbeat_;
  beat();
}

void ControlSession::beat() {
  WorkerMessage message;
  events_.fill_heartbeat(*message.mutable_heartbeat());
  if (away_) write_away(*away_, *message.mutable_heartbeat()->mutable_away());
  message.mutable_heartbeat()->set_rank_address(rank_address_);
  if (options_.outside_port) message.mutable_heartbeat()->set_outside_port(options_.outside_port());
  // Each report is sent once, so only during a session.
  if (options_.wrong_bytes && state_ == State::kRegistered) {
    for (const WrongBytes& wrong : options_.wrong_bytes()) {
      write_wrong_bytes(wrong, *message.mutable_heartbeat()->add_wrong_bytes());
    }
  }
  send(message);
}

void ControlSession::set_away(std::optional<Away> away) {
  away_ = std::move(away);
  beat();
}

void ControlSession::send(const WorkerMessage& message) {
  if (state_ != State::kRegistering && state_ != State::kRegistered) return;
  Frame frame{FrameType::kControl, Bytes(message.ByteSizeLong())};
  message.SerializeToArray(frame.payload.data(), static_cast<int>(frame.payload.size()));
  // A control queue that is full belongs to a coordinator that stopped reading.
  const Status sent = transport_.send(link_, std::move(frame));
  if (!sent.ok()) lose(sent.error().message);
}

void ControlSession::on_link_open(LinkId link, bool incoming) {
  if (incoming) {
    transport_.close(link);
    return;
  }
  if (link != link_ || state_ != State::kDialling) return;
  state_ = State::kRegistering;
  deadline_ = clock_.now() + kStepPatience;
  register_worker();
}

void ControlSession::register_worker() {
  WorkerMessage message;
  auto& body = *message.mutable_register_();
  body.set_node(options_.node);
  body.set_protocol_version(protocol_version());
  body.set_canonical_version(options_.canonical_version);
  body.set_model_fingerprint(options_.model_fingerprint);
  body.set_layers(options_.layers);
  body.set_data_address(data_address_);
  body.set_kv_budget_bytes(options_.kv_budget_bytes);
  body.set_isa(options_.isa);
  body.set_device(options_.device);
  body.set_layers_most(options_.layers_most);
  body.set_threads(options_.threads);
  body.set_weight_bytes_per_second(options_.weight_bytes_per_second);
  body.set_process_id(options_.process_id);
  if (options_.receipts != nullptr) body.set_build(options_.receipts->build());
  body.set_newest_epoch(newest_epoch_);
  body.set_draft_bytes(options_.draft_bytes);
  body.set_relay_megabits(options_.relay_megabits);
  if (options_.holding) write_holding(options_.holding(), *body.mutable_holding());
  if (away_) write_away(*away_, *body.mutable_away());
  send(message);
}

void ControlSession::on_frame(LinkId link, Frame frame) {
  if (link != link_ || state_ == State::kWaiting || state_ == State::kRefused) return;
  CoordinatorMessage message;
  if (frame.type != FrameType::kControl || frame.payload.size() > limits::kControlMessageBytes ||
      !message.ParseFromArray(frame.payload.data(), static_cast<int>(frame.payload.size()))) {
    lose("the coordinator sent bytes that are not a control message");
    return;
  }
  switch (message.body_case()) {
    case CoordinatorMessage::kRegistered: return on_registered(message.registered());
    case CoordinatorMessage::kRefused: return on_refused(message.refused());
    case CoordinatorMessage::kAssign:
      if (state_ != State::kRegistered) return;
      newest_epoch_ = std::max<std::uint64_t>(newest_epoch_, message.assign().epoch());
      return events_.on_assign(message.assign());
    case CoordinatorMessage::kUnassign:
      if (state_ == State::kRegistered) events_.on_unassign(Epoch(message.unassign().epoch()));
      return;
    case CoordinatorMessage::kRoster: return on_roster(message.roster());
    case CoordinatorMessage::kHold: return on_hold(message.hold());
    case CoordinatorMessage::kCheckpointOffer: return on_checkpoint(message.checkpoint_offer());
    case CoordinatorMessage::kHostOrder: return on_order(message.host_order());
    case CoordinatorMessage::kCountersign:
    case CoordinatorMessage::kSealOrder:
    case CoordinatorMessage::kOpenOrder:
    case CoordinatorMessage::kAccusation:
    case CoordinatorMessage::kSelfCheck: return events_.on_proof(message);
    case CoordinatorMessage::kEnded:
      return spdlog::error("{}: this node gets no more work from the coordinator: {}",
                           options_.node, message.ended().why());
    case CoordinatorMessage::kProbe:
      if (state_ == State::kRegistered) on_probe(message.probe());
      return;
    case CoordinatorMessage::kMeet:
      if (options_.meet && message.meet().route().size() <= limits::kAddressBytes) {
        options_.meet(message.meet().route());
      }
      return;
    case CoordinatorMessage::kForward: return on_forward(message.forward());
    case CoordinatorMessage::BODY_NOT_SET:
      return lose("the coordinator sent a control message of an unknown kind");
  }
}

void ControlSession::on_registered(const control::v1::Registered& registered) {
  const std::uint32_t milliseconds =
      std::clamp(registered.heartbeat_milliseconds(), kHeartbeatShortest, kHeartbeatLongest);
  heartbeat_ = std::chrono::milliseconds(milliseconds);
  next_heartbeat_ = clock_.now() + heartbeat_;
  state_ = State::kRegistered;
  refused_since_.reset();
  is_patient_ = false;
  backoff_.reset();
  spdlog::info("{}: registered with the coordinator at {}", options_.node, address_);
  if (registered.groups() && options_.rank_address && rank_address_.empty()) {
    rank_address_ = options_.rank_address();
    beat();
  }
  if (options_.behind_router) options_.behind_router(registered.behind_router());
  // A result that is ready after this session has ended goes to the next one, which asks again.
  if (!registered.measure() || !options_.measure) return;
  options_.measure([this](const Measured& measured) {
    send(measured_message(measured, options_.kv_budget_bytes));
  });
}

void ControlSession::on_roster(const control::v1::RosterUpdate& update) {
  if (!options_.take_roster) return;
  const Bytes held = options_.take_roster(as_bytes(update.roster()));
  if (held.empty()) return;
  WorkerMessage message;
  message.mutable_roster()->set_roster(held.data(), held.size());
  send(message);
}

void ControlSession::on_hold(const control::v1::Hold& hold) {
  if (!options_.take_plan) return;
  auto plan = read_hold(hold, options_.layers);
  if (!plan.ok()) return lose("the hold message is invalid: " + plan.error().message);
  options_.take_plan(std::move(plan->plan), plan->model);
}

void ControlSession::on_probe(const control::v1::Probe& probe) {
  const std::string& node = probe.node();
  if (!options_.probe || node.size() > limits::kNodeNameBytes ||
      probe.address().size() > limits::kAddressBytes) {
    return;
  }
  options_.probe(node, probe.address(),
                 [this, node](const Result<LinkRate>& rate) { send(probed_message(node, rate)); });
}

void ControlSession::on_forward(const control::v1::Forward& forward) {
  Ticket dialler;
  Ticket acceptor;
  const bool whole = read_field(forward.dialler(), dialler.bytes) &&
                     read_field(forward.acceptor(), acceptor.bytes) &&
                     check_node_name(forward.account()).ok();
  if (options_.forward && whole) {
    options_.forward(dialler, acceptor, forward.account(), forward.brief());
  }
}

void ControlSession::on_checkpoint(const control::v1::CheckpointOffer& offer) {
  if (!options_.witness) return;
  options_.witness(offer, [this](const control::v1::Cosigned& answer) {
    WorkerMessage message;
    *message.mutable_cosigned() = answer;
    send(message);
  });
}

void ControlSession::on_order(const control::v1::HostOrder& order) {
  if (!options_.take_order) return;
  options_.take_order(away_of(order));
}

void ControlSession::on_refused(const control::v1::Refused& refused) {
  const bool had_session = state_ == State::kRegistered;
  const std::string reason = decode_refused(as_bytes(refused.reason()));
  if (refused.other_model()) {
    lose("refused: " + reason);
    if (options_.on_other_model) options_.on_other_model();
    return;
  }
  if (refused.may_pass()) {
    const TimePoint since = refused_since_.value_or(clock_.now());
    if (clock_.now() - since < kRefusedPatience) {
      lose("refused: " + reason);
      refused_since_ = since;
      return;
    }
  }
  refused_ = "the coordinator refused this worker: " + reason;
  spdlog::error("{}: {}", options_.node, refused_);
  state_ = State::kRefused;
  transport_.close(link_);
  if (had_session) events_.on_control_lost();
}

void ControlSession::on_link_closed(LinkId link, const Error& why) {
  if (link != link_ || state_ == State::kWaiting || state_ == State::kRefused) return;
  if (why.message != kNotAdmitted) return lose(why.message);
  // The coordinator's own text: we are no longer, or not yet again, in its roster.
  control::v1::Refused refused;
  refused.set_reason(why.message);
  refused.set_may_pass(true);
  on_refused(refused);
}

void ControlSession::lose(const std::string& why) {
  const bool had_session = state_ == State::kRegistered;
  transport_.close(link_);
  state_ = State::kWaiting;
  refused_since_.reset();
  // Of several coordinators, another one may lead now.
  const Duration pause = tried_all() ? backoff_.next() : kNextAddressPause;
  deadline_ = clock_.now() + pause;
  spdlog::warn("{}: no session with the coordinator{}: {}; dialling again in {} ms", options_.node,
               address_.empty() ? "" : " at " + address_, why, pause.count() / 1'000'000);
  if (had_session) events_.on_control_lost();
}

}  // namespace hearth::node
