#include "tests/emulated/block_order.h"

#include <algorithm>

namespace hearth::emulated {
namespace {

constexpr unsigned kWarp = 32;

}  // namespace

Event Event::at(const Moment& now) {
  return {now.block, now.barrier, now.meeting, now.fences, now.thread};
}

std::uint16_t Event::warp() const {
  if (thread == kMany) return kMany;
  return static_cast<std::uint16_t>(thread < kWarps ? thread / kWarp : thread - kWarps);
}

bool Event::before(const Moment& now) const {
  if (block == 0) return true;
  if (block != now.block) return block != kManyBlocks && now.order->seen(*this, now.thread);
  if (barrier < now.barrier || thread == now.thread) return true;
  return warp() == now.thread / kWarp && meeting < now.meeting;
}

void Event::add(const Moment& now) {
  if (block == 0 || (block == now.block && barrier < now.barrier)) {
    *this = at(now);
  } else if (block != now.block) {
    *this = before(now) ? at(now) : Event{kManyBlocks, 0, 0, 0, kMany};
  } else if (warp() != now.thread / kWarp) {
    thread = kMany;
    fences = std::max(fences, now.fences);
  } else if (meeting < now.meeting) {
    *this = at(now);
  } else if (thread != now.thread) {
    thread = static_cast<std::uint16_t>(kWarps + now.thread / kWarp);
    fences = std::max(fences, now.fences);
  } else {
    fences = now.fences;
  }
}

void BlockOrder::begin_launch() {
  words_.clear();
  chains_.clear();
  crowds_.clear();
}

void BlockOrder::begin_block(std::uint32_t block, unsigned threads) {
  block_ = block;
  fences_.assign(threads, 0);
  fence_barriers_.assign(threads, 0);
  taken_.assign(threads, 0);
  fenced_ = fencing_ = 0;
  any_fence_ = false;
  at_barrier_.reset();
  tickets_.clear();
  own_.clear();
  waiting_.clear();
  taken_by_all_ = 0;
  seen_.clear();
}

void BlockOrder::fence(unsigned thread, std::uint32_t barriers) {
  if (fences_[thread] < 0xFFFFU) ++fences_[thread];
  fence_barriers_[thread] = fencing_ = barriers;
  any_fence_ = true;
  taken_[thread] = waiting_.size();
  for (const Seen& ticket : tickets_) {
    if (ticket.first == thread) own_.push_back(ticket);
  }
}

void BlockOrder::barrier() {
  if (any_fence_) {
    at_barrier_ = std::make_shared<const std::vector<std::uint16_t>>(fences_);
    fenced_ = fencing_;
    taken_by_all_ = std::max(taken_by_all_, *std::max_element(taken_.begin(), taken_.end()));
    any_fence_ = false;
  }
  for (const Seen& ticket : own_) seen_.push_back(ticket.second);
  own_.clear();
  for (const Seen& ticket : tickets_) waiting_.push_back(ticket.second);
  tickets_.clear();
}

void BlockOrder::ticket(std::uintptr_t word, unsigned thread) {
  const auto [found, is_new] = words_.try_emplace(word, chains_.size());
  if (is_new) chains_.emplace_back();
  tickets_.emplace_back(thread, found->second);
  chains_[found->second][block_] = {thread, fences_[thread], at_barrier_,
                                    std::max(fenced_, fence_barriers_[thread])};
}

bool BlockOrder::Release::covers(const Event& event) const {
  if (event.barrier < barriers) return true;
  const auto fenced = [&](unsigned t) {
    return (at_barrier != nullptr && event.fences < (*at_barrier)[t]) ||
           (t == thread && event.fences < fences);
  };
  if (event.thread < Event::kWarps) return fenced(event.thread);
  if (at_barrier == nullptr) return false;
  const bool warp = event.thread != Event::kMany;
  const unsigned first = warp ? event.warp() * kWarp : 0;
  const unsigned last = warp ? first + kWarp : static_cast<unsigned>(at_barrier->size());
  for (unsigned t = first; t < last; ++t) {
    if (!fenced(t)) return false;
  }
  return true;
}

bool BlockOrder::holds(std::size_t chain, const Event& event) const {
  const auto found = chains_[chain].find(event.block);
  return found != chains_[chain].end() && found->second.covers(event);
}

bool BlockOrder::seen(const Event& event, unsigned thread) const {
  for (const std::size_t chain : seen_) {
    if (holds(chain, event)) return true;
  }
  const std::size_t taken = std::max(taken_[thread], taken_by_all_);
  for (std::size_t i = 0; i < taken; ++i) {
    if (holds(waiting_[i], event)) return true;
  }
  for (const Seen& ticket : own_) {
    if (ticket.first == thread && holds(ticket.second, event)) return true;
  }
  return false;
}

std::uint32_t BlockOrder::new_crowd(const Event& first) {
  crowds_.push_back({first});
  return static_cast<std::uint32_t>(crowds_.size() - 1);
}

}  // namespace hearth::emulated
