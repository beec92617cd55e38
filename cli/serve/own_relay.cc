#include "cli/serve/own_relay.h"

#include <utility>

namespace hearth::cli {

void OwnRelay::open(std::shared_ptr<TicketBook> tickets, std::uint32_t megabits) {
  rendezvous_ = std::make_unique<Rendezvous>(tickets);
  if (megabits == 0) return;
  RelayOptions options;
  options.bytes_per_second = megabits * kBytesOfMegabit;
  relay_ = std::make_unique<Relay>(std::move(tickets), options);
}

OwnRelay::Expect OwnRelay::expects(const Clock& clock) {
  return [this, &clock](const Ticket& dialler, const Ticket& acceptor, const std::string& account,
                        bool brief) -> Status {
    if (relay_ != nullptr) return relay_->expect(dialler, acceptor, account, clock.now(), brief);
    return Error::of(ErrorCode::kNoCapacity,
                     "this server relays nothing, because --relay-megabits is 0");
  };
}

OwnRelay::Arrange OwnRelay::arranges(const Clock& clock, const std::string& control) {
  return [this, &clock, at = parse_address(control)](
             const Ticket& dialler, const Ticket& acceptor,
             const std::string& account) -> Result<std::uint16_t> {
    TRY(const Address address, at);
    TRY_VOID(rendezvous_->expect(dialler, acceptor, account, clock.now()));
    return address.port;
  };
}

void OwnRelay::keep_members(const Roster& roster) {
  if (relay_ != nullptr) relay_->keep_only(names_of(roster));
}

}  // namespace hearth::cli
