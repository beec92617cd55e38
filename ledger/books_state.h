// BooksState: books as bytes, and back, so that a fold can go on where an earlier one stopped.
// Equal histories give equal bytes. The receipts of Books::windows() are left out, because the log
// has them: reread() gives them back. The reader takes any bytes, but only who wrote them can know
// that they are the fold of a log: callers keep them under a key of theirs. One thread.
//
// A change of the fold, or of what it keeps, must change the name below, so that older bytes are
// refused. Little-endian: "hearth books v1", a zero byte, hash of the policy, cluster, entries,
// time; then members, balances, windows, the tree's edge, the latest draw and the counts of audits.
// A list has its number of elements (8 bytes) before it.
#pragma once

#include <cstdint>

#include "ledger/books.h"

namespace hearth::ledger {

class BooksState {
 public:
  static Bytes write(const Books& books);
  // kInvalidInput when write() gives no such bytes, or for books of another policy.
  static Result<BooksState> read(ByteSpan bytes, const Policy& policy, EntrySignatures signatures);

  std::uint64_t entries() const { return books_.entries_; }  // that the books have
  Hash256 root() const { return books_.root(); }             // of these
  // The oldest entry that a window needs; entries() when none does.
  std::uint64_t first_window() const;
  // To be called with each entry from first_window() on and before entries().
  Status reread(std::uint64_t index, ByteSpan entry);
  // Once. kInvalidInput when a window has no receipt.
  Result<Books> take();

 private:
  explicit BooksState(Books books) : books_(std::move(books)) {}

  template <typename Fields, typename Part>
  static void standing_fields(Fields& a, Part& standing);
  template <typename Fields, typename Part>
  static void window_fields(Fields& a, Part& window);
  template <typename Fields, typename Part>
  static void fields(Fields& a, Part& books);
  Status check() const;

  Books books_;
};

}  // namespace hearth::ledger
