#include "coordinator/scheduler.h"

#include <algorithm>

#include "base/limits.h"
#include "proto/split.h"

namespace hearth::coordinator {
namespace {

std::uint32_t pages_wanted(std::uint64_t tokens, const KvPool& pool) {
  return pages_for(static_cast<std::uint32_t>(tokens), pool.page_tokens);
}

}  // namespace

static_assert(std::uint64_t{limits::kModelContext} * 2 < 0xFFFFFFFFULL,
              "prompt + max_tokens counts in 32 bits");

void Scheduler::add_pool(Epoch epoch, std::uint32_t pages, std::uint32_t page_tokens) {
  pools_[epoch] = {pages, page_tokens, 0, 0};
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

Status Scheduler::fits_somewhere(std::uint64_t tokens) const {
  std::uint64_t most = 0;
  for (const auto& [epoch, pool] : pools_) {
    if (pages_wanted(tokens, pool) <= pool.pages) return ok_status();
    most = std::max(most, std::uint64_t{pool.pages} * pool.page_tokens);
  }
  return Error{ErrorCode::kNoCapacity, "the KV cache holds " + std::to_string(most) +
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
  if (waiting_.empty()) return nullptr;
  const std::uint64_t tokens = waiting_.front()->tokens_wanted();
  Epoch best;
  KvPool* best_pool = nullptr;
  for (auto& [epoch, pool] : pools_) {
    const std::uint32_t free = pool.pages - pool.reserved;
    if (pool.running >= limits::kRunningSequences || pages_wanted(tokens, pool) > free) continue;
    if (best_pool != nullptr && free <= best_pool->pages - best_pool->reserved) continue;
    best = epoch;
    best_pool = &pool;
  }
  if (best_pool == nullptr) return nullptr;
  std::shared_ptr<Sequence> sequence = std::move(waiting_.front());
  waiting_.pop_front();
  sequence->epoch = best;
  sequence->pages = pages_wanted(tokens, *best_pool);
  best_pool->reserved += sequence->pages;
  ++best_pool->running;
  running_.emplace(sequence->id, sequence);
  return sequence;
}

std::shared_ptr<Sequence> Scheduler::pop_unfit() {
  if (waiting_.empty() || pools_.empty()) return nullptr;
  if (fits_somewhere(waiting_.front()->tokens_wanted()).ok()) return nullptr;
  std::shared_ptr<Sequence> sequence = std::move(waiting_.front());
  waiting_.pop_front();
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
