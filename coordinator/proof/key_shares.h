// KeyShares: divides a bounded number of places among owners. An owner may take at most as many as
// it leaves free: alone it gets half, and another owner always finds some. Owners are ids of API
// keys; the empty one stands for all requests without a key. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

#include "base/check.h"

namespace hearth::coordinator {

class KeyShares {
 public:
  bool has_room(const std::string& owner, std::size_t places, std::size_t count = 1) const {
    return total_ + count <= places && held(owner) + count <= places - total_;
  }
  void take(const std::string& owner, std::size_t count = 1) {
    if (count == 0) return;
    held_[owner] += count;
    total_ += count;
  }
  void give_back(const std::string& owner, std::size_t count = 1) {
    if (count == 0) return;
    const auto found = held_.find(owner);
    INVARIANT(found != held_.end() && found->second >= count, "what is given back was taken");
    found->second -= count;
    total_ -= count;
    if (found->second == 0) held_.erase(found);
  }
  std::size_t total() const { return total_; }
  // The owner with the most places; empty when all are free.
  std::string heaviest() const {
    const auto most =
        std::ranges::max_element(held_, {}, [](const auto& one) { return one.second; });
    return most == held_.end() ? std::string() : most->first;
  }

 private:
  std::size_t held(const std::string& owner) const {
    const auto found = held_.find(owner);
    return found == held_.end() ? 0 : found->second;
  }

  std::map<std::string, std::size_t> held_;
  std::size_t total_ = 0;
};

}  // namespace hearth::coordinator
