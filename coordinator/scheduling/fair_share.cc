#include "coordinator/scheduling/fair_share.h"

#include <algorithm>

#include "base/check.h"

namespace hearth::coordinator {

void FairShare::arrive(const std::string& key) {
  std::erase_if(shares_, [this](const auto& entry) {
    return entry.second.waiting == 0 && entry.second.served <= floor_;
  });
  Share& share = shares_[key];
  if (share.waiting++ == 0) share.served = std::max(share.served, floor_);
}

void FairShare::leave(const std::string& key) {
  const auto found = shares_.find(key);
  INVARIANT(found != shares_.end() && found->second.waiting > 0,
            "a key that leaves the queue was in it");
  --found->second.waiting;
}

void FairShare::charge(const std::string& key, std::uint64_t cost) {
  Share& share = shares_[key];
  floor_ = std::max(floor_, share.served);
  share.served += cost;
}

// Never below the floor: a key does not catch up with what others were given meanwhile.
void FairShare::refund(const std::string& key, std::uint64_t cost) {
  const auto found = shares_.find(key);
  if (found == shares_.end() || found->second.served <= floor_) return;
  found->second.served -= std::min(cost, found->second.served - floor_);
  INVARIANT(found->second.served >= floor_, "a refund leaves a key at the floor or above it");
}

std::uint64_t FairShare::served(const std::string& key) const {
  const auto found = shares_.find(key);
  return found == shares_.end() ? floor_ : found->second.served;
}

std::uint32_t FairShare::waiting(const std::string& key) const {
  const auto found = shares_.find(key);
  return found == shares_.end() ? 0 : found->second.waiting;
}

}  // namespace hearth::coordinator
