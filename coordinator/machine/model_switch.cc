#include "coordinator/machine/model_switch.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <set>
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

// Its memory is not what a plan could use: its workers end when it is unloaded.
void add_beside(SwarmStatus& to, SwarmStatus from, std::uint32_t model) {
  for (NodeStatus& node : from.nodes) {
    node.model = model;
    node.measured.reset();
    to.nodes.push_back(std::move(node));
  }
  for (PipelineStatus& pipeline : from.pipelines) {
    pipeline.model = model;
    to.pipelines.push_back(std::move(pipeline));
  }
  std::ranges::move(from.accused, std::back_inserter(to.accused));
  to.running += from.running;
  to.running_audits += from.running_audits;
  to.waiting += from.waiting;
  to.tokens_per_second += from.tokens_per_second;
  to.prompt_tokens_per_second += from.prompt_tokens_per_second;
  add_totals(to, from);
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
  std::vector<std::uint32_t> models;  // loading and unloading change the map
  for (const auto& [model, one] : loaded_) models.push_back(model);
  for (const std::uint32_t model : models) loaded_.at(model).coordinator->on_timer();
  if (clock_.now() - noted_at_ >= kTellEvery) note_use();
  find_room();
  for (const std::uint32_t model : models) {
    const auto one = loaded_.find(model);
    if (one != loaded_.end() && one->second.is_loading) watch_loading(model);
  }
  drain();
  if (!loaded_.at(current_).is_loading) take_turns();
  tell_progress();
}

// --- requests ---

SubmitAnswer ModelSwitch::submit(std::vector<Submission> sequences) {
  INVARIANT(!sequences.empty(), "a submission has a sequence");
  const std::uint32_t model = sequences.front().request.model;
  INVARIANT(model < entries_.size(), "a request is for one of the server's models");
  const auto one = loaded_.find(model);
  if (one == loaded_.end() || !one->second.takes()) return hold(model, std::move(sequences));
  one->second.asked_at = one->second.used_at = clock_.now();
  return one->second.coordinator->submit(std::move(sequences));
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
  const bool is_first = !loaded_.contains(model) && entry.waiting.empty();
  if (is_first && options_.why_no_file) {
    const std::string why = options_.why_no_file(model);
    if (!why.empty()) {
      return Error::of(ErrorCode::kUnavailable, "the model '", name, "' cannot be loaded: ", why);
    }
  }
  if (is_first && options_.why_no_room) {
    const SwarmStatus now = current_coordinator().status();
    const std::string why = options_.why_no_room(model, now);
    const bool is_beside =
        options_.room_beside && options_.room_beside(model, now) != RoomBeside::kImpossible;
    if (!why.empty() && !is_beside) {
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

// No id is given twice, and a coordinator ignores what it does not know.
void ModelSwitch::cancel(SequenceId sequence) {
  const auto found = held_.find(sequence);
  const std::shared_ptr<Held> held = found != held_.end() ? found->second : nullptr;
  if (held) held->forget();
  if (!held || held->running) {
    const SequenceId id = held ? *held->running : sequence;
    for (const auto& [model, one] : loaded_) one.coordinator->cancel(id);
    return;
  }
  for (Entry& entry : entries_) {
    for (Waiting& group : entry.waiting) std::erase(group.sequences, held);
    std::erase_if(entry.waiting, [](const Waiting& group) { return group.sequences.empty(); });
  }
}

void ModelSwitch::stop(SequenceId sequence, Position position) {
  const auto found = held_.find(sequence);
  const std::shared_ptr<Held> held = found != held_.end() ? found->second : nullptr;
  if (held && !held->running) return cancel(sequence);  // it has no token yet
  if (held) held->stopped = true;
  const SequenceId id = held ? *held->running : sequence;
  for (const auto& [model, one] : loaded_) one.coordinator->stop(id, position);
}

// --- loading ---

ModelSwitch::Loaded& ModelSwitch::put(std::uint32_t model,
                                      std::unique_ptr<Coordinator> coordinator) {
  INVARIANT(coordinator != nullptr && !loaded_.contains(model),
            "a model has one coordinator while it is loaded");
  Loaded& one = loaded_[model];
  one.coordinator = std::move(coordinator);
  one.load_began = one.changed_at = one.asked_at = one.used_at = clock_.now();
  one.loading = {options_.models[model].name, true};
  if (!roster_.empty()) one.coordinator->publish_roster(roster_);
  return one;
}

// A model takes the place of the current one.
void ModelSwitch::load(std::uint32_t model) {
  if (!loaded_.empty()) {
    INVARIANT(!loaded_.contains(model), "another model takes the place of the current one");
    spdlog::info("unloading the model {} and loading {}", options_.models[current_].name,
                 options_.models[model].name);
    unload(current_);
  }
  current_ = model;
  put(model, options_.load(model));
}

// The caller has ensured that nothing of it runs.
void ModelSwitch::unload(std::uint32_t model) {
  Loaded& one = loaded_.at(model);
  one.coordinator->retire();
  add_totals(totals_, one.coordinator->status());
  loaded_.erase(model);
  if (model != current_) options_.unload_beside(model);
}

void ModelSwitch::watch_loading(std::uint32_t model) {
  Loaded& one = loaded_.at(model);
  const bool is_current = model == current_;
  const TimePoint now = clock_.now();
  const SwarmStatus status = one.coordinator->status();
  if (status.ready) {
    one.is_loading = false;
    if (is_current) served_ = model;
    one.asked_at = one.used_at = now;
    one.turn_until = now + std::clamp(now - one.load_began, kLeastTurn, kMostTurn);
    return release(model);
  }
  one.may_come = status.may_come;
  one.loading = {options_.models[model].name, true};
  for (const NodeStatus& node : status.nodes) {
    if (node.state == "lost") continue;
    ++one.loading.workers;
    if (node.partial) {
      one.loading.bytes += node.held_bytes;
      one.loading.bytes_total += node.held_total;
    }
  }
  const std::uint64_t hashed = is_current && options_.hashed ? options_.hashed() : 0;
  if (one.progress.is_new({one.loading.workers, one.loading.bytes, hashed, status.missing})) {
    one.changed_at = now;
  }
  const bool wanted = !entries_[model].waiting.empty();
  if (is_current) {
    const std::optional<std::uint32_t> other = next_model();
    if (!wanted && other) {  // no request waits for it any more
      for (auto& [beside, each] : loaded_) each.is_closing = beside != current_;
      if (one.coordinator->wind_down(true) && loaded_.size() == 1) return load(*other);
    }
  }
  if (now - one.changed_at < patience_of(one)) return;
  if (!is_current) return fail_beside(model, status.missing);
  if (wanted) fail_loading(status.missing);
}

bool ModelSwitch::Progress::is_new(const Signs& now) {
  constexpr std::size_t kMissingKnown = 256;
  const bool is_setback = now.workers < workers_ && setbacks_ < kMostSetbacks;
  workers_ = now.workers;
  if (is_setback) {  // what is lost is fetched again
    ++setbacks_;
    workers_most_ = now.workers;
    bytes_most_ = now.bytes;
  }
  bool is_new = is_setback || now.workers > workers_most_ || now.bytes > bytes_most_ ||
                now.hashed > hashed_most_;
  workers_most_ = std::max(workers_most_, now.workers);
  bytes_most_ = std::max(bytes_most_, now.bytes);
  hashed_most_ = std::max(hashed_most_, now.hashed);
  if (missing_.size() < kMissingKnown) is_new = missing_.insert(now.missing).second || is_new;
  return is_new;
}

Duration ModelSwitch::patience_of(const Loaded& one) {
  return one.may_come ? kLoadPatience : kIdlePatience;
}

void ModelSwitch::fail_loading(const std::string& why) {
  Entry& entry = entries_[current_];
  entry.why_failed =
      "the model '" + options_.models[current_].name + "' could not be loaded: " + why;
  entry.failed_until = clock_.now() + kFailedFor;
  loaded_.at(current_).changed_at = clock_.now();
  spdlog::error("{}", entry.why_failed);
  const std::deque<Waiting> waiting = std::exchange(entry.waiting, {});
  const Error error{ErrorCode::kUnavailable, entry.why_failed};
  const std::optional<std::uint32_t> other = next_model();
  if (other && loaded_.size() == 1) {
    load(*other);
  } else if (served_ && !loaded_.contains(*served_)) {
    load(*served_);
  }
  for (const Waiting& group : waiting) {
    for (const auto& held : group.sequences) {
      if (!held->over) held->on_error(error);
    }
  }
}

// Its requests wait for its turn instead.
void ModelSwitch::fail_beside(std::uint32_t model, const std::string& why) {
  spdlog::warn("the model {} was not loaded beside the model {}: {}", options_.models[model].name,
               options_.models[current_].name, why);
  entries_[model].not_beside_until = clock_.now() + kFailedFor;
  if (loaded_.contains(model)) unload(model);
}

// --- turns ---

void ModelSwitch::take_turns() {
  Loaded& one = loaded_.at(current_);
  const std::optional<std::uint32_t> other = next_model();
  if (!other) {
    if (!std::exchange(one.is_closing, false)) return;
    one.coordinator->wind_down(false);
    return release(current_);
  }
  if (clock_.now() < one.turn_until) return;
  const bool is_in_place = entries_[*other].is_in_place;
  for (auto& [model, each] : loaded_) {
    // Without room for all of them, the next one may need all memory.
    if (model == current_ || !is_in_place) each.is_closing = true;
  }
  const bool is_quiet = one.coordinator->wind_down(true);
  if (is_quiet && (loaded_.size() == 1 || is_in_place)) load(*other);
}

// --- beside the current model ---

// A model is used while it has requests.
void ModelSwitch::note_use() {
  noted_at_ = clock_.now();
  for (auto& [model, one] : loaded_) {
    const SwarmStatus now = one.coordinator->status();
    if (now.running + now.waiting > 0) one.used_at = noted_at_;
  }
}

void ModelSwitch::find_room() {
  bool is_needed = false;
  for (const std::uint32_t model : wanted()) {
    const bool waits = find_room_for(model, !is_needed);
    entries_[model].waits_for_room = waits;
    is_needed = is_needed || waits;
  }
  const Loaded& current = loaded_.at(current_);
  if (is_needed || current.is_closing || current.is_loading) return;
  std::vector<std::uint32_t> reopened;  // the requests for which they were to make room are gone
  for (auto& [model, one] : loaded_) {
    if (model == current_ || !std::exchange(one.is_closing, false)) continue;
    one.coordinator->wind_down(false);
    reopened.push_back(model);
  }
  for (const std::uint32_t model : reopened) release(model);
}

// Whether requests for this model wait for it to be loaded beside the others. If there is room, and
// none waits longer for it, it is loaded.
bool ModelSwitch::find_room_for(std::uint32_t model, bool is_first) {
  const TimePoint now = clock_.now();
  entries_[model].is_in_place = false;
  if (!options_.room_beside || now < entries_[model].not_beside_until) return false;
  const Loaded& current = loaded_.at(current_);
  const SwarmStatus status = current.coordinator->status();
  const RoomBeside room = loaded_.size() < options_.most_loaded
                              ? options_.room_beside(model, status)
                              : RoomBeside::kTaken;
  if (room == RoomBeside::kImpossible) return false;
  // The free memory is known when those that load have what they need.
  if (current.is_loading) return now - current.changed_at < patience_of(current);
  for (const auto& [other, one] : loaded_) {
    if (one.is_loading) return true;
  }
  if (room == RoomBeside::kTaken) note_use();
  if (is_first && room == RoomBeside::kTaken && may_take_place(model, status)) {
    entries_[model].is_in_place = true;
    return false;
  }
  // What is beside a model that gives way is unloaded with it.
  if (!is_first || current.is_closing || room == RoomBeside::kSoon) return true;
  if (room == RoomBeside::kTaken) return close_one();
  spdlog::info("loading the model {} beside the model {}", options_.models[model].name,
               options_.models[current_].name);
  auto coordinator = options_.load_beside(model);
  if (coordinator.ok()) {
    put(model, *std::move(coordinator));
    return true;
  }
  fail_beside(model, coordinator.error().message);
  return false;
}

// Whether the current model was idle longest, and leaves enough room.
bool ModelSwitch::may_take_place(std::uint32_t model, const SwarmStatus& now) const {
  if (loaded_.size() == 1 || !options_.fits_in_place) return false;
  const TimePoint used_at = loaded_.at(current_).used_at;
  const bool is_oldest = std::ranges::all_of(loaded_, [&](const auto& one) {
    return one.first == current_ || (one.second.used_at > used_at && !one.second.is_closing);
  });
  return is_oldest && options_.fits_in_place(model, now);
}

// The model that was idle longest is unloaded, after its turn. False: none is beside the current
// one.
bool ModelSwitch::close_one() {
  Loaded* oldest = nullptr;
  for (auto& [model, one] : loaded_) {
    if (model == current_) continue;
    if (one.is_closing) return true;
    if (oldest == nullptr ||
        std::pair(one.used_at, one.asked_at) < std::pair(oldest->used_at, oldest->asked_at)) {
      oldest = &one;
    }
  }
  if (oldest != nullptr && clock_.now() >= oldest->turn_until) oldest->is_closing = true;
  return oldest != nullptr;
}

void ModelSwitch::drain() {
  std::vector<std::uint32_t> quiet;
  for (const auto& [model, one] : loaded_) {
    if (model != current_ && one.is_closing && one.coordinator->wind_down(true)) {
      quiet.push_back(model);
    }
  }
  for (const std::uint32_t model : quiet) {
    spdlog::info("unloading the model {}: another one needs its room", options_.models[model].name);
    unload(model);
  }
}

// In the order of arrival: requests within this queue's limits are within the scheduler's. It does
// not report whether their answers can be verified, because the auditing pipelines may come a
// moment later.
void ModelSwitch::release(std::uint32_t model) {
  INVARIANT(loaded_.at(model).takes(), "a model takes the requests that waited for it");
  Coordinator& coordinator = *loaded_.at(model).coordinator;
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
    const SubmitAnswer answer = coordinator.submit(std::move(sequences));
    for (std::size_t i = 0; i < owners.size(); ++i) {
      const std::shared_ptr<Held>& held = owners[i];
      if (!answer.sequences.ok()) {
        if (!held->over) held->on_error(answer.sequences.error());
        continue;
      }
      held->running = (*answer.sequences)[i];
      if (held->over) coordinator.cancel(*held->running);
    }
  }
}

// --- what is told ---

LoadProgress ModelSwitch::progress_of(std::uint32_t model) const {
  const auto one = loaded_.find(model);
  if (one != loaded_.end() && one->second.is_loading) return one->second.loading;
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

std::vector<std::uint32_t> ModelSwitch::wanted() const {
  std::vector<std::uint32_t> all;
  for (std::uint32_t model = 0; model < entries_.size(); ++model) {
    if (!loaded_.contains(model) && !entries_[model].waiting.empty()) all.push_back(model);
  }
  std::ranges::stable_sort(
      all, {}, [this](std::uint32_t model) { return entries_[model].waiting.front().since; });
  return all;
}

std::optional<std::uint32_t> ModelSwitch::next_model() const {
  for (const std::uint32_t model : wanted()) {
    if (!entries_[model].waits_for_room) return model;
  }
  return std::nullopt;
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
  if (ready) return "ready";
  if (clock_.now() < entry.failed_until) return "failed";
  if (loaded_.contains(model)) return "loading";
  return entry.waiting.empty() ? "unloaded" : "waiting";
}

SwarmStatus ModelSwitch::status() const {
  const Loaded& current = loaded_.at(current_);
  SwarmStatus status = current.coordinator->status();
  for (NodeStatus& node : status.nodes) node.model = current_;
  for (PipelineStatus& pipeline : status.pipelines) pipeline.model = current_;
  add_totals(status, totals_);
  std::set<std::uint32_t> ready;
  std::map<std::uint32_t, std::string> missing;  // of those beside
  if (status.ready) ready.insert(current_);
  if (!status.ready && current.is_loading) {
    status.missing =
        "the model '" + options_.models[current_].name + "' is being loaded; " + status.missing;
  }
  for (const auto& [model, one] : loaded_) {
    if (model == current_) continue;
    SwarmStatus beside = one.coordinator->status();
    if (beside.ready) {
      ready.insert(model);
    } else {
      missing[model] = beside.missing;
    }
    add_beside(status, std::move(beside), model);
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
    one.state = state_of(model, ready.contains(model));
    if (one.state == "failed") one.why = entries_[model].why_failed;
    if (one.state == "loading" && missing.contains(model)) one.why = missing[model];
    one.waiting = waits;
  }
  return status;
}

// --- what goes to the coordinators ---

void ModelSwitch::publish_roster(Bytes roster) {
  roster_ = roster;
  for (const auto& [model, one] : loaded_) one.coordinator->publish_roster(roster);
}

void ModelSwitch::publish_model(const Hash256& model) {
  current_coordinator().publish_model(model);
}

Coordinator& ModelSwitch::of_node(const std::string& node) const {
  for (const auto& [model, one] : loaded_) {
    if (model == current_) continue;
    for (const NodeStatus& each : one.coordinator->status().nodes) {
      if (each.name == node) return *one.coordinator;
    }
  }
  return current_coordinator();
}

Status ModelSwitch::order(const std::string& node, const std::optional<Away>& away) {
  return of_node(node).order(node, away);
}

Result<std::string> ModelSwitch::route(const std::string& from, const std::string& to) {
  return of_node(to).route(from, to);
}

bool ModelSwitch::wind_down(bool wanted) {
  bool quiet = true;
  for (const auto& [model, one] : loaded_) quiet = one.coordinator->wind_down(wanted) && quiet;
  return quiet;
}

void ModelSwitch::retire() {
  for (const auto& [model, one] : loaded_) one.coordinator->retire();
}

}  // namespace hearth::coordinator
