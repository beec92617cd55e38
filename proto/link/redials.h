// Redials: orders to dial a side that may not expect the ticket yet (TcpTransport::meet), which are
// tried again for as long as a ticket is good.
#pragma once

#include <chrono>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "proto/link/route.h"

namespace hearth {

struct Redial {
  Route route;
  TimePoint until{};
  TimePoint next = {};
};

// One thread. Each entry began as a link of this process, so there are as few.
class Redials {
 public:
  // False: its time is over.
  bool put(Redial redial, TimePoint now) {
    redial.next = now + kPause;
    if (redial.next >= redial.until) return false;
    waiting_.push_back(std::move(redial));
    return true;
  }
  // Those whose pause is over; they wait no more.
  std::vector<Redial> take_due(TimePoint now) {
    std::vector<Redial> due;
    for (Redial& redial : std::exchange(waiting_, {})) {
      (redial.next <= now ? due : waiting_).push_back(std::move(redial));
    }
    return due;
  }

 private:
  static constexpr Duration kPause = std::chrono::milliseconds(300);
  static_assert(kPause < std::chrono::seconds(limits::kTicketSeconds), "a ticket is shown again");

  std::vector<Redial> waiting_;
};

}  // namespace hearth
