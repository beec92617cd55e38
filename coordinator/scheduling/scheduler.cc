#include "coordinator/scheduling/scheduler.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/limits.h"
#include "proto/defect.h"
#include "proto/split.h"

namespace hearth::coordinator {
namespace {

std::uint32_t pages_wanted(std::uint64_t tokens, const KvPool& pool) {
  return pages_for(static_cast<std::uint32_t>(tokens), pool.page_tokens);
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool outside_trust(const Sequence& sequence, const std::vector<std::string>& nodes) {
  const std::vector<std::string>& trust = sequence.request.trust;
  return !trust.empty() && std::any_of(nodes.begin(), nodes.end(),
                                       [&](const auto& node) { return !contains(trust, node); });
}

// Whether a pipeline has a stage that the sequence must not reach.
bool untrusted(const Sequence& sequence, const std::vector<std::string>& nodes,
               ledger::Level level) {
  return level < sequence.request.min_level || outside_trust(sequence, nodes);
}

// Nothing reaches newcomers but audits that are meant for them, and these reach nobody else.
bool untrusted(const Sequence& sequence, const KvPool& pool) {
  if (pool.checking != sequence.request.for_newcomers) return true;
  return untrusted(sequence, pool.nodes, pool.level);
}

// It hears the names that it gave, or its key has; who else serves is an admin's to know.
Error refusal(const Sequence& sequence, std::optional<ledger::Level> best) {
  if (best) {
    return {ErrorCode::kRefused,
            "every pipeline that serves has a node below level " +
                std::string(ledger::level_name(sequence.request.min_level)) +
                ", which this prompt must not reach; the lowest node of the best one is at level " +
                std::string(ledger::level_name(*best)) +
                " (hearth ledger shows levels; without audits everybody is a newcomer)"};
  }
  std::string names;
  for (const std::string& name : sequence.request.trust) {
    names += (names.empty() ? "" : ", ") + name;
  }
  return {ErrorCode::kRefused, "no pipeline that serves stays inside the trust set (" + names +
                                   "); the server's owner sees who serves: hearth status"};
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

// One in the background waits for so many others of its owner, not for all that may still come.
constexpr std::uint32_t kPassedMost = 4;

// A pipeline is passed over for one that is quicker by more than this, so that two that are alike
// do not take turns by the noise of what is measured.
constexpr double kPaceMargin = 1.2;
// What was measured so long before the last token of all is not believed any more.
constexpr Duration kPaceKept = std::chrono::minutes(1);

bool never_ran(const std::shared_ptr<Sequence>& sequence) { return !sequence->admitted; }

}  // namespace

static_assert(std::uint64_t{limits::kModelContext} * 2 < 0xFFFFFFFFULL,
              "prompt + max_tokens counts in 32 bits");

void Scheduler::add_pool(Epoch epoch, std::uint32_t pages, std::uint32_t page_tokens,
                         std::vector<std::string> nodes, bool checking) {
  pools_[epoch] = {pages, page_tokens, 0, 0, std::move(nodes)};
  pools_[epoch].checking = checking;
}

void Scheduler::close_pool(Epoch epoch, bool closed) {
  const auto pool = pools_.find(epoch);
  if (pool != pools_.end()) pool->second.closed = closed;
}

void Scheduler::set_standing(Epoch epoch, ledger::Level level, bool audited) {
  const auto pool = pools_.find(epoch);
  if (pool == pools_.end()) return;
  pool->second.level = level;
  pool->second.audited = audited;
}

bool Scheduler::serves() const {
  return std::any_of(pools_.begin(), pools_.end(),
                     [](const auto& pool) { return !pool.second.closed && !pool.second.checking; });
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
    const auto place = std::find_if(others.begin(), others.end(), [&](const auto& other) {
      const KvPool& pool = other.second;
      const std::uint32_t wanted = pages_wanted(sequence->tokens_wanted(), pool);
      return !untrusted(*sequence, pool) && wanted <= pool.pages - pool.reserved;
    });
    if (place == others.end()) return false;
    place->second.reserved += pages_wanted(sequence->tokens_wanted(), place->second);
  }
  return true;
}

bool Scheduler::may_all_run_on(Epoch from, const std::vector<std::string>& nodes,
                               ledger::Level level) const {
  return std::all_of(running_.begin(), running_.end(), [&](const auto& one) {
    const Sequence& sequence = *one.second;
    return sequence.epoch != from || sequence.ended || !untrusted(sequence, nodes, level);
  });
}

std::vector<std::shared_ptr<Sequence>> Scheduler::remove_pool(Epoch epoch) {
  std::vector<std::shared_ptr<Sequence>> gone;
  for (auto it = running_.begin(); it != running_.end();) {
    if (it->second->epoch == epoch) {
      gone.push_back(std::move(it->second));
      it = running_.erase(it);
    } else {
      ++it;
    }
  }
  pools_.erase(epoch);
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
  if (!most && outside) return refusal(sequence, below);
  return Error{ErrorCode::kNoCapacity, "the KV cache holds " + std::to_string(most.value_or(0)) +
                                           " tokens in all; prompt and "
                                           "max_tokens ask for " +
                                           std::to_string(tokens)};
}

Status Scheduler::enqueue(std::shared_ptr<Sequence> sequence) {
  const std::string& owner = sequence->request.owner;
  const std::size_t room =
      limits::kWaitingSequences - std::min<std::size_t>(waiting_.size(), limits::kWaitingSequences);
  if (room == 0 || shares_.waiting(owner) >= 2 * room) {
    return Error{ErrorCode::kNoCapacity,
                 std::to_string(waiting_.size()) + " sequences wait, " +
                     std::to_string(shares_.waiting(owner)) + " of them from here; the queue has " +
                     std::to_string(limits::kWaitingSequences) +
                     " places, and nobody gets more than twice what is left of them"};
  }
  shares_.arrive(owner);
  waiting_.push_back(std::move(sequence));
  return ok_status();
}

std::vector<Scheduler::Waiting::iterator> Scheduler::by_turn() {
  struct Owner {
    std::vector<Waiting::iterator> first;
    std::vector<Waiting::iterator> background;
  };
  std::vector<Waiting::iterator> order;
  std::map<std::string, Owner> owners;
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if (never_ran(*it)) {
      Owner& owner = owners[(*it)->request.owner];
      ((*it)->request.background ? owner.background : owner.first).push_back(it);
    } else {
      order.push_back(it);
    }
  }
  std::vector<std::pair<std::uint64_t, const std::string*>> turns;
  for (const auto& [name, owner] : owners) turns.emplace_back(shares_.served(name), &name);
  std::stable_sort(turns.begin(), turns.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [served, name] : turns) {
    Owner& owner = owners[*name];
    const auto passed = passed_.find(*name);
    if (passed != passed_.end() && passed->second >= kPassedMost && !owner.background.empty()) {
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
  if (last_token_ - pool.pace.last() > kPaceKept) return std::nullopt;
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
    if (least && (expected ? *expected > kPaceMargin * *least : pool.running > running)) {
      continue;
    }
    const bool freer = best == nullptr || pool.pages - pool.reserved > best->pages - best->reserved;
    if (!freer) continue;
    best = &pool;
    chosen = epoch;
  }
  return chosen;
}

std::shared_ptr<Sequence> Scheduler::admit() {
  std::set<Epoch> claimed;  // by those before, which wait for room there; or closed
  if (waiting_.empty()) return nullptr;
  for (const auto& [epoch, pool] : pools_) {
    if (pool.closed) claimed.insert(epoch);
  }
  if (claimed.size() == pools_.size()) return nullptr;
  for (const Waiting::iterator& it : by_turn()) {
    if (claimed.size() == pools_.size()) break;
    const Sequence& waiting = **it;
    const std::uint64_t tokens = waiting.tokens_wanted();
    std::vector<Epoch> fitting;
    for (const auto& [epoch, pool] : pools_) {
      if (claimed.contains(epoch) || untrusted(waiting, pool)) continue;
      const std::uint32_t free = pool.pages - pool.reserved;
      if (pool.running >= limits::kRunningSequences || pages_wanted(tokens, pool) > free) continue;
      fitting.push_back(epoch);
    }
    if (!fitting.empty()) {
      const bool verified = waiting.request.verify != Verify::kNone;
      const Epoch best = quickest(verified ? verifiable(pools_, fitting) : fitting);
      return reserve(it, best, pools_.at(best));
    }
    for (const auto& [epoch, pool] : pools_) {
      // An interrupted one may wait for a larger pipeline to come back.
      const bool never = waiting.admitted && pages_wanted(tokens, pool) > pool.pages;
      if (!untrusted(waiting, pool) && !never) claimed.insert(epoch);
    }
  }
  return nullptr;
}

std::shared_ptr<Sequence> Scheduler::reserve(Waiting::iterator place, Epoch epoch, KvPool& pool) {
  std::shared_ptr<Sequence> sequence = std::move(*place);
  waiting_.erase(place);
  if (never_ran(sequence)) settle(*sequence);
  sequence->epoch = epoch;
  sequence->pages = pages_wanted(sequence->tokens_wanted(), pool);
  pool.reserved += sequence->pages;
  ++pool.running;
  running_.emplace(sequence->id, sequence);
  return sequence;
}

std::shared_ptr<Sequence> Scheduler::pop_unfit() {
  if (!serves()) return nullptr;
  const auto unfit = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& sequence) {
    return !sequence->admitted && !fits_somewhere(*sequence).ok();
  });
  if (unfit == waiting_.end()) return nullptr;
  std::shared_ptr<Sequence> sequence = std::move(*unfit);
  waiting_.erase(unfit);
  shares_.leave(sequence->request.owner);
  return sequence;
}

// It waits no more, and is given its tokens.
void Scheduler::settle(const Sequence& sequence) {
  const std::string& owner = sequence.request.owner;
  shares_.leave(owner);
  shares_.charge(owner, fair_cost(sequence.prompt_tokens, sequence.request.sampling.max_tokens));
  const bool passes =
      !sequence.request.background &&
      std::any_of(waiting_.begin(), waiting_.end(), [&](const auto& other) {
        return never_ran(other) && other->request.background && other->request.owner == owner;
      });
  if (passes) {
    ++passed_[owner];
  } else {
    passed_.erase(owner);
  }
}

std::vector<std::shared_ptr<Sequence>> Scheduler::take_waiting() {
  const auto fresh = std::find_if(waiting_.begin(), waiting_.end(), never_ran);
  std::vector<std::shared_ptr<Sequence>> all(fresh, waiting_.end());
  waiting_.erase(fresh, waiting_.end());
  for (const auto& sequence : all) shares_.leave(sequence->request.owner);
  return all;
}

void Scheduler::requeue(std::vector<std::shared_ptr<Sequence>> sequences) {
  for (auto& sequence : sequences) {
    const auto place = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& other) {
      return never_ran(other) || other->id > sequence->id;
    });
    waiting_.insert(place, std::move(sequence));
  }
}

std::vector<std::shared_ptr<Sequence>> Scheduler::interrupted() const {
  return {waiting_.begin(), std::find_if(waiting_.begin(), waiting_.end(), never_ran)};
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
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const auto& sequence) { return sequence->id == id; });
  if (found == waiting_.end()) return;
  if (never_ran(*found)) shares_.leave((*found)->request.owner);
  waiting_.erase(found);
}

void Scheduler::release(Sequence& sequence) {
  if (sequence.released) return;
  sequence.released = true;
  const auto pool = pools_.find(sequence.epoch);
  const bool kept = planted(SwarmDefect::kReservationKept);
  if (pool != pools_.end() && !kept) pool->second.reserved -= sequence.pages;
  remove_done(sequence);
}

void Scheduler::end(Sequence& sequence) {
  sequence.ended = true;
  remove_done(sequence);
}

// The caller holds a shared pointer, or does not touch the sequence afterwards.
void Scheduler::remove_done(const Sequence& sequence) {
  if (!sequence.ended || !sequence.released) return;
  const auto pool = pools_.find(sequence.epoch);
  if (!running_.contains(sequence.id)) return;
  shares_.refund(sequence.request.owner,
                 fair_cost(0, sequence.request.sampling.max_tokens - sequence.answer.size()));
  if (pool != pools_.end()) --pool->second.running;
  running_.erase(sequence.id);
}

std::uint32_t Scheduler::waiting_of(const std::string& owner) const {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      waiting_, [&owner](const auto& sequence) { return sequence->request.owner == owner; }));
}

std::uint32_t Scheduler::running_of(const std::string& owner) const {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      running_, [&owner](const auto& one) { return one.second->request.owner == owner; }));
}

std::vector<std::shared_ptr<Sequence>> Scheduler::held() const {
  std::vector<std::shared_ptr<Sequence>> sequences;
  for (const auto& [id, sequence] : running_) {
    if (!sequence->ended && sequence->waits_for_hashes()) sequences.push_back(sequence);
  }
  return sequences;
}

}  // namespace hearth::coordinator
