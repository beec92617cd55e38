// FairShare: the order in which API keys take turns, by the tokens that each has received: the
// virtual token counter of Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024). A
// key is charged for its tokens; a generated token costs as much as two prompt tokens. The least
// served key goes first. A key that returns after a pause is raised to the others' level, so that
// it cannot save up turns. A plain state machine, for the scheduler's thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "base/check.h"

namespace hearth::coordinator {

class FairShare {
 public:
  // A sequence of the key begins to wait, or stops waiting.
  void arrive(const std::string& key) {
    std::erase_if(shares_, [this](const auto& entry) {
      return entry.second.waiting == 0 && entry.second.served <= floor_;
    });
    Share& share = shares_[key];
    if (share.waiting++ == 0) share.served = std::max(share.served, floor_);
  }
  void leave(const std::string& key) {
    const auto found = shares_.find(key);
    INVARIANT(found != shares_.end() && found->second.waiting > 0,
              "a key that leaves the queue was in it");
    --found->second.waiting;
  }
  // Charges a starting sequence, or refunds unused tokens at its end.
  void charge(const std::string& key, std::uint64_t cost) {
    Share& share = shares_[key];
    floor_ = std::max(floor_, share.served);
    share.served += cost;
  }
  // Never below the floor: a key does not catch up on what others received meanwhile.
  void refund(const std::string& key, std::uint64_t cost) {
    const auto found = shares_.find(key);
    if (found == shares_.end() || found->second.served <= floor_) return;
    found->second.served -= std::min(cost, found->second.served - floor_);
    INVARIANT(found->second.served >= floor_, "a refund leaves a key at the floor or above it");
  }

  std::uint64_t served(const std::string& key) const {
    const auto found = shares_.find(key);
    return found == shares_.end() ? floor_ : found->second.served;
  }
  std::uint32_t waiting(const std::string& key) const {
    const auto found = shares_.find(key);
    return found == shares_.end() ? 0 : found->second.waiting;
  }

 private:
  struct Share {
    std::uint64_t served = 0;
    std::uint32_t waiting = 0;
  };
  // Without keys that equal a new one: no waiting sequences, and nothing above the floor.
  std::map<std::string, Share> shares_;
  std::uint64_t floor_ = 0;  // the highest level of a key at the start of a sequence so far
};

// The cost of a sequence with so many tokens.
constexpr std::uint64_t fair_cost(std::uint64_t prompt_tokens, std::uint64_t generated) {
  return prompt_tokens + 2 * generated;
}

}  // namespace hearth::coordinator
