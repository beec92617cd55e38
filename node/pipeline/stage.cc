#include "node/pipeline/stage.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "kernels/canonical.h"
#include "node/control/hold_messages.h"
#include "node/proof/receipt_maker.h"
#include "node/runner/draft_ask.h"
#include "proto/frame.h"

namespace hearth::node {
namespace {

// Prompt rows of one step: enough for full kernels, few enough that no other stream stalls.
constexpr std::uint32_t kPrefillRows = 128;
// How long a paused machine keeps the links of a pipeline that the coordinator has not ended.
constexpr Duration kFarewell = std::chrono::seconds(1);
constexpr char kOwnersMachine[] = "its owner has paused this machine";

Hello identity_of(const StageOptions& options) {
  Hello hello;
  hello.canonical = options.canonical_version;
  hello.node = options.node;
  return hello;
}

control::v1::WorkerMessage hashes_message(const Assignment& assignment, const StepResult& result) {
  control::v1::WorkerMessage message;
  auto& hashes = *message.mutable_step_hashes();
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
  return message;
}

// A frame of an older epoch is dropped and counted; true when this one is.
bool is_late(const Assignment& assignment, StageFigures& figures, Epoch epoch) {
  if (epoch >= assignment.epoch) return false;
  figures.count_late_frame();
  return true;
}

std::string rank_text(const Assignment& assignment) {
  if (assignment.group.empty()) return "";
  return message_of(", rank ", assignment.rank + 1, " of ", assignment.group.size());
}

}  // namespace

void StageCompute::load_rank(const Assignment& /*assignment*/) {
  INVARIANT(false, "only a worker with a rank's address gets a group");
}

void StageCompute::leave() { INVARIANT(false, "only a group that was loaded is left"); }

Stage::Stage(StageOptions options, const Clock& clock, Random& random, Transport& control,
             Transport& data, StageCompute& compute)
    : options_(std::move(options)),
      clock_(clock),
      compute_(compute),
      proof_(options_, compute,
             [this](const control::v1::WorkerMessage& message) { control_.send(message); }),
      control_(options_, data.address(), clock, random, control, *this),
      links_(identity_of(options_), clock, random, data, *this),
      figures_(clock) {
  control.set_events(&control_);
  data.set_events(&links_);
  compute.set_events(this);
  control_.dial();
}

void Stage::on_timer() {
  figures_.on_timer();
  control_.on_timer();
  links_.on_timer();
  if (serving_ && serving_->leave_by && clock_.now() >= *serving_->leave_by) fail(kOwnersMachine);
  if (serving_ && serving_->waits_too_long(clock_.now())) serving_->stop_waiting(clock_.now());
  start_steps();
  const Duration every = options_.check_weights_every;
  const bool loaded = serving_ && serving_->loaded;
  if (loaded && every > Duration{} && clock_.now() - weights_checked_ >= every) check_weights();
}

void Stage::check_weights() {
  if (!serving_ || !serving_->loaded) {
    spdlog::info("{}: no layers are loaded, so there are no weights to check", options_.node);
    return;
  }
  weights_checked_ = clock_.now();
  compute_.check_weights();
}

void Stage::on_weights_checked(Status status) {
  proof_.on_weights_checked(status);
  if (status.ok()) {
    spdlog::info("{}: the weights have not changed since loading", options_.node);
    return;
  }
  if (status.error().code == ErrorCode::kUnavailable) return;  // unloaded meanwhile
  spdlog::error("{}: {}", options_.node, status.error().message);
  unload();  // the next assignment reads them anew
  fail("the check of the weights failed: " + status.error().message);
}

// --- the owner ---

// The coordinator learns of it before a neighbour notices the loss.
void Stage::set_away(std::optional<Away> away) {
  if (away == away_) return;
  away_ = std::move(away);
  control_.set_away(away_);
  if (away_ && !(away_->drain && serving_)) unload();
}

void Stage::unload() {
  ++unloading_;
  compute_.unload();
  if (options_.draft_model != nullptr) {
    ++unloading_;
    options_.draft_model->unload([this] { --unloading_; });
  }
  if (!serving_ || serving_->leave_by) return;
  serving_->leave_by = clock_.now() + kFarewell;
  serving_->ready = false;
  serving_->loaded.reset();
  serving_->kv_tokens.clear();
}

// --- assignments ---

void Stage::on_assign(const control::v1::Assign& assign) {
  const Epoch epoch(assign.epoch());
  auto assignment = read_assignment(assign, options_.layers);
  if (!assignment.ok()) return report_failure(epoch, assignment.error().message);
  if (away_) return report_failure(epoch, kOwnersMachine);
  if (!assignment->group.empty() && control_.rank_address().empty()) {
    return report_failure(epoch,
                          "this worker computes no stage in a group: it has a GPU, or a "
                          "model whose family is not computed in groups");
  }
  if (epoch <= newest_epoch_) {
    return report_failure(
        epoch, message_of("epoch ", epoch.value, " is not newer than ", newest_epoch_.value));
  }
  spdlog::info("{}: epoch {}: stage {} of {}, layers {}{}", options_.node, epoch.value,
               assignment->stage + 1, assignment->stages, text_of(assignment->layers),
               rank_text(*assignment));
  if (options_.on_layers) options_.on_layers(assignment->layers, false);
  newest_epoch_ = epoch;
  serving_.emplace();
  serving_->assignment = *assignment;
  if (assignment->is_first() && assignment->leads()) {
    BatcherOptions batching{epoch,
                            assignment->batch_rows,
                            std::min(kPrefillRows, assignment->batch_rows),
                            assignment->batches_in_flight,
                            options_.draft_rows,
                            options_.draft,
                            assignment->itl_target};
    batching.draft_model =
        options_.draft_model != nullptr && assignment->protocol >= kProtocolDraftModel;
    batching.times = assignment->times;
    serving_->batcher.emplace(batching);
  } else if (options_.draft_model != nullptr) {
    options_.draft_model->unload([] {});
  }
  if (options_.receipts != nullptr && serving_->has_receipts())
    options_.receipts->begin(*assignment, *assignment->model);
  links_.begin(*assignment);
  if (!assignment->group.empty()) return compute_.load_rank(*assignment);
  compute_.load(epoch, assignment->layers, assignment->stage, assignment->batch_rows);
}

void Stage::on_loaded(Epoch epoch, Result<Loaded> loaded) {
  if (!serves(epoch)) return;
  if (!loaded.ok()) {
    if (loaded.error().code == ErrorCode::kNoCapacity) {
      const LayerRange layers = serving_->assignment.layers;
      no_room_ = Error::of(ErrorCode::kNoCapacity, "no room for layers ", text_of(layers), ": ",
                           loaded.error().message);
    }
    return fail("loading failed: " + loaded.error().message);
  }
  serving_->loaded = std::move(*loaded);
  weights_checked_ = clock_.now();
  become_ready();
}

void Stage::become_ready() {
  if (!serving_ || serving_->ready || !serving_->loaded || !links_.linked()) return;
  serving_->ready = true;
  spdlog::info("{}: serves layers {}", options_.node, text_of(serving_->assignment.layers));
  if (options_.on_layers) options_.on_layers(serving_->assignment.layers, true);
  control::v1::WorkerMessage message;
  auto& ready = *message.mutable_stage_ready();
  ready.set_epoch(serving_->assignment.epoch.value);
  ready.set_kv_pages(serving_->loaded->kv_pages);
  ready.set_kv_page_tokens(kernels::kPageTokens);
  ready.set_weight_bytes(serving_->loaded->weight_bytes);
  if (serving_->loaded->shape.keeps_state) ready.set_sequences(serving_->loaded->sequences);
  control_.send(message);
}

void Stage::on_unassign(Epoch epoch) {
  if (serving_ && serving_->assignment.epoch == epoch) stop();
}

void Stage::on_control_lost() {
  proof_.on_control_lost();
  stop();
  compute_.forget();
}

void Stage::stop() {
  if (!serving_) return;
  const Assignment assignment = std::move(serving_->assignment);
  const bool unloaded = serving_->leave_by.has_value();
  serving_.reset();
  links_.end();
  if (unloaded) return;
  if (away_) return unload();
  if (!assignment.group.empty()) return compute_.leave();
  // The same range again: weights stay, sequences go. The answer finds no assignment.
  compute_.load(assignment.epoch, assignment.layers, assignment.stage, assignment.batch_rows);
}

void Stage::fail(const std::string& why, std::string peer, bool unreached) {
  if (!serving_) return;
  const Epoch epoch = serving_->assignment.epoch;
  stop();
  report_failure(epoch, why, peer, unreached);
}

void Stage::report_failure(Epoch epoch, const std::string& why, const std::string& peer,
                           bool unreached) {
  spdlog::error("{}: epoch {} failed: {}", options_.node, epoch.value, why);
  control::v1::WorkerMessage message;
  message.mutable_stage_failed()->set_epoch(epoch.value);
  message.mutable_stage_failed()->set_error(decode_refused(as_bytes(why)));
  message.mutable_stage_failed()->set_peer(peer);
  message.mutable_stage_failed()->set_unreached(unreached);
  control_.send(message);
}

void Stage::fill_heartbeat(control::v1::Heartbeat& heartbeat) {
  figures_.fill(heartbeat);
  heartbeat.set_late_frames_total(late_frames());
  if (serving_) {
    heartbeat.set_epoch(serving_->assignment.epoch.value);
    heartbeat.set_kv_tokens_used(serving_->kv_tokens_used());
    heartbeat.set_kv_pages_kept(serving_->kv_pages_kept);
  }
  if (options_.card) write_card(options_.card(), *heartbeat.mutable_card());
  if (options_.energy) {
    if (const auto joules = options_.energy()) heartbeat.set_energy_joules_total(*joules);
  }
  if (options_.holding) write_holding(options_.holding(), *heartbeat.mutable_holding());
}

// --- frames in ---

void Stage::on_peer_frame(Peer from, Frame frame) {
  if (!serving_ || serving_->leave_by) {
    figures_.count_late_frame();
    return;
  }
  const Status taken = take_frame(from, frame);
  if (!taken.ok()) {
    const char* peer = from == Peer::kRing ? "the previous stage" : "the coordinator";
    return fail(std::string("a bad frame from ") + peer + ": " + taken.error().message);
  }
  start_steps();
}

Status Stage::take_frame(Peer from, const Frame& frame) {
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
  return Error::invalid("frame type ", static_cast<int>(frame.type),
                        " does not belong on this link");
}

Status Stage::Serving::check_step(StepId step) {
  REQUIRE(!last_step || step.value == last_step->value + 1, "step ", step.value,
          " came after step ", last_step->value, "; steps are numbered without a gap");
  last_step = step;
  return ok_status();
}

std::uint64_t Stage::Serving::kv_tokens_used() const {
  std::uint64_t all = 0;
  for (const auto& [sequence, tokens] : kv_tokens) all += tokens;
  return all;
}

Duration Stage::Serving::end_wait(TimePoint now) {
  const auto since = std::exchange(waits_since, std::nullopt);
  if (!since) return {};
  const Duration took = now - std::max(*since, answered);
  answered = now;
  return took;
}

bool Stage::Serving::waits_too_long(TimePoint now) const {
  if (!waits_since) return false;
  const std::optional<Duration> patience = batcher->patience();
  return patience && now - *waits_since >= *patience;
}

Status Stage::take_batch(const Frame& frame) {
  TRY(StepBatch batch, decode_step_batch(frame.payload, serving_->loaded->shape));
  if (is_late(serving_->assignment, figures_, batch.epoch)) return ok_status();
  REQUIRE(serves(batch.epoch), "epoch ", batch.epoch.value, " is not assigned");
  REQUIRE(batch.rows.size() <= serving_->assignment.batch_rows, "a batch has ", batch.rows.size(),
          " rows; the limit is ", serving_->assignment.batch_rows);
  TRY_VOID(serving_->check_step(batch.step));
  const std::uint32_t begin = serving_->assignment.layers.begin;
  REQUIRE(batch.boundary == begin, "boundary is ", batch.boundary, "; this stage begins at layer ",
          begin);
  const std::size_t held = serving_->computing + links_.queued(Peer::kRing);
  REQUIRE(held < serving_->assignment.batches_in_flight, "more steps are in flight than ",
          serving_->assignment.batches_in_flight);
  compute(std::move(batch));
  return ok_status();
}

Status Stage::take_tokens(const Frame& frame) {
  TRY(const StepTokens tokens, decode_step_tokens(frame.payload, serving_->loaded->shape));
  if (is_late(serving_->assignment, figures_, tokens.epoch)) return ok_status();
  TRY_VOID(serving_->check_step(tokens.step));
  return take_answer(tokens);
}

// Answers come in the order of the steps.
Status Stage::take_answer(const StepTokens& tokens) {
  const TimePoint now = clock_.now();
  const TimePoint begun = serving_->started.empty() ? now : serving_->started.front();
  // Steps in a row take the time between their answers, which is the slowest stage's.
  TRY_VOID(serving_->batcher->on_tokens(tokens, now - std::max(begun, serving_->answered)));
  INVARIANT(!serving_->started.empty(), "the batcher accepts only answers to its own steps");
  figures_.count_round(now - begun);
  serving_->started.pop_front();
  serving_->answered = now;
  return ok_status();
}

Status Stage::take_submit(const Frame& frame) {
  TRY(SubmitMessage submit, decode_submit(frame.payload, serving_->loaded->shape));
  if (is_late(serving_->assignment, figures_, submit.epoch)) return ok_status();
  REQUIRE(serving_->batcher->sequences() < limits::kRunningSequences,
          "more sequences were submitted than ", limits::kRunningSequences);
  // Drafts are for a lone sequence; the model may take long.
  serving_->stop_waiting(clock_.now());
  return serving_->batcher->submit(std::move(submit));
}

Status Stage::take_cancel(const Frame& frame) {
  TRY(const CancelMessage cancel, decode_cancel(frame.payload));
  if (is_late(serving_->assignment, figures_, cancel.epoch)) return ok_status();
  REQUIRE(serves(cancel.epoch), "epoch ", cancel.epoch.value, " is not assigned");
  for (const SequenceId sequence : cancel.sequences) serving_->batcher->cancel(sequence);
  return ok_status();
}

// --- steps ---

void Stage::start_steps() {
  if (starting_steps_) return;
  starting_steps_ = true;
  while (serving_ && serving_->ready && serving_->batcher) {
    // A coordinator that takes no tokens stops a pipeline of one stage, too.
    if (links_.queued(Peer::kCoordinator) >= serving_->assignment.batches_in_flight) break;
    if (std::optional<DraftAsk> ask = serving_->batcher->next_ask()) {
      INVARIANT(options_.draft_model != nullptr, "a batcher asks only if there is a draft model");
      const TimePoint asked = clock_.now();
      if (ask->waited_for) serving_->waits_since = asked;
      const auto done = [this, asked, epoch = serving_->assignment.epoch](DraftAnswer answer) {
        if (!serves(epoch)) return;
        const TimePoint now = clock_.now();
        serving_->batcher->on_drafts(std::move(answer), now - asked, serving_->end_wait(now));
        start_steps();
      };
      options_.draft_model->ask(*std::move(ask), done);
    }
    std::optional<StepBatch> batch = serving_->batcher->next();
    if (!batch) break;
    serving_->started.push_back(clock_.now());
    compute(std::move(*batch));
  }
  starting_steps_ = false;
}

void Stage::compute(StepBatch batch) {
  ++serving_->computing;
  INVARIANT(serving_->computing <= serving_->assignment.batches_in_flight,
            "no more steps are computed than may be in flight");
  figures_.step_begins();
  compute_.compute(std::move(batch));
}

void Stage::on_computed(StepBatch batch, StepResult result, Status status) {
  figures_.step_ends();
  if (!serves(batch.epoch)) {
    figures_.count_late_frame();
    return;
  }
  INVARIANT(serving_->computing > 0, "a step that comes back was given out");
  --serving_->computing;
  const bool receipts = options_.receipts != nullptr && serving_->has_receipts();
  Bytes input = std::move(result.input);
  if (!status.ok()) return fail("a step broke the contract: " + status.error().message);
  count_step(batch, result);
  if (!result.hashes.empty()) control_.send(hashes_message(serving_->assignment, result));
  if (!serving_) return;  // the coordinator was lost while telling it
  std::vector<SampledToken> drawn;
  if (receipts) drawn = result.tokens;
  for (SampledToken& one : drawn) one.top.clear();
  batch.boundary = serving_->assignment.layers.end;
  pass_on(batch, std::move(result));
  // After the work that other nodes wait for.
  if (receipts) options_.receipts->step(std::move(batch), std::move(input), std::move(drawn));
}

void Stage::pass_on(const StepBatch& batch, StepResult result) {
  if (!serving_->assignment.is_last()) {
    links_.send(Peer::kRing, {FrameType::kBatch, encode(batch)});
    return;
  }
  const Status answered =
      answer({batch.epoch, batch.step, std::move(result.tokens), std::move(result.released),
              std::move(result.scores), std::move(result.cached), std::move(result.drafts),
              std::move(result.embeddings)});
  if (!answered.ok()) fail(answered.error().message);
}

// The first stage before the coordinator: the next step waits for it.
Status Stage::answer(StepTokens tokens) {
  Bytes payload = encode(tokens);
  if (!serving_->batcher) links_.send(Peer::kRing, {FrameType::kTokens, payload});
  if (serving_) links_.send(Peer::kCoordinator, {FrameType::kTokens, std::move(payload)});
  if (!serving_ || !serving_->batcher) return ok_status();
  TRY_VOID(take_answer(tokens));
  start_steps();
  return ok_status();
}

void Stage::on_followed(const StepBatch& batch, const StepResult& result, Duration took) {
  if (!serves(batch.epoch)) return;
  figures_.count_followed(took);
  count_step(batch, result);
}

void Stage::on_group_lost(Epoch epoch, const std::string& why, const std::string& peer) {
  if (serves(epoch)) fail(why, peer);
}

void Stage::count_step(const StepBatch& batch, const StepResult& result) {
  INVARIANT(result.replayed <= batch.rows.size(), "only rows of the batch are replayed");
  figures_.count_rows(batch.rows.size() - result.replayed, result.replayed);
  serving_->kv_pages_kept = result.kv_pages_kept;
  for (const auto& [sequence, length] : batch.truncates) {
    std::uint64_t& tokens = serving_->kv_tokens[sequence];
    tokens = std::min<std::uint64_t>(tokens, length);
  }
  for (const BatchRow& row : batch.rows) {
    if (!row.failed()) ++serving_->kv_tokens[row.sequence];
  }
  for (const SequenceId sequence : result.released) serving_->kv_tokens.erase(sequence);
}

}  // namespace hearth::node
