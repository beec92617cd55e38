#include "node/pipeline/stage.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "kernels/canonical.h"
#include "node/control/hold_messages.h"
#include "node/pipeline/stage_machine.h"
#include "node/proof/receipt_maker.h"
#include "proto/defect.h"

namespace hearth::node {
namespace {

// Prompt rows of one step: enough for full kernels, few enough that nobody's stream stalls.
constexpr std::uint32_t kPrefillRows = 128;
// Of a machine that its owner took, before the links of a pipeline that the coordinator keeps end.
constexpr Duration kFarewell = std::chrono::seconds(1);
constexpr Duration kTick = std::chrono::milliseconds(25);  // an owner that is not late
constexpr std::size_t kSelfChecks = 8;                     // that wait for one hash of the weights
constexpr char kOwnersMachine[] = "its owner has paused this machine";

// The first activation of a row, in its last bit.
void put_one_unit_off(StepBatch& batch) {
  const std::size_t row = batch.activations.size() / std::max<std::size_t>(batch.rows.size(), 1);
  for (std::size_t i = 0; row > 0 && i < batch.rows.size(); ++i) {
    if (batch.rows[i].position % kLieEvery == kLieAt) batch.activations[i * row] ^= std::byte{1};
  }
}

// The first row of this process that is there.
void flip_one_bit_once(StepBatch& batch) {
  static bool flipped = false;
  if (flipped || batch.activations.empty()) return;
  batch.activations[0] ^= std::byte{1};
  flipped = true;
}

Hello identity_of(const StageOptions& options) {
  Hello hello;
  hello.canonical = options.canonical_version;
  hello.node = options.node;
  return hello;
}

}  // namespace

std::unique_ptr<Stage> Stage::start(StageOptions options, const Clock& clock, Random& random,
                                    Transport& control, Transport& data, StageCompute& compute) {
  return std::make_unique<StageMachine>(std::move(options), clock, random, control, data, compute);
}

StageMachine::StageMachine(StageOptions options, const Clock& clock, Random& random,
                           Transport& control, Transport& data, StageCompute& compute)
    : options_(std::move(options)),
      clock_(clock),
      compute_(compute),
      control_(options_, data.address(), clock, random, control, *this),
      links_(identity_of(options_), clock, random, data, *this),
      timer_(clock.now()),
      beat_(clock.now()) {
  control.set_events(&control_);
  data.set_events(&links_);
  compute.set_events(this);
  if (options_.receipts != nullptr) {
    options_.receipts->set_send(
        [this](const control::v1::WorkerMessage& message) { control_.send(message); });
  }
  control_.dial();
}

StageMachine::~StageMachine() {
  if (options_.receipts != nullptr) options_.receipts->set_send(nullptr);
}

void StageMachine::on_timer() {
  count_lateness();
  control_.on_timer();
  links_.on_timer();
  if (serving_ && serving_->leave_by && clock_.now() >= *serving_->leave_by) fail(kOwnersMachine);
  start_steps();
  const Duration every = options_.check_weights_every;
  const bool loaded = serving_ && serving_->loaded;
  if (loaded && every > Duration{} && clock_.now() - weights_checked_ >= every) check_weights();
}

// A process that gets no processor does not hear what arrives, and its timer comes late: who
// arrives at any moment of a gap waits for half of it in the mean.
void StageMachine::count_lateness() {
  const TimePoint now = clock_.now();
  const double gap =
      std::chrono::duration<double>(now - std::exchange(timer_, now) - kTick).count();
  if (gap > 0.0) late_seconds_ += gap * gap / 2.0;
}

void StageMachine::check_weights() {
  if (!serving_ || !serving_->loaded) {
    spdlog::info("{}: no layers are loaded, so there are no weights to check", options_.node);
    return;
  }
  weights_checked_ = clock_.now();
  compute_.check_weights();
}

void StageMachine::on_weights_checked(Status status) {
  tell_self(status);
  if (status.ok()) {
    spdlog::info("{}: the weights still are what was loaded", options_.node);
    return;
  }
  if (status.error().code == ErrorCode::kUnavailable) return;  // unloaded meanwhile
  spdlog::error("{}: {}", options_.node, status.error().message);
  unload();  // the next assignment reads them anew
  fail("the weights were checked: " + status.error().message);
}

// --- an accused node ---

void StageMachine::look_at_self(SelfFound done) {
  if (self_checks_.size() >= kSelfChecks) return;  // as one that gives no answer
  self_checks_.push_back(std::move(done));
  compute_.check_weights();  // also those that are kept for the next assignment
}

void StageMachine::tell_self(const Status& weights) {
  if (self_checks_.empty()) return;
  const bool unloaded = !weights.ok() && weights.error().code == ErrorCode::kUnavailable;
  const Status kernels = options_.self_test ? options_.self_test() : ok_status();
  control::v1::SelfChecked found;
  found.set_weights_whole(weights.ok() || unloaded);
  found.set_self_test_passed(kernels.ok());
  if (!found.weights_whole()) found.set_what(weights.error().message);
  if (!kernels.ok()) found.set_what(kernels.error().message);
  for (const SelfFound& done : std::exchange(self_checks_, {})) done(found);
}

void StageMachine::on_accusation(const control::v1::Accusation& accusation) {
  if (options_.receipts == nullptr) return;
  spdlog::warn("{}: what went out of this stage in entry {} of the ledger is in dispute",
               options_.node, accusation.entry());
  control::v1::Accusation own = accusation;
  if (planted(SwarmDefect::kOneUnitContested)) own.clear_root();
  look_at_self([this, own = std::move(own)](const control::v1::SelfChecked& found) {
    options_.receipts->plead(own, found);
  });
}

void StageMachine::on_dispute(const control::v1::DisputeOrder& order) {
  if (options_.receipts != nullptr) options_.receipts->play(order);
}

void StageMachine::on_self_check(const control::v1::SelfCheck& check) {
  spdlog::warn("{}: this node gets no work until it has looked at itself: {}", options_.node,
               check.why());
  look_at_self([this, number = check.number()](const control::v1::SelfChecked& found) {
    control::v1::WorkerMessage message;
    *message.mutable_self_checked() = found;
    message.mutable_self_checked()->set_number(number);
    control_.send(message);
  });
}

// --- the owner ---

// The coordinator hears of it before a neighbour misses anything.
void StageMachine::set_away(std::optional<Away> away) {
  if (away == away_) return;
  away_ = std::move(away);
  control_.set_away(away_);
  if (away_ && !(away_->drain && serving_)) unload();
}

bool StageMachine::rests() const { return away_ && unloading_ == 0 && !(away_->drain && serving_); }

void StageMachine::unload() {
  ++unloading_;
  compute_.unload();
  if (options_.receipts != nullptr) options_.receipts->leave_game();
  if (!serving_ || serving_->leave_by) return;
  serving_->leave_by = clock_.now() + kFarewell;
  serving_->ready = false;
  serving_->loaded.reset();
  serving_->kv_tokens.clear();
}

// --- assignments ---

void StageMachine::on_assign(const control::v1::Assign& assign) {
  const Epoch epoch(assign.epoch());
  auto assignment = read_assignment(assign, options_.layers);
  if (!assignment.ok()) return report_failure(epoch, assignment.error().message);
  if (away_) return report_failure(epoch, kOwnersMachine);
  if (epoch <= newest_epoch_) {
    return report_failure(epoch, "epoch " + std::to_string(epoch.value) + " is not newer than " +
                                     std::to_string(newest_epoch_.value));
  }
  spdlog::info("{}: epoch {}: stage {} of {}, layers {}", options_.node, epoch.value,
               assignment->stage, assignment->stages, text_of(assignment->layers));
  newest_epoch_ = epoch;
  serving_.emplace();
  serving_->assignment = *assignment;
  if (assignment->is_first()) {
    serving_->batcher.emplace(BatcherOptions{epoch, assignment->batch_rows,
                                             std::min(kPrefillRows, assignment->batch_rows),
                                             assignment->batches_in_flight});
  }
  if (makes_receipts()) options_.receipts->begin(*assignment, *assignment->model);
  links_.begin(*assignment);
  compute_.load(epoch, assignment->layers, assignment->stage, assignment->batch_rows);
}

void StageMachine::on_loaded(Epoch epoch, Result<Loaded> loaded) {
  if (!serves(epoch)) return;
  if (!loaded.ok()) {
    if (loaded.error().code == ErrorCode::kNoCapacity) {
      const LayerRange layers = serving_->assignment.layers;
      no_room_ = Error{ErrorCode::kNoCapacity,
                       "no room for layers " + text_of(layers) + ": " + loaded.error().message};
    }
    return fail("loading failed: " + loaded.error().message);
  }
  serving_->loaded = std::move(*loaded);
  weights_checked_ = clock_.now();
  become_ready();
}

void StageMachine::on_linked() { become_ready(); }

void StageMachine::become_ready() {
  if (!serving_ || serving_->ready || !serving_->loaded || !links_.linked()) return;
  serving_->ready = true;
  control::v1::WorkerMessage message;
  auto& ready = *message.mutable_stage_ready();
  ready.set_epoch(serving_->assignment.epoch.value);
  ready.set_kv_pages(serving_->loaded->kv_pages);
  ready.set_kv_page_tokens(kernels::kPageTokens);
  ready.set_weight_bytes(serving_->loaded->weight_bytes);
  control_.send(message);
}

void StageMachine::on_unassign(Epoch epoch) {
  if (assigned(epoch)) stop();
}

void StageMachine::on_control_lost() {
  if (options_.receipts != nullptr) options_.receipts->forget();
  stop();
  compute_.forget();
}

void StageMachine::on_countersign(const control::v1::Countersign& message) {
  if (options_.receipts != nullptr) options_.receipts->countersign(message);
}

void StageMachine::on_seal_order(const control::v1::SealOrder& order) {
  if (options_.receipts != nullptr) options_.receipts->seal(order);
}

void StageMachine::on_open_order(const control::v1::OpenOrder& order) {
  if (options_.receipts != nullptr) options_.receipts->open(order);
}

void StageMachine::on_links_failed(const std::string& why, const std::string& peer) {
  fail(why, peer);
}

void StageMachine::stop() {
  if (!serving_) return;
  const Assignment assignment = std::move(serving_->assignment);
  const bool unloaded = serving_->leave_by.has_value();
  serving_.reset();
  links_.end();
  if (planted(SwarmDefect::kKvKept)) return;
  if (unloaded) return;
  if (away_) return unload();
  // The same range again: weights stay, sequences go. The answer finds no assignment.
  compute_.load(assignment.epoch, assignment.layers, assignment.stage, assignment.batch_rows);
}

void StageMachine::fail(const std::string& why, std::string peer) {
  if (!serving_) return;
  const Epoch epoch = serving_->assignment.epoch;
  stop();
  report_failure(epoch, why, peer);
}

void StageMachine::report_failure(Epoch epoch, const std::string& why, const std::string& peer) {
  spdlog::error("{}: epoch {} failed: {}", options_.node, epoch.value, why);
  control::v1::WorkerMessage message;
  message.mutable_stage_failed()->set_epoch(epoch.value);
  message.mutable_stage_failed()->set_error(decode_refused(as_bytes(why)));
  message.mutable_stage_failed()->set_peer(peer);
  control_.send(message);
}

void StageMachine::fill_heartbeat(control::v1::Heartbeat& heartbeat) {
  const TimePoint now = clock_.now();
  const double since = std::chrono::duration<double>(now - std::exchange(beat_, now)).count();
  if (since > 0.0) heartbeat.set_lateness(late_seconds_ / since);
  late_seconds_ = 0.0;
  Duration busy = busy_;
  if (outstanding_ > 0) busy += clock_.now() - busy_since_;
  std::uint64_t kv_tokens = 0;
  if (serving_) {
    heartbeat.set_epoch(serving_->assignment.epoch.value);
    for (const auto& [sequence, tokens] : serving_->kv_tokens) kv_tokens += tokens;
  }
  heartbeat.set_steps_total(steps_);
  heartbeat.set_rows_total(rows_);
  heartbeat.set_busy_seconds_total(std::chrono::duration<double>(busy).count());
  heartbeat.set_kv_tokens_used(kv_tokens);
  heartbeat.set_ring_steps_total(ring_steps_);
  heartbeat.set_ring_seconds_total(std::chrono::duration<double>(ring_time_).count());
  heartbeat.set_late_frames_total(late_frames());
  heartbeat.set_replayed_rows_total(replayed_rows_);
  if (options_.card) write_card(options_.card(), *heartbeat.mutable_card());
  if (options_.holding) write_holding(options_.holding(), *heartbeat.mutable_holding());
}

// --- measurements ---

// What is measured after this session has ended is said in the next one, which asks again.
void StageMachine::on_measure() {
  if (!options_.measure) return;
  options_.measure([this](const Measured& measured) {
    const StageRate& rate = measured.rate;
    control::v1::WorkerMessage message;
    auto& body = *message.mutable_measured();
    body.set_batch_rows(kRateRows);
    body.set_step_seconds(rate.step_seconds);
    body.set_layer_seconds(rate.layer.one);
    body.set_layer_batch_seconds(rate.layer.batch);
    body.set_head_seconds(rate.head.one);
    body.set_head_batch_seconds(rate.head.batch);
    body.set_memory_bytes(measured.memory_bytes);
    body.set_kv_budget_bytes(options_.kv_budget_bytes);
    control_.send(message);
  });
}

void StageMachine::on_probe(const control::v1::Probe& probe) {
  const std::string& node = probe.node();
  if (!options_.probe || node.size() > limits::kNodeNameBytes ||
      probe.address().size() > limits::kAddressBytes) {
    return;
  }
  options_.probe(node, probe.address(), [this, node](const Result<LinkRate>& rate) {
    control::v1::WorkerMessage message;
    auto& body = *message.mutable_probed();
    body.set_node(node);
    if (rate.ok()) {
      body.set_round_trip_seconds(rate->round_trip_seconds);
      body.set_to_bytes_per_second(rate->to_bytes_per_second);
      body.set_from_bytes_per_second(rate->from_bytes_per_second);
    } else {
      body.set_error(decode_refused(as_bytes(rate.error().message)));
    }
    control_.send(message);
  });
}

// --- frames in ---

void StageMachine::on_peer_frame(Peer from, Frame frame) {
  if (!serving_ || serving_->leave_by) {
    ++late_frames_;
    return;
  }
  const Status taken = take_frame(from, frame);
  if (!taken.ok()) {
    const char* peer = from == Peer::kRing ? "the previous stage" : "the coordinator";
    return fail(std::string("a bad frame from ") + peer + ": " + taken.error().message);
  }
  start_steps();
}

Status StageMachine::take_frame(Peer from, const Frame& frame) {
  REQUIRE(serving_->ready, "a frame came before this stage was ready");
  const bool first = serving_->assignment.is_first();
  if (from == Peer::kCoordinator) {
    if (frame.type == FrameType::kSubmit) return take_submit(frame);
    if (frame.type == FrameType::kCancel) return take_cancel(frame);
  } else if (first && frame.type == FrameType::kTokens) {
    return take_tokens(frame);
  } else if (!first && frame.type == FrameType::kBatch) {
    return take_batch(frame);
  }
  return Error::invalid("frame type " + std::to_string(static_cast<int>(frame.type)) +
                        " does not belong on this link");
}

bool StageMachine::is_late(Epoch epoch) {
  if (epoch >= serving_->assignment.epoch) return false;
  ++late_frames_;
  return true;
}

Status StageMachine::check_step(StepId step) {
  std::optional<StepId>& last = serving_->last_step;
  REQUIRE(!last || step.value == last->value + 1,
          "step " + std::to_string(step.value) + " follows step " + std::to_string(last->value));
  last = step;
  return ok_status();
}

Status StageMachine::take_batch(const Frame& frame) {
  TRY(StepBatch batch, decode_step_batch(frame.payload, serving_->loaded->shape));
  if (!planted(SwarmDefect::kStaleBatchTaken) && is_late(batch.epoch)) return ok_status();
  REQUIRE(serves(batch.epoch), "epoch " + std::to_string(batch.epoch.value) + " is not assigned");
  REQUIRE(batch.rows.size() <= serving_->assignment.batch_rows,
          "a batch has " + std::to_string(batch.rows.size()) + " rows; the limit is " +
              std::to_string(serving_->assignment.batch_rows));
  TRY_VOID(check_step(batch.step));
  const std::uint32_t begin = serving_->assignment.layers.begin;
  REQUIRE(batch.boundary == begin, "boundary is " + std::to_string(batch.boundary) +
                                       "; this stage begins at layer " + std::to_string(begin));
  const std::size_t held = serving_->computing + links_.queued(Peer::kRing);
  REQUIRE(
      held < serving_->assignment.batches_in_flight,
      "more steps are in flight than " + std::to_string(serving_->assignment.batches_in_flight));
  compute(std::move(batch));
  return ok_status();
}

Status StageMachine::take_tokens(const Frame& frame) {
  TRY(const StepTokens tokens, decode_step_tokens(frame.payload, serving_->loaded->shape));
  if (!planted(SwarmDefect::kStaleTokensTaken) && is_late(tokens.epoch)) return ok_status();
  TRY_VOID(check_step(tokens.step));
  return take_answer(tokens);
}

// Answers come in the order of the steps.
Status StageMachine::take_answer(const StepTokens& tokens) {
  TRY_VOID(serving_->batcher->on_tokens(tokens));
  ++ring_steps_;
  ring_time_ += clock_.now() - serving_->started.front();
  serving_->started.pop_front();
  return ok_status();
}

Status StageMachine::take_submit(const Frame& frame) {
  TRY(SubmitMessage submit, decode_submit(frame.payload, serving_->loaded->shape));
  if (is_late(submit.epoch)) return ok_status();
  REQUIRE(serving_->batcher->sequences() < limits::kRunningSequences,
          "more sequences were submitted than " + std::to_string(limits::kRunningSequences));
  return serving_->batcher->submit(std::move(submit));
}

Status StageMachine::take_cancel(const Frame& frame) {
  TRY(const CancelMessage cancel, decode_cancel(frame.payload));
  if (is_late(cancel.epoch)) return ok_status();
  REQUIRE(serves(cancel.epoch), "epoch " + std::to_string(cancel.epoch.value) + " is not assigned");
  for (const SequenceId sequence : cancel.sequences) serving_->batcher->cancel(sequence);
  return ok_status();
}

// --- steps ---

void StageMachine::start_steps() {
  if (starting_steps_) return;
  starting_steps_ = true;
  while (serving_ && serving_->ready && serving_->batcher) {
    // A coordinator that takes no tokens stops a pipeline of one stage, too.
    if (links_.queued(Peer::kCoordinator) >= serving_->assignment.batches_in_flight) break;
    std::optional<StepBatch> batch = serving_->batcher->next();
    if (!batch) break;
    serving_->started.push_back(clock_.now());
    compute(std::move(*batch));
  }
  starting_steps_ = false;
}

void StageMachine::compute(StepBatch batch) {
  ++serving_->computing;
  if (makes_receipts()) serving_->inputs.push_back(batch.activations);
  if (outstanding_++ == 0) busy_since_ = clock_.now();
  compute_.compute(std::move(batch));
}

void StageMachine::on_computed(StepBatch batch, StepResult result, Status status) {
  if (--outstanding_ == 0) busy_ += clock_.now() - busy_since_;
  if (!serves(batch.epoch)) {
    ++late_frames_;
    return;
  }
  --serving_->computing;
  Bytes input;
  const bool receipts = makes_receipts();
  if (receipts) {
    input = std::move(serving_->inputs.front());
    serving_->inputs.pop_front();
  }
  if (!status.ok()) return fail("a step broke the contract: " + status.error().message);
  if (planted(SwarmDefect::kOneUnitOff)) put_one_unit_off(batch);
  if (planted(SwarmDefect::kOneUnitOnce) || planted(SwarmDefect::kOneUnitContested)) {
    flip_one_bit_once(batch);
  }
  count_step(batch, result);
  if (!result.hashes.empty()) report_hashes(result);
  if (!serving_) return;  // the coordinator was lost while telling it
  std::vector<SampledToken> drawn;
  if (receipts) drawn = result.tokens;
  for (SampledToken& one : drawn) one.top.clear();
  batch.boundary = serving_->assignment.layers.end;
  pass_on(batch, std::move(result));
  // Behind what others wait for.
  if (receipts) options_.receipts->step(std::move(batch), std::move(input), std::move(drawn));
}

void StageMachine::pass_on(const StepBatch& batch, StepResult result) {
  if (!serving_->assignment.is_last()) {
    links_.send(Peer::kRing, {FrameType::kBatch, encode(batch)});
    return;
  }
  const Status answered =
      answer({batch.epoch, batch.step, std::move(result.tokens), std::move(result.released)});
  if (!answered.ok()) fail(answered.error().message);
}

// The first stage before the coordinator: the next step waits for it.
Status StageMachine::answer(StepTokens tokens) {
  const Bytes payload = encode(tokens);
  if (!serving_->batcher) links_.send(Peer::kRing, {FrameType::kTokens, payload});
  if (serving_) links_.send(Peer::kCoordinator, {FrameType::kTokens, payload});
  if (!serving_ || !serving_->batcher) return ok_status();
  TRY_VOID(take_answer(tokens));
  start_steps();
  return ok_status();
}

void StageMachine::count_step(const StepBatch& batch, const StepResult& result) {
  ++steps_;
  rows_ += batch.rows.size() - result.replayed;
  replayed_rows_ += result.replayed;
  for (const auto& [sequence, length] : batch.truncates) {
    std::uint64_t& tokens = serving_->kv_tokens[sequence];
    tokens = std::min<std::uint64_t>(tokens, length);
  }
  for (const BatchRow& row : batch.rows) {
    if (!row.failed()) ++serving_->kv_tokens[row.sequence];
  }
  for (const SequenceId sequence : result.released) serving_->kv_tokens.erase(sequence);
}

void StageMachine::report_hashes(const StepResult& result) {
  control::v1::WorkerMessage message;
  auto& hashes = *message.mutable_step_hashes();
  const Assignment& assignment = serving_->assignment;
  hashes.set_epoch(assignment.epoch.value);
  hashes.set_stage(assignment.stage);
  hashes.mutable_layers()->set_begin(assignment.layers.begin);
  hashes.mutable_layers()->set_end(assignment.layers.end);
  for (const RowHash& hash : result.hashes) {
    auto& row = *hashes.add_rows();
    row.set_sequence(hash.sequence.value);
    row.set_position(hash.position);
    row.set_in(hash.in.bytes.data(), hash.in.bytes.size());
    row.set_out(hash.out.bytes.data(), hash.out.bytes.size());
  }
  control_.send(message);
}

}  // namespace hearth::node
