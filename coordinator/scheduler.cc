#include "coordinator/scheduler.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/limits.h"
#include "proto/split.h"

namespace hearth::coordinator {
namespace {

std::uint32_t pages_wanted(std::uint64_t tokens, const KvPool& pool) {
  return pages_for(static_cast<std::uint32_t>(tokens), pool.page_tokens);
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The stage of the pipeline that the sequence must not reach; null: none.
const std::string* untrusted(const Sequence& sequence, const KvPool& pool) {
  const std::vector<std::string>& trust = sequence.request.trust;
  if (trust.empty()) return nullptr;
  const auto outside = std::find_if(pool.nodes.begin(), pool.nodes.end(),
                                    [&](const auto& node) { return !contains(trust, node); });
  return outside == pool.nodes.end() ? nullptr : &*outside;
}

}  // namespace

static_assert(std::uint64_t{limits::kModelContext} * 2 < 0xFFFFFFFFULL,
              "prompt + max_tokens counts in 32 bits");

void Scheduler::add_pool(Epoch epoch, std::uint32_t pages, std::uint32_t page_tokens,
                         std::vector<std::string> nodes) {
  pools_[epoch] = {pages, page_tokens, 0, 0, std::move(nodes)};
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
  const std::string* outside = nullptr;
  for (const auto& [epoch, pool] : pools_) {
    if (const std::string* node = untrusted(sequence, pool)) {
      outside = node;
      continue;
    }
    if (pages_wanted(tokens, pool) <= pool.pages) return ok_status();
    most = std::max(most.value_or(0), std::uint64_t{pool.pages} * pool.page_tokens);
  }
  if (!most && outside != nullptr) {
    return Error{ErrorCode::kRefused,
                 "no pipeline that serves stays inside the trust set: " + *outside + " is outside"};
  }
  return Error{ErrorCode::kNoCapacity, "the KV cache holds " + std::to_string(most.value_or(0)) +
                                           " tokens in all; prompt and "
                                           "max_tokens ask for " +
                                           std::to_string(tokens)};
}

Status Scheduler::enqueue(std::shared_ptr<Sequence> sequence) {
  if (waiting_.size() >= limits::kWaitingSequences) {
    return Error{ErrorCode::kNoCapacity, "the queue holds " +
                                             std::to_string(limits::kWaitingSequences) +
                                             " waiting sequences, which is its limit"};
  }
  waiting_.push_back(std::move(sequence));
  return ok_status();
}

std::shared_ptr<Sequence> Scheduler::admit() {
  std::set<Epoch> claimed;  // by older sequences, which wait for room there
  for (auto it = waiting_.begin(); it != waiting_.end() && claimed.size() < pools_.size(); ++it) {
    const Sequence& waiting = **it;
    const std::uint64_t tokens = waiting.tokens_wanted();
    Epoch best;
    KvPool* best_pool = nullptr;
    for (auto& [epoch, pool] : pools_) {
      if (claimed.contains(epoch) || untrusted(waiting, pool) != nullptr) continue;
      const std::uint32_t free = pool.pages - pool.reserved;
      if (pool.running >= limits::kRunningSequences || pages_wanted(tokens, pool) > free) continue;
      if (best_pool != nullptr && free <= best_pool->pages - best_pool->reserved) continue;
      best = epoch;
      best_pool = &pool;
    }
    if (best_pool != nullptr) return reserve(it, best, *best_pool);
    for (const auto& [epoch, pool] : pools_) {
      if (untrusted(waiting, pool) == nullptr) claimed.insert(epoch);
    }
  }
  return nullptr;
}

std::shared_ptr<Sequence> Scheduler::reserve(Waiting::iterator place, Epoch epoch, KvPool& pool) {
  std::shared_ptr<Sequence> sequence = std::move(*place);
  waiting_.erase(place);
  sequence->epoch = epoch;
  sequence->pages = pages_wanted(sequence->tokens_wanted(), pool);
  pool.reserved += sequence->pages;
  ++pool.running;
  running_.emplace(sequence->id, sequence);
  return sequence;
}

std::shared_ptr<Sequence> Scheduler::pop_unfit() {
  if (pools_.empty()) return nullptr;
  const auto unfit = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& sequence) {
    return !fits_somewhere(*sequence).ok();
  });
  if (unfit == waiting_.end()) return nullptr;
  std::shared_ptr<Sequence> sequence = std::move(*unfit);
  waiting_.erase(unfit);
  return sequence;
}

std::vector<std::shared_ptr<Sequence>> Scheduler::take_waiting() {
  std::vector<std::shared_ptr<Sequence>> all(waiting_.begin(), waiting_.end());
  waiting_.clear();
  return all;
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
  std::erase_if(waiting_, [&](const auto& sequence) { return sequence->id == id; });
}

void Scheduler::release(Sequence& sequence) {
  if (sequence.released) return;
  sequence.released = true;
  const auto pool = pools_.find(sequence.epoch);
  if (pool != pools_.end()) pool->second.reserved -= sequence.pages;
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
  const bool known = running_.erase(sequence.id) > 0;
  if (known && pool != pools_.end()) --pool->second.running;
}

std::vector<std::shared_ptr<Sequence>> Scheduler::held() const {
  std::vector<std::shared_ptr<Sequence>> sequences;
  for (const auto& [id, sequence] : running_) {
    if (!sequence->ended && sequence->waits_for_hashes()) sequences.push_back(sequence);
  }
  return sequences;
}

}  // namespace hearth::coordinator
