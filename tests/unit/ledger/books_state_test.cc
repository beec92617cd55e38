#include "ledger/books_state.h"

#include <gtest/gtest.h>

#include "tests/attacks/ledger_world.h"

namespace hearth::ledger {
namespace {

using attacks::LedgerWorld;

// Every kind of entry but equivocation, two disputes, one of them open, and a fraud.
struct Lived : LedgerWorld {
  Lived() {
    audited(0, auditor);
    const std::uint64_t doubted = audited(1, auditor, false);
    add(VerdictEntry{doubted, upper.public_key(), Verdict::kFault, attacks::hash_of("evidence")});
    add(draw());
    audited(2, newcomer);
    add(ChangeEntry{lower.public_key()});
    now += 50 * attacks::kDay;
    add(VestEntry{upper.public_key()});
    add_window(0, 3);
    add_window(1, 3);
    add(draw());
    audited(4, auditor, false);
    const std::uint64_t false_one = audited(5, auditor, false);
    add(VerdictEntry{false_one, auditor.public_key(), Verdict::kFraud,
                     attacks::hash_of("evidence")});
    add(seal(add_window(1, 6), newcomer, attacks::hash_of("root")));
  }
};

Result<Books> restored(const Bytes& state, const std::vector<Bytes>& log) {
  TRY(BooksState read, BooksState::read(state, {}, EntrySignatures::kChecked));
  for (std::uint64_t i = read.first_window(); i < read.entries(); ++i) {
    TRY_VOID(read.reread(i, log[i]));
  }
  return read.take();
}

TEST(BooksState, AFoldThatGoesOnFromAnyEntryComesToTheSame) {
  const Lived world;
  const Bytes end = BooksState::write(world.books);
  Books books;
  for (std::size_t at = 0; at < world.log.size(); ++at) {
    ASSERT_TRUE(books.apply(world.log[at]));
    const Bytes state = BooksState::write(books);
    auto again = restored(state, world.log);
    ASSERT_TRUE(again) << at << ": " << again.error().message;
    EXPECT_EQ(BooksState::write(*again), state);
    EXPECT_EQ(again->hash(), books.hash());
    EXPECT_EQ(again->root(), books.root());
    for (std::size_t rest = at + 1; rest < world.log.size(); ++rest) {
      const Status applied = again->apply(world.log[rest]);
      ASSERT_TRUE(applied) << rest << " after " << at << ": " << applied.error().message;
    }
    EXPECT_EQ(BooksState::write(*again), end) << "from entry " << at;
    EXPECT_EQ(again->disputes(), world.books.disputes());
  }
  EXPECT_EQ(books.disputes().size(), 1u);
}

// As a coordinator folds its own log.
TEST(BooksState, WhoTrustsSignaturesComesToTheSame) {
  const Lived world;
  Books trusted({}, EntrySignatures::kTrusted);
  for (const Bytes& entry : world.log) ASSERT_TRUE(trusted.apply(entry));
  EXPECT_EQ(BooksState::write(trusted), BooksState::write(world.books)) << "draws, too";
}

TEST(BooksState, WindowsWithoutTheirReceiptsAreRefused) {
  const Lived world;
  const Bytes state = BooksState::write(world.books);
  auto read = BooksState::read(state, {}, EntrySignatures::kChecked);
  ASSERT_TRUE(read);
  ASSERT_LT(read->first_window(), read->entries());
  EXPECT_FALSE(read->reread(read->first_window(), world.log[1])) << "a member's entry";
  const auto taken = read->take();
  ASSERT_FALSE(taken);
  EXPECT_NE(taken.error().message.find("no receipt for"), std::string::npos);
}

TEST(BooksState, OtherBytesAreRefusedOrHarmless) {
  const Lived world;
  Bytes state = BooksState::write(world.books);
  for (std::size_t length = 0; length < state.size(); ++length) {
    EXPECT_FALSE(BooksState::read(ByteSpan(state).first(length), {}, EntrySignatures::kTrusted));
  }
  Policy other;
  ++other.price_decode;
  EXPECT_FALSE(BooksState::read(state, other, EntrySignatures::kTrusted));
  for (std::byte& byte : state) {
    byte ^= std::byte{0x80};
    (void)restored(state, world.log);
    byte ^= std::byte{0x80};
  }
  state.push_back(std::byte{0});
  EXPECT_FALSE(BooksState::read(state, {}, EntrySignatures::kTrusted));
}

}  // namespace
}  // namespace hearth::ledger
