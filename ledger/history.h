// History: what happened to one key, collected while a log is folded: joining, work, pay, audits of
// it and by it, verdicts. Consecutive equal events of one day become one event with a count. The
// latest kMost events are kept. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>

#include "ledger/books.h"
#include "ledger/entry.h"

namespace hearth::ledger {

struct Event {
  enum class Kind : std::uint8_t {
    kJoined,
    kVouched,  // joined with the cluster's vouching: no newcomer
    kChanged,  // driver, build or address
    kGranted,
    kPaid,  // its account paid for windows of its requests
    kServed,
    kChecked,    // audited another's window and agreed
    kDisagreed,  // audited another's window and disagreed
    kWasRight,   // an auditor agreed with its window
    kWasDoubted,
    kFault,
    kFraud,
    kEquivocation,
    kVested,
    kUnjudged,  // its dispute ended without a verdict
  };
  Kind kind = Kind::kJoined;
  std::int64_t time = 0;    // unix seconds, of the first of `count`
  std::uint64_t entry = 0;  // of the first of `count`
  std::uint64_t count = 1;
  // Credits that the key's accounts gained by all of them; for kVested, that left its escrow.
  std::int64_t credits = 0;
};
std::string_view event_name(Event::Kind kind);  // "was_right"

class History {
 public:
  static constexpr std::size_t kMost = 1'000;

  explicit History(const PublicKey& key) : key_(key) {}

  // Takes an entry that `books` has just applied.
  void add(std::uint64_t index, const Entry& entry, const Books& books);

  const std::deque<Event>& events() const { return events_; }
  std::uint64_t forgotten() const { return forgotten_; }  // events dropped before events()

 private:
  PublicKey key_;
  std::deque<Event> events_;
  std::uint64_t forgotten_ = 0;
};

}  // namespace hearth::ledger
