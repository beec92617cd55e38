#include "coordinator/proof/credits.h"

#include <utility>

#include "base/check.h"

namespace hearth::coordinator {

Result<std::int64_t> dearest(const ledger::Policy& policy, std::uint64_t layers,
                             std::uint64_t prompt_tokens, std::uint64_t max_tokens,
                             std::uint64_t cached_tokens) {
  INVARIANT(cached_tokens <= prompt_tokens, "only tokens of the prompt are cached");
  __extension__ using Wide = unsigned __int128;
  constexpr auto kMost = static_cast<Wide>(Credits::kPriceMax);
  const auto prefill = static_cast<std::uint64_t>(policy.price_prefill);
  const Wide tokens = Wide{prompt_tokens - cached_tokens} * prefill +
                      Wide{max_tokens} * static_cast<std::uint64_t>(policy.price_decode);
  // Before the next product, so that none of them leaves the range.
  REQUIRE(tokens <= kMost && layers <= static_cast<std::uint64_t>(Credits::kPriceMax),
          "the request is too large for any price");
  const Wide cached = Wide{cached_tokens} * prefill;
  REQUIRE(cached <= kMost, "the request is too large for any price");
  const Wide pay = tokens * layers + cached * layers *
                                         static_cast<std::uint64_t>(policy.price_cached) /
                                         ledger::kMillion;
  const Wide price = pay + pay * static_cast<std::uint64_t>(policy.price_fee) / ledger::kMillion;
  REQUIRE(pay <= kMost && price <= kMost, "the request would cost more than ", Credits::kPriceMax,
          " credits; ask for fewer tokens (max_tokens)");
  return static_cast<std::int64_t>(price);
}

Result<std::vector<Credits::Hold>> Credits::reserve(const PublicKey& payer,
                                                    const std::vector<Item>& items) {
  const std::lock_guard lock(mutex_);
  if (!fault_.empty()) {
    return Error::of(ErrorCode::kUnavailable,
                     "the ledger has failed, and without it no request can be paid: ", fault_);
  }
  if (held_.size() + items.size() > kHolds) {
    return Error::of(ErrorCode::kNoCapacity,
                     "credit is reserved for too many requests; the limit is ", kHolds,
                     "; retry later");
  }
  std::int64_t sum = 0;
  const auto price_of = [this](const Item& item) {
    return paid_before_.contains(item.request) ? 0 : item.price;
  };
  for (const Item& item : items) {
    const bool sane = item.price >= 0 && item.price <= kPriceMax;
    REQUIRE(sane && !__builtin_add_overflow(sum, price_of(item), &sum), "a price out of its range");
    const auto found = held_.find(item.request);
    if (found != held_.end() && found->second.payer != payer) {
      return Error{ErrorCode::kUnavailable,
                   "another request has the same name; send the request again"};
    }
  }
  Balance& account = accounts_[payer];
  if (sum > account.spendable - account.reserved) {
    const std::string kept = account.reserved > 0
                                 ? ", of which " + std::to_string(account.reserved) +
                                       " are reserved for running requests"
                                 : "";
    return Error::of(ErrorCode::kRefused, "out of credit: the request costs up to ", sum,
                     " credits, and its account has ", account.spendable, kept,
                     "; ask for fewer tokens (max_tokens), or have the cluster's owner grant more: "
                     "hearth ledger grant ",
                     payer.hex(), " AMOUNT");
  }
  account.reserved += sum;
  std::vector<Hold> holds;
  for (const Item& item : items) {
    const auto [found, fresh] = held_.try_emplace(item.request, Held{payer});
    Held& held = found->second;
    INVARIANT(fresh || !held.is_done() || done_ > 0, "each hold that is done is counted");
    if (!fresh && held.is_done()) --done_;  // named again before it was swept
    held.left += price_of(item);
    held.is_over = false;
    held.since.reset();
    ++held.uses;
    holds.emplace_back(nullptr, [self = shared_from_this(), request = item.request](const void*) {
      self->end_hold(request);
    });
  }
  return holds;
}

void Credits::end_hold(const ledger::RequestId& request) {
  std::function<void(const ledger::RequestId&)> queue;
  {
    const std::lock_guard lock(mutex_);
    queue = queue_;
  }
  queue ? queue(request) : close(request);
}

Credits::Balance Credits::balance(const PublicKey& account) const {
  const std::lock_guard lock(mutex_);
  const auto found = accounts_.find(account);
  return found == accounts_.end() ? Balance() : found->second;
}

std::int64_t Credits::in_circulation() const {
  const std::lock_guard lock(mutex_);
  return -treasury_;
}

void Credits::begin(const ledger::Books& books) {
  const std::lock_guard lock(mutex_);
  paid_before_ = books.paid();
  for (const auto& [account, amount] : books.balances()) {
    if (account.kind == ledger::Account::Kind::kTreasury) treasury_ = amount;
    if (account.kind == ledger::Account::Kind::kSpendable) {
      accounts_[account.key].spendable = amount;
    }
  }
}

// Of spendable accounts, only those that were charged here lose anything.
void Credits::posted(std::span<const ledger::Posting> postings) {
  const std::lock_guard lock(mutex_);
  for (const ledger::Posting& one : postings) {
    if (one.account.kind == ledger::Account::Kind::kTreasury) treasury_ += one.amount;
    if (one.account.kind != ledger::Account::Kind::kSpendable) continue;
    Balance& account = accounts_[one.account.key];
    account.spendable += one.amount;
    if (one.amount < 0) account.reserved += one.amount;
  }
}

void Credits::stop(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (fault_.empty()) fault_ = why;
}

void Credits::set_queue(std::function<void(const ledger::RequestId&)> queue) {
  const std::lock_guard lock(mutex_);
  queue_ = std::move(queue);
}

PublicKey Credits::charge(const ledger::RequestId& request, std::int64_t price) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(request);
  if (found == held_.end() || price < 0 || price > found->second.left) return {};
  found->second.left -= price;
  return found->second.payer;
}

void Credits::close(const ledger::RequestId& request) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(request);
  if (found == held_.end() || found->second.uses == 0) return;
  const bool was_done = found->second.is_done();
  --found->second.uses;
  if (!was_done && found->second.is_done()) ++done_;
}

void Credits::over(const ledger::RequestId& request) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(request);
  if (found == held_.end()) return;
  if (!found->second.is_done()) ++done_;
  found->second.is_over = true;
}

void Credits::sweep(const std::function<std::set<ledger::RequestId>()>& unsettled, TimePoint now) {
  const std::lock_guard lock(mutex_);
  if (done_ == 0) return;
  const std::set<ledger::RequestId> waiting = unsettled();
  for (auto one = held_.begin(); one != held_.end();) {
    Held& held = one->second;
    if (!held.is_done()) {
      ++one;
      continue;
    }
    if (!held.since) held.since = now;
    if (waiting.contains(one->first) && now - *held.since < kHeld) {
      ++one;
      continue;
    }
    INVARIANT(held.left >= 0, "a hold pays at most what was kept");
    INVARIANT(done_ > 0, "a hold that is swept is counted as done");
    accounts_[held.payer].reserved -= held.left;
    --done_;
    one = held_.erase(one);
  }
}

}  // namespace hearth::coordinator
