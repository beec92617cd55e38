// Limits the handshakes. Each costs us a signature before the peer is authenticated. So their
// number is limited in total, and for one address both number and rate.
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

  // Whether a handshake from this address may begin. Each true needs one end().
  bool begin(const std::string& address, TimePoint now);
  void end(const std::string& address);
  // Whether only the total limit keeps a handshake from this address from beginning: it may begin
  // after another ends.
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
  // The address's record if it has room; null: it has no room.
  Address* find_room(const std::string& address, TimePoint now);
  // Forgets each address that has as much room as a new one.
  void forget(TimePoint now);

  const HandshakeLimits limits_;
  std::uint32_t under_way_ = 0;
  std::map<std::string, Address> addresses_;
};

}  // namespace hearth
