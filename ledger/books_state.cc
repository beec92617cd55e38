#include "ledger/books_state.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ledger/fields.h"

namespace hearth::ledger {
namespace {

constexpr std::string_view kMagic = "hearth books v1";

void flag(FieldWriter& a, bool is_set) { a(static_cast<std::uint8_t>(is_set ? 1 : 0)); }
void flag(FieldReader& a, bool& is_set) {
  std::uint8_t value = 0;
  a(value);
  a.check(value <= 1, "a flag of " + std::to_string(value) + "; it is 0 or 1");
  is_set = value == 1;
}

// Elements of sets, deques and vectors.
template <typename List, typename Each>
void list(FieldWriter& a, const List& all, Each each) {
  a(static_cast<std::uint64_t>(all.size()));
  for (const auto& one : all) each(one);
}
// An element takes bytes, so that `all` is no longer than what is read.
template <typename List, typename Each>
void list(FieldReader& a, List& all, Each each) {
  std::uint64_t left = 0;
  for (a(left); left > 0 && a.status && !a.in.failed(); --left) {
    typename List::value_type one{};
    each(one);
    all.insert(all.end(), std::move(one));
  }
}
template <typename Map, typename Each>
void map(FieldWriter& a, const Map& all, Each each) {
  a(static_cast<std::uint64_t>(all.size()));
  for (const auto& [key, value] : all) each(key, value);
}
template <typename Map, typename Each>
void map(FieldReader& a, Map& all, Each each) {
  std::uint64_t left = 0;
  for (a(left); left > 0 && a.status && !a.in.failed(); --left) {
    typename Map::key_type key{};
    typename Map::mapped_type value{};
    each(key, value);
    all.emplace_hint(all.end(), std::move(key), std::move(value));
  }
}

void kind_field(FieldWriter& a, const Account& account) {
  a(static_cast<std::uint8_t>(account.kind));
}
void kind_field(FieldReader& a, Account& account) {
  std::uint8_t kind = 0;
  a(kind);
  a.check(kind <= static_cast<std::uint8_t>(Account::Kind::kEscrow),
          "an account of kind " + std::to_string(kind) + ", which is unknown");
  account.kind = static_cast<Account::Kind>(kind);
}

}  // namespace

template <typename Fields, typename Part>
void BooksState::standing_fields(Fields& a, Part& standing) {
  a(standing.joined_);
  flag(a, standing.paid_dues_);
  flag(a, standing.tombstoned_);
  a(standing.checks_, standing.days_, standing.last_day_, standing.served_, standing.right_,
    standing.changed_, standing.escrow_);
  list(a, standing.earned_, [&a](auto& one) {
    a(one.amount, one.time, one.window);
    flag(a, one.is_withheld);
  });
  list(a, standing.faults_, [&a](auto& time) { a(time); });
}

template <typename Fields, typename Part>
void BooksState::window_fields(Fields& a, Part& window) {
  a(window.pay, window.time);
  map(a, window.seals, [&a](auto& auditor, auto& seal) { a(auditor, seal); });
  list(a, window.opened, [&a](auto& auditor) { a(auditor); });
  list(a, window.disagree, [&a](auto& auditor) { a(auditor); });
  flag(a, window.is_settled);
  flag(a, window.is_first_use);
  flag(a, window.is_selected);
  flag(a, window.is_refereed);
  flag(a, window.is_audited);
}

template <typename Fields, typename Part>
void BooksState::fields(Fields& a, Part& books) {
  a.key_or_empty(books.cluster_);
  a(books.entries_, books.time_);
  map(a, books.members_, [&a](auto& key, auto& member) {
    a(key, member.owner, member.latest);
    standing_fields(a, member.standing);
    list(a, member.programs, [&a](auto& program) { a(program); });
    a(member.unjudged);
  });
  map(a, books.balances_, [&a](auto& account, auto& amount) {
    kind_field(a, account);
    a.key_or_empty(account.key);
    a(amount);
  });
  map(a, books.windows_, [&a](auto& entry, auto& window) {
    a(entry);
    window_fields(a, window);
  });
  a(books.edge_.size_);
  for (auto& level : books.edge_.levels_) list(a, level, [&a](auto& hash) { a(hash); });
  a(books.drawn_);
  list(a, books.selected_, [&a](auto& entry) { a(entry); });
  list(a, books.shared_, [&a](auto& one) { a(one.first, one.second); });
  auto& counts = books.audits_;
  a(counts.draws, counts.selected, counts.agreed, counts.disagreed, counts.missed, counts.refereed,
    counts.referee_missed, counts.unjudged);
}

Bytes BooksState::write(const Books& books) {
  FieldWriter out{pack(kMagic, std::uint8_t{0}, policy_hash(books.policy_))};
  fields(out, books);
  flag(out, books.draw_.has_value());
  if (books.draw_) out(books.draw_->seed_);
  return std::move(out.bytes);
}

Result<BooksState> BooksState::read(ByteSpan bytes, const Policy& policy,
                                    EntrySignatures signatures) {
  const Bytes head = pack(kMagic, std::uint8_t{0}, policy_hash(policy));
  REQUIRE(bytes.size() >= head.size() && std::ranges::equal(bytes.first(head.size()), head),
          "the bytes are not books of this format and policy");
  BooksState state(Books(policy, signatures));
  FieldReader in{ByteReader(bytes.subspan(head.size()))};
  fields(in, state.books_);
  bool is_drawn = false;
  flag(in, is_drawn);
  Hash256 seed;
  if (is_drawn) in(seed);
  if (is_drawn) state.books_.draw_ = Draw(seed);
  TRY_VOID(in.status);
  REQUIRE(!in.in.failed() && in.in.remaining() == 0, "the books have another length");
  REQUIRE(std::ranges::equal(write(state.books_), bytes), "the books are not in their order");
  TRY_VOID(state.check());
  return state;
}

// Checks the references that the fold relies on.
Status BooksState::check() const {
  const Books& b = books_;
  REQUIRE(b.edge_.size_ == b.entries_ && b.entries_ <= limits::kLogEntries &&
              b.drawn_ <= b.entries_ && b.time_ >= 0 && b.time_ < std::int64_t{1} << 40,
          "the books disagree about how many entries they have");
  for (unsigned level = 0; level < kTileLevels; ++level) {
    REQUIRE(b.edge_.levels_[level].size() == level_size(level, b.entries_) % kTileWidth,
            "the edge of the tree has another width than its entries give");
  }
  REQUIRE(b.windows_.empty() || b.windows_.rbegin()->first < b.entries_,
          "a window has no entry in the books");
  for (const auto& [entry, window] : b.windows_) {
    const bool all = std::ranges::all_of(
        window.disagree, [&b](const PublicKey& key) { return b.members_.contains(key); });
    REQUIRE(all, "an auditor of entry ", entry, " is not a member");
  }
  const bool is_drawn = b.draw_.has_value() || b.shared_.empty();
  REQUIRE(is_drawn, "windows were selected without a draw");
  return ok_status();
}

std::uint64_t BooksState::first_window() const {
  return books_.windows_.empty() ? books_.entries_ : books_.windows_.begin()->first;
}

Status BooksState::reread(std::uint64_t index, ByteSpan bytes) {
  const auto found = books_.windows_.find(index);
  if (found == books_.windows_.end()) return ok_status();
  TRY(Receipt receipt, reread_receipt(receipt_in(bytes)));
  REQUIRE(books_.members_.contains(receipt.worker), "its worker is not a member in the books");
  REQUIRE(books_.slots_.emplace_hint(books_.slots_.end(), receipt.slot, index)->second == index,
          "its slot has a window already");
  found->second.receipt = std::move(receipt);
  return ok_status();
}

Result<Books> BooksState::take() {
  REQUIRE(books_.slots_.size() == books_.windows_.size(), "the log has no receipt for ",
          books_.windows_.size() - books_.slots_.size(), " windows of the books");
  return std::move(books_);
}

}  // namespace hearth::ledger
