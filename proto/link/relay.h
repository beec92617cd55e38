// Relay: forwards the bytes of links between two nodes that cannot connect to each other. Both
// connect to the relay, each with one ticket of a pair. It has no keys: the TLS session of the two
// nodes runs through it, so it can end a link or delay it, and can neither read nor change it.
//
// It forwards only between two connections whose tickets the coordinator drew as a pair for two
// members, and never dials anywhere.
//
// Threads: a thread of its own forwards. The methods belong to the main thread, which owns the
// TicketBook.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "proto/link/tickets.h"

namespace hearth {

inline constexpr std::uint64_t kBytesOfMegabit = 125'000;

struct RelayOptions {
  std::uint32_t links = limits::kRelayedLinks;                // forwarded or expected
  std::uint32_t links_of_node = limits::kRelayedLinksOfNode;  // of those, of one account
  std::uint64_t bytes_per_second = limits::kRelayMegabits * kBytesOfMegabit;  // of all links
  std::uint32_t brief_links = limits::kBriefLinks;  // of those, for commands
  std::uint32_t brief_links_of_node = limits::kBriefLinksOfNode;
  Duration idle = std::chrono::seconds(limits::kRelayIdleSeconds);
  Duration brief = std::chrono::seconds(limits::kBriefLinkSeconds);
};

class Relay {
 public:
  Relay(std::shared_ptr<TicketBook> tickets, const RelayOptions& options);
  ~Relay();  // ends every link
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Expects two connections and forwards between them. `account`: the node to which the link
  // counts. `brief`: for a command, with lower limits, so that commands leave room for pipelines.
  // kNoCapacity when a limit is reached.
  Status expect(const Ticket& dialler, const Ticket& acceptor, const std::string& account,
                TimePoint now, bool brief = false);
  // Ends the links of other accounts, now and when both of their ends have come.
  void keep_only(std::set<std::string> accounts);

  struct Figures {
    std::uint32_t links = 0;        // with both ends
    std::uint64_t bytes_total = 0;  // both directions
  };
  Figures figures() const;

 private:
  struct Core;
  struct Pair;
  const std::shared_ptr<TicketBook> tickets_;
  const std::shared_ptr<Core> core_;
};

}  // namespace hearth
