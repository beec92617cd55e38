#include "coordinator/machine/model_switch.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "coordinator/machine/passed_events.h"

namespace hearth::coordinator {
namespace {

// The ids of sequences that wait here; no coordinator comes to them.
constexpr std::uint64_t kHeldIds = std::uint64_t{1} << 63;

void add_totals(SwarmStatus& to, const SwarmStatus& from) {
  to.admitted_total += from.admitted_total;
  to.resumed_total += from.resumed_total;
  to.finished_stop_total += from.finished_stop_total;
  to.finished_length_total += from.finished_length_total;
  to.finished_error_total += from.finished_error_total;
  to.cancelled_total += from.cancelled_total;
  to.prompt_tokens_total += from.prompt_tokens_total;
  to.generation_tokens_total += from.generation_tokens_total;
  to.prefix_queries_total += from.prefix_queries_total;
  to.prefix_hits_total += from.prefix_hits_total;
  for (std::size_t kind = 0; kind < kDraftKinds; ++kind) {
    to.drafted_total[kind] += from.drafted_total[kind];
    to.accepted_total[kind] += from.accepted_total[kind];
  }
  to.late_frames_total += from.late_frames_total;
}

}  // namespace

// One sequence that waits for its model, and then stands between its owner and the coordinator.
class ModelSwitch::Held final : public PassedEvents, public std::enable_shared_from_this<Held> {
 public:
  Held(ModelSwitch& all, SequenceId id, Submission submission)
      : PassedEvents(std::move(submission.events)),
        all_(all),
        id_(id),
        request(std::move(submission.request)) {}

  void on_token(const SampledToken& token) override {
    const auto self = shared_from_this();
    if (token.finish != FinishReason::kNone) forget();
    PassedEvents::on_token(token);
  }
  void on_hashes(std::vector<RowHash> hashes) override {
    const auto self = shared_from_this();
    if (stopped) forget();
    PassedEvents::on_hashes(std::move(hashes));
  }
  void on_error(const Error& error) override {
    const auto self = shared_from_this();
    forget();
    PassedEvents::on_error(error);
  }

  void forget() {
    over = true;
    all_.held_.erase(id_);
  }

 private:
  ModelSwitch& all_;
  const SequenceId id_;

 public:
  GenerateRequest request;            // until it is submitted
  std::optional<SequenceId> running;  // the coordinator's id
  bool over = false;                  // ended, or cancelled
  bool stopped = false;               // hashes are its last event
};

ModelSwitch::ModelSwitch(Options options, const Clock& clock)
    : options_(std::move(options)), clock_(clock), entries_(options_.models.size()) {
  INVARIANT(!entries_.empty() && entries_.size() <= limits::kServedModels,
            "a server has a model, and not more than the limit");
  load(0);
}

ModelSwitch::~ModelSwitch() = default;

void ModelSwitch::on_timer() {
  coordinator_->on_timer();
  if (is_loading_) {
    watch_loading();
  } else {
    take_turns();
  }
  tell_progress();
}

// --- requests ---

SubmitAnswer ModelSwitch::submit(std::vector<Submission> sequences) {
  INVARIANT(!sequences.empty(), "a submission has a sequence");
  const std::uint32_t model = sequences.front().request.model;
  INVARIANT(model < entries_.size(), "a request is for one of the server's models");
  const bool now = model == current_ && !is_loading_ && !is_closing_;
  return now ? coordinator_->submit(std::move(sequences)) : hold(model, std::move(sequences));
}

SubmitAnswer ModelSwitch::hold(std::uint32_t model, std::vector<Submission> sequences) {
  SubmitAnswer answer;
  answer.bounds.positions = options_.models[model].context;
  answer.bounds.waiting = static_cast<std::uint32_t>(waiting());
  for (Submission& one : sequences) {
    const std::size_t prompt = one.request.prompt.size();
    const std::uint32_t positions = answer.bounds.positions;
    const auto left = static_cast<std::uint32_t>(positions > prompt ? positions - prompt : 1);
    std::uint32_t& length = one.request.sampling.max_tokens;
    if (one.request.may_shorten) length = std::min(length, left);
    answer.max_tokens.push_back(length);
  }
  if (const Status taken = check_hold(model, sequences); !taken.ok()) {
    answer.sequences = taken.error();
    return answer;
  }
  Waiting group;
  group.owner = sequences.front().request.policy.owner;
  group.since = clock_.now();
  std::vector<SequenceId> ids;
  for (Submission& one : sequences) {
    const SequenceId id(kHeldIds + next_held_++);
    ids.push_back(id);
    group.sequences.push_back(std::make_shared<Held>(*this, id, std::move(one)));
    held_.emplace(id, group.sequences.back());
  }
  entries_[model].waiting.push_back(std::move(group));
  answer.sequences = std::move(ids);
  return answer;
}

Status ModelSwitch::check_hold(std::uint32_t model, const std::vector<Submission>& sequences) {
  const std::string& name = options_.models[model].name;
  const Entry& entry = entries_[model];
  if (clock_.now() < entry.failed_until) return Error{ErrorCode::kUnavailable, entry.why_failed};
  const bool is_first = model != current_ && entry.waiting.empty();
  if (is_first && options_.why_no_room) {
    const std::string why = options_.why_no_room(model, coordinator_->status());
    if (!why.empty()) {
      return Error::of(ErrorCode::kUnavailable, "the model '", name, "' cannot be loaded: ", why);
    }
  }
  const std::string& owner = sequences.front().request.policy.owner;
  const std::size_t all = waiting();
  const std::size_t own = waiting_of(owner);
  const std::size_t room =
      limits::kWaitingSequences - std::min<std::size_t>(all, limits::kWaitingSequences);
  if (room >= sequences.size() && own + sequences.size() <= 2 * room) return ok_status();
  return Error::of(ErrorCode::kNoCapacity,
                   "the queue for models that are not loaded is full: ", all, " of ",
                   limits::kWaitingSequences, " sequences wait, ", own,
                   " of them of this API key, which may have at most twice the free places; the "
                   "request is for the model '",
                   name, "'; retry later");
}

void ModelSwitch::cancel(SequenceId sequence) {
  const auto found = held_.find(sequence);
  if (found == held_.end()) return coordinator_->cancel(sequence);
  const std::shared_ptr<Held> held = found->second;
  held->forget();
  if (held->running) return coordinator_->cancel(*held->running);
  for (Entry& entry : entries_) {
    for (Waiting& group : entry.waiting) std::erase(group.sequences, held);
    std::erase_if(entry.waiting, [](const Waiting& group) { return group.sequences.empty(); });
  }
}

void ModelSwitch::stop(SequenceId sequence, Position position) {
  const auto found = held_.find(sequence);
  if (found == held_.end()) return coordinator_->stop(sequence, position);
  if (!found->second->running) return cancel(sequence);  // it has no token yet
  found->second->stopped = true;
  coordinator_->stop(*found->second->running, position);
}

// --- turns ---

void ModelSwitch::load(std::uint32_t model) {
  Next begin{1, 1};
  if (coordinator_ != nullptr) {
    INVARIANT(model != current_, "another model takes the place of the current one");
    spdlog::info("unloading the model {} and loading {}", options_.models[current_].name,
                 options_.models[model].name);
    coordinator_->retire();
    begin = coordinator_->next();
    add_totals(totals_, coordinator_->status());
    coordinator_.reset();
  }
  current_ = model;
  is_loading_ = true;
  is_closing_ = false;
  load_began_ = changed_at_ = clock_.now();
  signs_ = {};
  loading_ = {options_.models[model].name, true};
  coordinator_ = options_.load(model, begin);
  INVARIANT(coordinator_ != nullptr, "a model has a coordinator");
  if (!roster_.empty()) coordinator_->publish_roster(roster_);
}

void ModelSwitch::watch_loading() {
  const TimePoint now = clock_.now();
  const SwarmStatus status = coordinator_->status();
  if (status.ready) {
    is_loading_ = false;
    served_ = current_;
    turn_until_ = now + std::clamp(now - load_began_, kLeastTurn, kMostTurn);
    return release(current_);
  }
  loading_ = {options_.models[current_].name, true};
  for (const NodeStatus& node : status.nodes) {
    if (node.state == "lost") continue;
    ++loading_.workers;
    if (node.partial) {
      loading_.bytes += node.held_bytes;
      loading_.bytes_total += node.held_total;
    }
  }
  const std::uint64_t hashed = options_.hashed ? options_.hashed() : 0;
  Signs signs{loading_.workers, loading_.bytes, hashed, status.missing};
  if (signs != signs_) changed_at_ = now;
  signs_ = std::move(signs);
  const bool wanted = !entries_[current_].waiting.empty();
  const std::optional<std::uint32_t> other = next_model();
  // No request waits for it any more.
  if (!wanted && other && coordinator_->wind_down(true)) return load(*other);
  const Duration patience = status.may_come ? kLoadPatience : kIdlePatience;
  if (wanted && now - changed_at_ >= patience) fail_loading(status.missing);
}

void ModelSwitch::fail_loading(const std::string& why) {
  Entry& entry = entries_[current_];
  entry.why_failed =
      "the model '" + options_.models[current_].name + "' could not be loaded: " + why;
  entry.failed_until = clock_.now() + kFailedFor;
  changed_at_ = clock_.now();
  spdlog::error("{}", entry.why_failed);
  const std::deque<Waiting> waiting = std::exchange(entry.waiting, {});
  const Error error{ErrorCode::kUnavailable, entry.why_failed};
  const std::optional<std::uint32_t> other = next_model();
  if (other) {
    load(*other);
  } else if (served_ && *served_ != current_) {
    load(*served_);
  }
  for (const Waiting& group : waiting) {
    for (const auto& held : group.sequences) {
      if (!held->over) held->on_error(error);
    }
  }
}

void ModelSwitch::take_turns() {
  const std::optional<std::uint32_t> other = next_model();
  if (!other) {
    if (!std::exchange(is_closing_, false)) return;
    coordinator_->wind_down(false);
    return release(current_);
  }
  if (clock_.now() < turn_until_) return;
  is_closing_ = true;
  if (coordinator_->wind_down(true)) load(*other);
}

// In the order of arrival: requests within this queue's limits are within the scheduler's. It does
// not report whether their answers can be verified, because the auditing pipelines may come a
// moment later.
void ModelSwitch::release(std::uint32_t model) {
  INVARIANT(model == current_ && !is_loading_ && !is_closing_, "it is this model's turn");
  const std::deque<Waiting> waiting = std::exchange(entries_[model].waiting, {});
  for (const Waiting& group : waiting) {
    std::vector<Submission> sequences;
    std::vector<std::shared_ptr<Held>> owners;
    for (const auto& held : group.sequences) {
      if (held->over) continue;  // cancelled by the owner of one before it
      sequences.push_back({std::exchange(held->request, {}), held});
      owners.push_back(held);
    }
    if (sequences.empty()) continue;
    const SubmitAnswer answer = coordinator_->submit(std::move(sequences));
    for (std::size_t i = 0; i < owners.size(); ++i) {
      const std::shared_ptr<Held>& held = owners[i];
      if (!answer.sequences.ok()) {
        if (!held->over) held->on_error(answer.sequences.error());
        continue;
      }
      held->running = (*answer.sequences)[i];
      if (held->over) coordinator_->cancel(*held->running);
    }
  }
}

// --- what is told ---

LoadProgress ModelSwitch::progress_of(std::uint32_t model) const {
  if (model == current_ && is_loading_) return loading_;
  return {options_.models[model].name};
}

void ModelSwitch::tell_progress() {
  const TimePoint now = clock_.now();
  std::vector<std::pair<std::shared_ptr<Held>, LoadProgress>> tell;  // who hears it may cancel
  for (std::uint32_t model = 0; model < entries_.size(); ++model) {
    for (Waiting& group : entries_[model].waiting) {
      LoadProgress progress = progress_of(model);
      if (group.told && (*group.told == progress || now - group.told_at < kTellEvery)) continue;
      for (const auto& held : group.sequences) tell.emplace_back(held, progress);
      group.told = std::move(progress);
      group.told_at = now;
    }
  }
  for (const auto& [held, progress] : tell) {
    if (!held->over) held->on_loading(progress);
  }
}

std::optional<std::uint32_t> ModelSwitch::next_model() const {
  std::optional<std::uint32_t> found;
  for (std::uint32_t model = 0; model < entries_.size(); ++model) {
    if (model == current_ || entries_[model].waiting.empty()) continue;
    const TimePoint since = entries_[model].waiting.front().since;
    if (!found || since < entries_[*found].waiting.front().since) found = model;
  }
  return found;
}

std::size_t ModelSwitch::waiting() const {
  std::size_t sum = 0;
  for (const Entry& entry : entries_) {
    for (const Waiting& group : entry.waiting) sum += group.sequences.size();
  }
  return sum;
}

std::size_t ModelSwitch::waiting_of(const std::string& owner) const {
  std::size_t sum = 0;
  for (const Entry& entry : entries_) {
    for (const Waiting& group : entry.waiting) {
      if (group.owner == owner) sum += group.sequences.size();
    }
  }
  return sum;
}

const char* ModelSwitch::state_of(std::uint32_t model, bool ready) const {
  const Entry& entry = entries_[model];
  if (model == current_ && ready) return "ready";
  if (clock_.now() < entry.failed_until) return "failed";
  if (model == current_) return "loading";
  return entry.waiting.empty() ? "unloaded" : "waiting";
}

SwarmStatus ModelSwitch::status() const {
  SwarmStatus status = coordinator_->status();
  add_totals(status, totals_);
  const bool ready = status.ready;
  if (!ready && is_loading_) {
    status.missing =
        "the model '" + options_.models[current_].name + "' is being loaded; " + status.missing;
  }
  status.waiting += static_cast<std::uint32_t>(waiting());
  status.model = current_;
  for (std::uint32_t model = 0; model < entries_.size(); ++model) {
    std::uint32_t waits = 0;
    for (const Waiting& group : entries_[model].waiting) {
      waits += static_cast<std::uint32_t>(group.sequences.size());
    }
    ModelStatus& one = status.models.emplace_back();
    one.name = options_.models[model].name;
    one.state = state_of(model, ready);
    if (one.state == "failed") one.why = entries_[model].why_failed;
    one.waiting = waits;
  }
  return status;
}

void ModelSwitch::publish_roster(Bytes roster) {
  roster_ = roster;
  coordinator_->publish_roster(std::move(roster));
}

}  // namespace hearth::coordinator
