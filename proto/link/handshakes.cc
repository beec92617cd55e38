#include "proto/link/handshakes.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "base/check.h"

namespace hearth {

void Handshakes::refill(Address& address, TimePoint now) const {
  const double seconds = std::chrono::duration<double>(now - address.filled).count();
  address.tokens = std::min<double>(limits_.burst, address.tokens + seconds * limits_.per_second);
  address.filled = now;
}

void Handshakes::forget(TimePoint now) {
  for (auto it = addresses_.begin(); it != addresses_.end();) {
    refill(it->second, now);
    const bool idle = it->second.under_way == 0 && it->second.tokens >= limits_.burst;
    it = idle ? addresses_.erase(it) : std::next(it);
  }
}

Handshakes::Address* Handshakes::find_room(const std::string& address, TimePoint now) {
  auto found = addresses_.find(address);
  if (found == addresses_.end()) {
    if (addresses_.size() >= limits_.addresses) forget(now);
    if (addresses_.size() >= limits_.addresses) return nullptr;
    const Address fresh{0, static_cast<double>(limits_.burst), now};
    found = addresses_.emplace(address, fresh).first;
  }
  Address& one = found->second;
  refill(one, now);
  return one.under_way < limits_.of_address && one.tokens >= 1.0 ? &one : nullptr;
}

bool Handshakes::begin(const std::string& address, TimePoint now) {
  if (under_way_ >= limits_.under_way) return false;
  Address* one = find_room(address, now);
  if (one == nullptr) return false;
  one->tokens -= 1.0;
  ++one->under_way;
  ++under_way_;
  INVARIANT(one->under_way <= limits_.of_address && under_way_ <= limits_.under_way,
            "the handshakes under way stay within both limits");
  return true;
}

bool Handshakes::waits_for_room(const std::string& address, TimePoint now) {
  return under_way_ >= limits_.under_way && find_room(address, now) != nullptr;
}

std::uint32_t Handshakes::under_way(const std::string& address) const {
  const auto found = addresses_.find(address);
  return found == addresses_.end() ? 0 : found->second.under_way;
}

void Handshakes::end(const std::string& address) {
  const auto found = addresses_.find(address);
  INVARIANT(found != addresses_.end() && found->second.under_way > 0 && under_way_ > 0,
            "every end has its begin");
  --found->second.under_way;
  --under_way_;
}

}  // namespace hearth
