// Who may begin a handshake now: a stranger's handshake costs us a signature, so their number is
// limited in all, and from one address in number and in rate.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/limits.h"

namespace hearth {

struct HandshakeLimits {
  std::uint32_t under_way = limits::kHandshakes;
  std::uint32_t of_address = limits::kHandshakesAddress;
  std::uint32_t burst = limits::kHandshakesBurst;
  std::uint32_t per_second = limits::kHandshakesPerSecond;
  std::uint32_t addresses = limits::kHandshakeAddresses;
};

// Not thread-safe.
class Handshakes {
 public:
  explicit Handshakes(const HandshakeLimits& limits) : limits_(limits) {}

  // Whether one of this address may begin; each true is answered with one end().
  bool begin(const std::string& address, TimePoint now);
  void end(const std::string& address);
  // That nothing but the limit of all keeps one of this address from beginning: another's end lets
  // it in.
  bool waits_for_room(const std::string& address, TimePoint now);
  std::uint32_t under_way() const { return under_way_; }
  std::uint32_t under_way(const std::string& address) const;
  std::size_t remembered() const { return addresses_.size(); }

 private:
  struct Address {
    std::uint32_t under_way = 0;
    double tokens = 0.0;
    TimePoint filled{};
  };
  void refill(Address& address, TimePoint now) const;
  // The one with room of its own; null: it has none.
  Address* find_room(const std::string& address, TimePoint now);
  // Forgets each address that has as much room as one that was never seen.
  void forget(TimePoint now);

  const HandshakeLimits limits_;
  std::uint32_t under_way_ = 0;
  std::map<std::string, Address> addresses_;
};

}  // namespace hearth
