// Credits: what the accounts of a ledger can spend, and what of it is kept for requests that run
// (ledger/PROTOCOL.md, 5). A request starts when its dearest end is covered, and every receipt of
// it is paid from what was kept, or by no account: so no entry that this class names a payer for
// can be refused for lack of credit. What is kept is free again when no more receipts can come.
//
// Balances are those of the log's fold; nothing of this class outlives its process. Receipts of a
// request come when all of it is over, so one that goes on in this process and was paid for in the
// one before had come to its end there, and only its answer was lost: it is computed again, and
// costs nothing more. Bounded: kHolds. Any thread, unless said otherwise; the order of over() and
// sweep() is the receipts'.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/result.h"
#include "ledger/books.h"
#include "ledger/receipt.h"

namespace hearth::coordinator {

// What a request may cost at most, with the fee: its prompt, of which so many tokens are cached,
// and all tokens that it may have, in all layers. kInvalidInput beyond kPriceMax.
Result<std::int64_t> dearest(const ledger::Policy& policy, std::uint64_t layers,
                             std::uint64_t prompt_tokens, std::uint64_t max_tokens,
                             std::uint64_t cached_tokens = 0);

class Credits : public std::enable_shared_from_this<Credits> {
 public:
  static constexpr std::size_t kHolds = 65'536;  // requests
  static constexpr std::int64_t kPriceMax = std::int64_t{1} << 53;
  // In circulation: so no account and no sum of them leaves the range of its number.
  static constexpr std::int64_t kCirculationMax = std::int64_t{1} << 60;
  // Of a request that is over, at most, whatever is still to come of its receipts.
  static constexpr Duration kHeld = std::chrono::minutes(5);

  struct Item {
    ledger::RequestId request{};
    std::int64_t price = 0;  // dearest()
  };
  struct Balance {
    std::int64_t spendable = 0;  // by the log, with what is kept
    // Of it, for requests that run or whose receipts are to come: what is left of its holds, and
    // charges that are not folded yet.
    std::int64_t reserved = 0;
  };
  // Its last copy goes when nothing more of the request will begin.
  using Hold = std::shared_ptr<const void>;

  // All or nothing. kRefused: the account has too little; the sentence says what it has and what to
  // do. kNoCapacity: too many requests at once. kUnavailable: the ledger is not kept any more.
  Result<std::vector<Hold>> reserve(const PublicKey& payer, const std::vector<Item>& items);
  Balance balance(const PublicKey& account) const;
  std::int64_t in_circulation() const;

  // --- the receipts' thread ---

  // Of a log that was read.
  void begin(const ledger::Books& books);
  // An entry was folded.
  void posted(std::span<const ledger::Posting> postings);
  // Nothing is folded any more, for this reason: no account can pay.
  void stop(const std::string& why);
  // Where holds that end are queued behind all that was said of their requests; null: nowhere.
  void set_queue(std::function<void(const ledger::RequestId&)> queue);
  // Whose credit pays for a window at this price, with the fee; the empty key when nothing covers
  // it.
  PublicKey charge(const ledger::RequestId& request, std::int64_t price);
  void close(const ledger::RequestId& request);  // its hold ended
  void over(const ledger::RequestId& request);   // it ended in a pipeline, and begins in no other
  // Frees what is kept for requests that are closed or over and have no receipts to come.
  // `unsettled`: those that may have some.
  void sweep(const std::function<std::set<ledger::RequestId>()>& unsettled, TimePoint now);

 private:
  struct Held {
    PublicKey payer;
    std::int64_t left = 0;
    std::uint32_t uses = 0;  // holds
    bool is_over = false;
    std::optional<TimePoint> since = {};  // since when it is closed or over, as sweep() sees it
    bool is_done() const { return is_over || uses == 0; }
  };
  void end_hold(const ledger::RequestId& request);

  mutable std::mutex mutex_;
  std::map<PublicKey, Balance> accounts_;
  std::map<ledger::RequestId, Held> held_;
  std::set<ledger::RequestId> paid_before_;  // as the log began
  std::size_t done_ = 0;                     // of them
  std::int64_t treasury_ = 0;
  std::string fault_;
  std::function<void(const ledger::RequestId&)> queue_;
};

}  // namespace hearth::coordinator
