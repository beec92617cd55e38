#include "coordinator/scheduling/scheduler.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "proto/split.h"

namespace hearth::coordinator {
namespace {

std::uint32_t pages_wanted(std::uint64_t tokens, const KvPool& pool) {
  return pages_for(static_cast<std::uint32_t>(tokens), pool.page_tokens);
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

bool outside_trust(const Sequence& sequence, const std::vector<std::string>& nodes) {
  const std::vector<std::string>& trust = sequence.request.policy.trust;
  return !trust.empty() &&
         std::ranges::any_of(nodes, [&](const auto& node) { return !contains(trust, node); });
}

// Whether the policy of the sequence forbids a pipeline.
bool untrusted(const Sequence& sequence, const std::vector<std::string>& nodes,
               ledger::Level level) {
  return level < sequence.request.policy.min_level || outside_trust(sequence, nodes);
}

// Checking pipelines run audits for newcomers only, and these run nowhere else.
bool untrusted(const Sequence& sequence, const KvPool& pool) {
  if (pool.checking != sequence.request.for_newcomers) return true;
  return untrusted(sequence, pool.nodes, pool.level);
}

// Names only what the request named: which other nodes serve is for admins to see.
Error refusal(const RequestPolicy& policy, std::optional<ledger::Level> best) {
  if (best) {
    return Error::of(
        ErrorCode::kRefused, "no pipeline is allowed: min_level is ",
        ledger::level_name(policy.min_level),
        ", and every pipeline that serves has a node below it; the best pipeline's lowest "
        "node is at level ",
        ledger::level_name(*best),
        " (hearth ledger shows levels; without audits every node is a newcomer)");
  }
  std::string names;
  for (const std::string& name : policy.trust) names += (names.empty() ? "" : ", ") + name;
  return Error::of(ErrorCode::kRefused, "no pipeline is allowed: trust names (", names,
                   "), and every pipeline that serves has another node; the "
                   "server's owner sees which nodes serve with hearth status");
}

// Of pipelines that fit: those that others can audit, of the highest level there is.
std::vector<Epoch> verifiable(const std::map<Epoch, KvPool>& pools, std::vector<Epoch> fitting) {
  const auto rank = [&](Epoch epoch) {
    const KvPool& pool = pools.at(epoch);
    return std::pair(pool.audited, pool.level);
  };
  auto best = rank(fitting.front());
  for (const Epoch epoch : fitting) best = std::max(best, rank(epoch));
  std::erase_if(fitting, [&](Epoch epoch) { return rank(epoch) < best; });
  return fitting;
}

// So many sequences of an owner start before one of its own in the background does.
constexpr std::uint32_t kBackgroundMaxSkips = 4;

// Pipelines count as equally fast within this ratio, so that noise in the measurement does not move
// sequences between them.
constexpr double kPaceMargin = 1.2;
// Prompt rows of a step, for an estimate of how many steps a prompt takes (node/pipeline/stage.cc).
constexpr double kStepRows = 128;
// A pipeline's measured pace is ignored when it is this much older than the last token of all.
constexpr Duration kPaceMaxAge = std::chrono::minutes(1);

bool never_ran(const std::shared_ptr<Sequence>& sequence) { return !sequence->admitted; }

}  // namespace

static_assert(std::uint64_t{limits::kModelContext} * 2 < 0xFFFFFFFFULL,
              "prompt + max_tokens counts in 32 bits");

void Scheduler::add_pool(Epoch epoch, std::uint32_t pages, std::uint32_t page_tokens,
                         std::vector<std::string> nodes, bool checking, std::uint32_t sequences,
                         bool keeps_prefixes) {
  INVARIANT(page_tokens > 0, "a KV page holds at least one token");
  INVARIANT(!pools_.contains(epoch), "an epoch names one pipeline");
  pools_[epoch] = {pages, page_tokens, 0, 0, std::move(nodes)};
  pools_[epoch].checking = checking;
  pools_[epoch].sequences = std::min(sequences, limits::kRunningSequences);
  pools_[epoch].keeps_prefixes = keeps_prefixes;
  pools_changed();
}

void Scheduler::close_pool(Epoch epoch, bool closed) {
  const auto pool = pools_.find(epoch);
  if (pool == pools_.end() || pool->second.closed == closed) return;
  pool->second.closed = closed;
  pools_changed();
}

void Scheduler::set_standing(Epoch epoch, ledger::Level level, bool audited) {
  const auto pool = pools_.find(epoch);
  if (pool == pools_.end()) return;
  if (pool->second.level == level && pool->second.audited == audited) return;
  pool->second.level = level;
  pool->second.audited = audited;
  pools_changed();
}

bool Scheduler::serves() const {
  return std::ranges::any_of(
      pools_, [](const auto& pool) { return !pool.second.closed && !pool.second.checking; });
}

bool Scheduler::has_checkers() const {
  return std::ranges::any_of(pools_, [](const auto& one) { return one.second.checking; });
}

bool Scheduler::has_idle_checkers() const {
  return std::ranges::any_of(pools_, [](const auto& one) {
    const KvPool& pool = one.second;
    return pool.checking && !pool.closed && pool.running == 0;
  });
}

bool Scheduler::others_have_room(Epoch from) const {
  std::map<Epoch, KvPool> others = pools_;
  others.erase(from);
  std::erase_if(others, [](const auto& pool) { return pool.second.closed; });
  for (const auto& entry : running_) {
    const std::shared_ptr<Sequence>& sequence = entry.second;
    if (sequence->epoch != from || sequence->ended) continue;
    const auto place = std::ranges::find_if(others, [&](const auto& other) {
      const KvPool& pool = other.second;
      const std::uint32_t wanted = pages_wanted(sequence->tokens_wanted(), pool);
      return !untrusted(*sequence, pool) && pool.running < pool.sequences &&
             wanted <= pool.pages - pool.reserved;
    });
    if (place == others.end()) return false;
    place->second.reserved += pages_wanted(sequence->tokens_wanted(), place->second);
    ++place->second.running;
  }
  return true;
}

bool Scheduler::may_all_run_on(Epoch from, const std::vector<std::string>& nodes,
                               ledger::Level level) const {
  return std::ranges::all_of(running_, [&](const auto& one) {
    const Sequence& sequence = *one.second;
    return sequence.epoch != from || sequence.ended || !untrusted(sequence, nodes, level);
  });
}

std::vector<std::shared_ptr<Sequence>> Scheduler::remove_pool(Epoch epoch) {
  std::vector<std::shared_ptr<Sequence>> gone;
  for (auto it = running_.begin(); it != running_.end();) {
    if (it->second->epoch == epoch) {
      if (it->second->ended) refund(*it->second);
      runs_no_more(*it->second);
      gone.push_back(std::move(it->second));
      it = running_.erase(it);
    } else {
      ++it;
    }
  }
  pools_.erase(epoch);
  prefixes_.erase(epoch);
  pools_changed();
  return gone;
}

Status Scheduler::fits_somewhere(const Sequence& sequence) const {
  const std::uint64_t tokens = sequence.tokens_wanted();
  std::optional<std::uint64_t> most;
  bool outside = false;
  std::optional<ledger::Level> below;  // the best of those that are trusted otherwise
  for (const auto& [epoch, pool] : pools_) {
    if (pool.closed || pool.checking != sequence.request.for_newcomers) continue;
    if (untrusted(sequence, pool)) {
      outside = true;
      if (!outside_trust(sequence, pool.nodes)) below = std::max(below, std::optional(pool.level));
      continue;
    }
    if (pages_wanted(tokens, pool) <= pool.pages) return ok_status();
    most = std::max(most.value_or(0), std::uint64_t{pool.pages} * pool.page_tokens);
  }
  if (!most && outside) return refusal(sequence.request.policy, below);
  return Error::of(ErrorCode::kNoCapacity, "prompt and max_tokens need ", tokens,
                   " tokens of KV cache; the largest pipeline that serves has room for ",
                   most.value_or(0), "; ask for fewer tokens (max_tokens)");
}

std::optional<std::uint32_t> Scheduler::largest_sequence(const RequestPolicy& policy) const {
  Sequence probe;
  probe.request.policy = policy;
  std::optional<std::uint32_t> largest;
  for (const auto& [epoch, pool] : pools_) {
    if (pool.closed || untrusted(probe, pool)) continue;
    const std::uint64_t positions = std::uint64_t{pool.pages} * pool.page_tokens;
    const std::uint64_t bounded = std::min<std::uint64_t>(positions, limits::kModelContext);
    largest = std::max(largest, std::optional(static_cast<std::uint32_t>(bounded)));
  }
  return largest;
}

Status Scheduler::enqueue(std::shared_ptr<Sequence> sequence) {
  INVARIANT(!sequence->admitted && !sequence->charged, "a sequence is enqueued once");
  const std::string& owner = sequence->request.policy.owner;
  const std::size_t room =
      limits::kWaitingSequences - std::min<std::size_t>(waiting_.size(), limits::kWaitingSequences);
  if (room == 0 || shares_.waiting(owner) >= 2 * room) {
    return Error{
        ErrorCode::kNoCapacity,
        message_of(
            "the queue is full: ", waiting_.size(), " of ", limits::kWaitingSequences,
            " sequences wait, ", shares_.waiting(owner),
            " of them of this API key, which may have at most twice the free places; retry later")};
  }
  shares_.arrive(owner);
  waiting_.push_back(std::move(sequence));
  INVARIANT(waiting_.size() <= limits::kWaitingSequences, "the queue is within its limit");
  pools_changed();
  return ok_status();
}

std::vector<Scheduler::Waiting::iterator> Scheduler::by_turn() {
  struct Owner {
    std::vector<Waiting::iterator> first;
    std::vector<Waiting::iterator> background;
  };
  ++orderings_;
  std::vector<Waiting::iterator> order;
  std::map<std::string, Owner> owners;
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if (never_ran(*it)) {
      Owner& owner = owners[(*it)->request.policy.owner];
      ((*it)->request.background ? owner.background : owner.first).push_back(it);
    } else {
      order.push_back(it);
    }
  }
  std::vector<std::pair<std::uint64_t, const std::string*>> turns;
  for (const auto& [name, owner] : owners) turns.emplace_back(shares_.served(name), &name);
  std::ranges::stable_sort(turns, {}, [](const auto& turn) { return turn.first; });
  for (const auto& [served, name] : turns) {
    Owner& owner = owners[*name];
    const auto skips = background_skips_.find(*name);
    const bool skipped = skips != background_skips_.end() && skips->second >= kBackgroundMaxSkips;
    if (skipped && !owner.background.empty()) {
      owner.first.insert(owner.first.begin(), owner.background.front());
      owner.background.erase(owner.background.begin());
    }
    order.insert(order.end(), owner.first.begin(), owner.first.end());
    order.insert(order.end(), owner.background.begin(), owner.background.end());
  }
  return order;
}

void Scheduler::take_pace(Epoch epoch, Duration waited, TimePoint now) {
  const auto pool = pools_.find(epoch);
  if (pool == pools_.end()) return;
  last_token_ = std::max(last_token_, now);
  pool->second.pace.token(waited, pool->second.running, now);
}

std::optional<double> Scheduler::expected_seconds(const KvPool& pool) const {
  if (last_token_ - pool.pace.last() > kPaceMaxAge) return std::nullopt;
  return pool.pace.with_one_more(pool.running);
}

Epoch Scheduler::quickest(const std::vector<Epoch>& fitting) const {
  std::optional<double> least;
  std::uint32_t running = 0;  // on the quickest
  for (const Epoch epoch : fitting) {
    const auto expected = expected_seconds(pools_.at(epoch));
    if (!expected || (least && *expected >= *least)) continue;
    least = expected;
    running = pools_.at(epoch).running;
  }
  const KvPool* best = nullptr;
  Epoch chosen;
  for (const Epoch epoch : fitting) {
    const KvPool& pool = pools_.at(epoch);
    const auto expected = expected_seconds(pool);
    if (least && (expected ? *expected > kPaceMargin * *least : pool.running > running)) continue;
    const bool freer = best == nullptr || pool.pages - pool.reserved > best->pages - best->reserved;
    if (!freer) continue;
    best = &pool;
    chosen = epoch;
  }
  INVARIANT(best != nullptr, "one of the pipelines that fit is chosen");
  return chosen;
}

// A pipeline that was not measured lately counts as the quickest.
std::vector<Epoch> Scheduler::soonest(Sequence& sequence, std::vector<Epoch> fitting) const {
  if (!sequence.scope || fitting.size() < 2) return fitting;
  const PrefixChain& chain = sequence.known_chain();
  std::optional<double> step;
  std::vector<std::uint64_t> rows;
  bool is_known = false;
  for (const Epoch epoch : fitting) {
    const auto expected = expected_seconds(pools_.at(epoch));
    if (expected) step = std::min(step.value_or(*expected), *expected);
    const auto here = prefixes_.find(epoch);
    const std::uint64_t found = here == prefixes_.end() ? 0 : here->second.found(chain);
    is_known |= found > 0;
    rows.push_back(sequence.tokens_known() - found * kPrefixPage);
  }
  if (!is_known) return fitting;
  std::vector<double> times;
  for (std::size_t i = 0; i < fitting.size(); ++i) {
    const double each = expected_seconds(pools_.at(fitting[i])).value_or(step.value_or(1.0));
    times.push_back(each * (1.0 + static_cast<double>(rows[i]) / kStepRows));
  }
  const double least = *std::ranges::min_element(times);
  std::vector<Epoch> out;
  for (std::size_t i = 0; i < fitting.size(); ++i) {
    if (times[i] <= kPaceMargin * least) out.push_back(fitting[i]);
  }
  INVARIANT(!out.empty(), "the soonest one is among them");
  return out;
}

std::shared_ptr<Sequence> Scheduler::admit() {
  if (!std::exchange(admission_changed_, false) || waiting_.empty()) return nullptr;
  std::set<Epoch> claimed;  // by an earlier sequence, which waits for room there; or closed
  for (const auto& [epoch, pool] : pools_) {
    if (pool.closed) claimed.insert(epoch);
  }
  if (claimed.size() == pools_.size()) return nullptr;
  for (const Waiting::iterator& it : by_turn()) {
    if (claimed.size() == pools_.size()) break;
    Sequence& waiting = **it;
    const std::uint64_t tokens = waiting.tokens_wanted();
    std::vector<Epoch> fitting;
    for (const auto& [epoch, pool] : pools_) {
      if (claimed.contains(epoch) || untrusted(waiting, pool)) continue;
      const std::uint32_t free = pool.pages - pool.reserved;
      if (pool.running >= pool.sequences || pages_wanted(tokens, pool) > free) continue;
      fitting.push_back(epoch);
    }
    if (!fitting.empty()) {
      const bool verified = waiting.request.policy.verify != Verify::kNone;
      if (verified) fitting = verifiable(pools_, fitting);
      const Epoch best = quickest(soonest(waiting, std::move(fitting)));
      return reserve(it, best, pools_.at(best));
    }
    for (const auto& [epoch, pool] : pools_) {
      // An interrupted sequence may wait for a larger pipeline to come back.
      const bool never = waiting.admitted && pages_wanted(tokens, pool) > pool.pages;
      if (!untrusted(waiting, pool) && !never) claimed.insert(epoch);
    }
  }
  return nullptr;
}

std::shared_ptr<Sequence> Scheduler::reserve(Waiting::iterator place, Epoch epoch, KvPool& pool) {
  std::shared_ptr<Sequence> sequence = std::move(*place);
  waiting_.erase(place);
  if (never_ran(sequence)) charge(*sequence);
  sequence->epoch = epoch;
  sequence->pages = pages_wanted(sequence->tokens_wanted(), pool);
  INVARIANT(!pool.closed && sequence->pages <= pool.pages - pool.reserved,
            "a sequence starts where there is room for it");
  INVARIANT(pool.running < pool.sequences, "a pipeline runs a limited number");
  pool.reserved += sequence->pages;
  ++pool.running;
  const bool fresh = running_.emplace(sequence->id, sequence).second;
  INVARIANT(fresh, "a sequence runs on one pipeline");
  ++running_of_[sequence->request.policy.owner];
  admission_changed_ = true;
  return sequence;
}

std::shared_ptr<Sequence> Scheduler::pop_unfit() {
  if (!fit_changed_ || !serves()) return nullptr;
  const auto unfit = std::ranges::find_if(waiting_, [&](const auto& sequence) {
    return !sequence->admitted && !fits_somewhere(*sequence).ok();
  });
  if (unfit == waiting_.end()) {
    fit_changed_ = false;
    return nullptr;
  }
  std::shared_ptr<Sequence> sequence = std::move(*unfit);
  waiting_.erase(unfit);
  admission_changed_ = true;
  shares_.leave(sequence->request.policy.owner);
  return sequence;
}

// The sequence waits no more, and its owner is charged for all tokens that it may have.
void Scheduler::charge(Sequence& sequence) {
  INVARIANT(!sequence.charged, "a sequence is charged once");
  const std::string& owner = sequence.request.policy.owner;
  shares_.leave(owner);
  shares_.charge(owner, fair_cost(sequence.prompt_tokens, sequence.request.sampling.max_tokens));
  sequence.charged = true;
  const bool passes =
      !sequence.request.background && std::ranges::any_of(waiting_, [&](const auto& other) {
        return never_ran(other) && other->request.background &&
               other->request.policy.owner == owner;
      });
  if (passes) {
    ++background_skips_[owner];
  } else {
    background_skips_.erase(owner);
  }
}

// The sequence is over, wherever it was: its owner gets back the tokens that it did not generate.
void Scheduler::refund(Sequence& sequence) {
  if (!std::exchange(sequence.charged, false)) return;
  const std::uint64_t allowed = sequence.request.sampling.max_tokens;
  INVARIANT(sequence.answer.size() <= allowed, "an answer has at most max_tokens tokens");
  shares_.refund(sequence.request.policy.owner, fair_cost(0, allowed - sequence.answer.size()));
  admission_changed_ = true;
}

std::vector<std::shared_ptr<Sequence>> Scheduler::take_waiting() {
  const auto fresh = std::ranges::find_if(waiting_, never_ran);
  std::vector<std::shared_ptr<Sequence>> all(fresh, waiting_.end());
  waiting_.erase(fresh, waiting_.end());
  for (const auto& sequence : all) shares_.leave(sequence->request.policy.owner);
  admission_changed_ = true;
  return all;
}

void Scheduler::requeue(std::vector<std::shared_ptr<Sequence>> sequences) {
  admission_changed_ = true;
  for (auto& sequence : sequences) {
    INVARIANT(sequence->admitted && !sequence->ended, "only a sequence that ran waits again");
    const auto place = std::ranges::find_if(
        waiting_, [&](const auto& other) { return never_ran(other) || other->id > sequence->id; });
    waiting_.insert(place, std::move(sequence));
  }
}

std::vector<std::shared_ptr<Sequence>> Scheduler::interrupted() const {
  return {waiting_.begin(), std::ranges::find_if(waiting_, never_ran)};
}

std::shared_ptr<Sequence> Scheduler::find(SequenceId id) const {
  const auto found = running_.find(id);
  if (found != running_.end()) return found->second;
  for (const auto& sequence : waiting_) {
    if (sequence->id == id) return sequence;
  }
  return nullptr;
}

void Scheduler::remove_waiting(SequenceId id) {
  const auto found =
      std::ranges::find_if(waiting_, [&](const auto& sequence) { return sequence->id == id; });
  if (found == waiting_.end()) return;
  if (never_ran(*found)) shares_.leave((*found)->request.policy.owner);
  refund(**found);
  waiting_.erase(found);
  admission_changed_ = true;
}

void Scheduler::release(Sequence& sequence) {
  if (sequence.released) return;
  sequence.released = true;
  const auto pool = pools_.find(sequence.epoch);
  if (pool != pools_.end()) {
    INVARIANT(pool->second.reserved >= sequence.pages, "pages are returned that were reserved");
    pool->second.reserved -= sequence.pages;
    admission_changed_ = true;
    const bool kept = pool->second.keeps_prefixes && sequence.scope.has_value();
    // An audit leaves pages that its scope's later requests find. But what a client pays depends on
    // clients' requests alone, and no request begins like a canary.
    const Origin origin = sequence.request.origin;
    if (kept && origin != Origin::kCanary) {
      prefixes_.try_emplace(sequence.epoch, pool->second.pages)
          .first->second.left(sequence.known_chain());
    }
    if (kept && origin == Origin::kClient) ended_.left(sequence.known_chain());
  }
  remove_done(sequence);
}

// A page that is not whole may have been found behind the last whole one.
std::uint32_t Scheduler::cached_most(Sequence& sequence) const {
  const auto pool = pools_.find(sequence.epoch);
  if (pool != pools_.end() && !pool->second.keeps_prefixes) return 0;
  return ended_.found(sequence.known_chain()) * kPrefixPage + kPrefixPage - 1;
}

void Scheduler::end(Sequence& sequence) {
  sequence.ended = true;
  if (!running_.contains(sequence.id)) return refund(sequence);
  remove_done(sequence);
}

// The caller holds a shared pointer, or does not touch the sequence afterwards.
void Scheduler::remove_done(Sequence& sequence) {
  if (!sequence.ended || !sequence.released || !running_.contains(sequence.id)) return;
  refund(sequence);
  const auto pool = pools_.find(sequence.epoch);
  INVARIANT(pool != pools_.end(), "a running sequence has a pipeline");
  INVARIANT(pool->second.running > 0, "a pipeline counts the sequences that run on it");
  --pool->second.running;
  admission_changed_ = true;
  runs_no_more(sequence);
  running_.erase(sequence.id);
}

void Scheduler::runs_no_more(const Sequence& sequence) {
  const auto count = running_of_.find(sequence.request.policy.owner);
  INVARIANT(count != running_of_.end() && count->second > 0, "an owner's sequences are counted");
  if (--count->second == 0) running_of_.erase(count);
}

std::uint32_t Scheduler::waiting_of(const std::string& owner) const {
  return static_cast<std::uint32_t>(std::ranges::count_if(waiting_, [&owner](const auto& sequence) {
    return sequence->request.policy.owner == owner;
  }));
}

std::uint32_t Scheduler::running_of(const std::string& owner) const {
  const auto count = running_of_.find(owner);
  return count == running_of_.end() ? 0 : count->second;
}

}  // namespace hearth::coordinator
