// Credits: the spendable credit of accounts, and the part reserved for running requests
// (ledger/PROTOCOL.md, 5). A request starts when its highest possible price is reserved. Its
// receipts are paid from the reservation, or by no account, so no entry is refused for lack of
// credit. The reservation is freed when no more receipts can come.
//
// Balances come from the fold of the log; nothing here outlives the process. Receipts of a request
// come after its end. So a resumed request that was already paid for had ended in the earlier
// process, and only its answer was lost: it is recomputed without another charge. Bounded by
// kHolds. Any thread, unless stated otherwise; over() and sweep() are called in the receipts'
// order.
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

// The maximum price of a request with the fee: its prompt, of which `cached` tokens are cached, and
// all allowed tokens, in all layers. kInvalidInput beyond kPriceMax.
Result<std::int64_t> dearest(const ledger::Policy& policy, std::uint64_t layers,
                             std::uint64_t prompt_tokens, std::uint64_t max_tokens,
                             std::uint64_t cached_tokens = 0);

class Credits : public std::enable_shared_from_this<Credits> {
 public:
  static constexpr std::size_t kHolds = 65'536;  // requests
  static constexpr std::int64_t kPriceMax = std::int64_t{1} << 53;
  // Limit of the credit in circulation, so that no balance or sum overflows.
  static constexpr std::int64_t kCirculationMax = std::int64_t{1} << 60;
  // Maximum life of an ended request's reservation.
  static constexpr Duration kHeld = std::chrono::minutes(5);

  struct Item {
    ledger::RequestId request{};
    std::int64_t price = 0;  // dearest()
  };
  struct Balance {
    std::int64_t spendable = 0;  // by the log, reservations included
    // The part reserved for running requests and outstanding receipts: the rest of its holds, and
    // charges not folded yet.
    std::int64_t reserved = 0;
  };
  // The last copy is destroyed when no more of the request will begin.
  using Hold = std::shared_ptr<const void>;

  // Reserves all or nothing. kRefused: the account has too little; the sentence names its balance
  // and the next step. kNoCapacity: too many requests at once. kUnavailable: the ledger has failed.
  Result<std::vector<Hold>> reserve(const PublicKey& payer, const std::vector<Item>& items);
  Balance balance(const PublicKey& account) const;
  std::int64_t in_circulation() const;

  // --- the receipts' thread ---

  // Begins with the books of the log read at the start.
  void begin(const ledger::Books& books);
  // An entry was folded.
  void posted(std::span<const ledger::Posting> postings);
  // The fold has stopped for this reason: no account can pay.
  void stop(const std::string& why);
  // Queues the ends of holds behind all messages about their requests; null: no queue.
  void set_queue(std::function<void(const ledger::RequestId&)> queue);
  // The account that pays for a window at this price, with the fee; the empty key when no
  // reservation covers it.
  PublicKey charge(const ledger::RequestId& request, std::int64_t price);
  void close(const ledger::RequestId& request);  // its hold ended
  void over(const ledger::RequestId& request);   // it ended in a pipeline and will not be resumed
  // Frees the reservations of closed or ended requests without outstanding receipts. `unsettled`:
  // requests that may still get receipts.
  void sweep(const std::function<std::set<ledger::RequestId>()>& unsettled, TimePoint now);

 private:
  struct Held {
    PublicKey payer;
    std::int64_t left = 0;
    std::uint32_t uses = 0;  // holds
    bool is_over = false;
    std::optional<TimePoint> since = {};  // when sweep() first saw it closed or ended
    bool is_done() const { return is_over || uses == 0; }
  };
  void end_hold(const ledger::RequestId& request);

  mutable std::mutex mutex_;
  std::map<PublicKey, Balance> accounts_;
  std::map<ledger::RequestId, Held> held_;
  std::set<ledger::RequestId> paid_before_;  // paid before this process started
  std::size_t done_ = 0;                     // those of held_ with is_done()
  std::int64_t treasury_ = 0;
  std::string fault_;
  std::function<void(const ledger::RequestId&)> queue_;
};

}  // namespace hearth::coordinator
