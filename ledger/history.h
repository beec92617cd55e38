// What happened to one key, read along while a log is folded: joining, work, pay, checks of it and
// by it, verdicts. Like events of one day that follow each other are one, with their number; the
// latest kMost are kept. Pure; one thread.
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
    kVouched,  // joined, and the cluster answers for it
    kChanged,  // driver, build or address
    kGranted,
    kPaid,  // for the windows of its prompts
    kServed,
    kChecked,    // another's window, and found it right
    kDisagreed,  // checked another's window, and found it wrong
    kWasRight,   // its own window, checked by another
    kWasDoubted,
    kFault,
    kFraud,
    kEquivocation,
    kVested,
    kUnjudged,  // a dispute that it was a party of ended without a verdict
  };
  Kind kind = Kind::kJoined;
  std::int64_t time = 0;    // unix seconds, of the first
  std::uint64_t entry = 0;  // of the first
  std::uint64_t count = 1;
  // What the key's accounts gained by all of them; of kVested what left its escrow.
  std::int64_t credits = 0;
};
std::string_view event_name(Event::Kind kind);  // "was_right"

class History {
 public:
  static constexpr std::size_t kMost = 1'000;

  explicit History(const PublicKey& key) : key_(key) {}

  // An entry that `books` have just applied.
  void add(std::uint64_t index, const Entry& entry, const Books& books);

  const std::deque<Event>& events() const { return events_; }
  std::uint64_t forgotten() const { return forgotten_; }  // events before the first of those

 private:
  PublicKey key_;
  std::deque<Event> events_;
  std::uint64_t forgotten_ = 0;
};

}  // namespace hearth::ledger
