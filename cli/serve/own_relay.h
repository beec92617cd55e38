// OwnRelay: the coordinator's part in links that no side can dial: its relay (proto/link/relay.h),
// which --relay-megabits limits or switches off, and its rendezvous (proto/link/rendezvous.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "proto/link/relay.h"
#include "proto/link/rendezvous.h"
#include "proto/roster.h"

namespace hearth::cli {

// Main thread.
class OwnRelay {
 public:
  using Expect = std::function<Status(const Ticket& dialler, const Ticket& acceptor,
                                      const std::string& account, bool brief)>;

  // `megabits`: a second, at most; 0: no relay.
  void open(std::shared_ptr<TicketBook> tickets, std::uint32_t megabits);
  // CoordinatorOptions::relay. This object and the clock must outlive it.
  Expect expects(const Clock& clock);
  using Arrange = std::function<Result<std::uint16_t>(const Ticket& dialler, const Ticket& acceptor,
                                                      const std::string& account)>;
  // CoordinatorOptions::punch, likewise. `control`: the address of the control port.
  Arrange arranges(const Clock& clock, const std::string& control);
  // Ends the links of nodes that are not in the roster.
  void keep_members(const Roster& roster);

 private:
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<Rendezvous> rendezvous_;
};

}  // namespace hearth::cli
