#include "coordinator/store/request_journal.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <mutex>
#include <set>

#include "base/limits.h"

namespace hearth::coordinator {
namespace {

constexpr StepShape kJournalShape{8, 100, 1'000'000, false};

// Keeps what it is told; refuses while `broken`.
struct PlayedStore final : RequestStore {
  Status write(const std::vector<RequestChange>& changes) override {
    const std::lock_guard lock(mutex);
    ++writes;
    for (const RequestChange& change : changes) {
      if (const auto* row = std::get_if<RequestRow>(&change)) seen.insert(row->name);
    }
    if (broken) return Error{ErrorCode::kIo, "the disk is full"};
    if (away) return Error{ErrorCode::kUnavailable, "the database is away"};
    for (const RequestChange& change : changes) {
      if (const auto* row = std::get_if<RequestRow>(&change)) rows[row->name] = *row;
      if (const auto* more = std::get_if<RequestTokens>(&change)) {
        if (rows.contains(more->name)) rows[more->name].tokens.push_back(more->tokens);
      }
      if (const auto* end = std::get_if<RequestEnd>(&change)) {
        if (rows.contains(end->name)) rows[end->name].ended = end->ended;
      }
      if (const auto* gone = std::get_if<RequestRemoval>(&change)) {
        rows.erase(gone->name);
        ++removals;
      }
    }
    return ok_status();
  }
  Result<Loaded> load() override { return Loaded{}; }
  Status clear() override { return ok_status(); }

  bool is_empty() {
    const std::lock_guard lock(mutex);
    return rows.empty();
  }
  std::mutex mutex;
  std::map<Hash256, RequestRow> rows;
  std::set<Hash256> seen;  // rows, written or not
  int writes = 0;
  int removals = 0;
  bool broken = false;
  bool away = false;
};

Hash256 hash(const std::string& text) { return blake2b(as_bytes(text)); }

SampledToken token(std::uint64_t choice, Position position, TokenId id) {
  SampledToken out;
  out.sequence = SequenceId(choice);
  out.position = position;
  out.token = id;
  return out;
}

std::map<std::uint64_t, std::vector<TokenId>> answers(const RequestRow& row) {
  std::map<std::uint64_t, std::vector<TokenId>> out;
  for (const Bytes& bytes : row.tokens) {
    const auto message = decode_step_tokens(bytes, kJournalShape);
    EXPECT_TRUE(message.ok()) << message.error().message;
    for (const SampledToken& each : message->tokens) out[each.sequence.value].push_back(each.token);
  }
  return out;
}

TEST(RequestJournalTest, WritesAllOfItInOrderAndInFewTransactions) {
  const auto store = std::make_shared<PlayedStore>();
  constexpr int kTokens = 2000;  // more than one row holds
  {
    RequestJournal journal(store);
    journal.begin({hash("a"), {}, "", 0, {}});
    journal.begin({hash("b"), {}, "", 0, {}});
    for (int i = 0; i < kTokens; ++i) {
      journal.token(hash("a"), token(static_cast<std::uint64_t>(i % 2),
                                     5U + static_cast<Position>(i) / 2, i % 100));
    }
    journal.end(hash("a"), 9);
    journal.remove(hash("b"));
  }
  ASSERT_EQ(store->rows.size(), 1U);
  const RequestRow& row = store->rows.begin()->second;
  EXPECT_EQ(row.ended, 9);
  auto told = answers(row);
  ASSERT_EQ(told.size(), 2U);
  ASSERT_EQ(told[0].size(), kTokens / 2U);
  for (int i = 0; i < kTokens; ++i) {
    EXPECT_EQ(told[static_cast<std::uint64_t>(i % 2)][static_cast<std::size_t>(i / 2)], i % 100);
  }
  EXPECT_LT(store->writes, 200);
}

TEST(RequestJournalTest, ATokenIsWrittenWithinMilliseconds) {
  const auto store = std::make_shared<PlayedStore>();
  RequestJournal journal(store);
  journal.begin({hash("a"), {}, "", 0, {}});
  journal.token(hash("a"), token(0, 5, 1));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  for (;;) {
    {
      const std::lock_guard lock(store->mutex);
      if (!store->rows.empty() && !store->rows.begin()->second.tokens.empty()) break;
    }
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(RequestJournalTest, ADiskThatRefusesCostsRowsAndNoRemoval) {
  const auto store = std::make_shared<PlayedStore>();
  store->rows[hash("old")] = {};
  RequestJournal journal(store);
  {
    const std::lock_guard lock(store->mutex);
    store->broken = true;
  }
  journal.begin({hash("lost"), {}, "", 0, {}});
  journal.remove(hash("old"));
  for (int tries = 0; tries == 0;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::lock_guard lock(store->mutex);
    tries = store->writes;
    store->broken = tries == 0;
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!store->is_empty()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "removed at the second try";
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// However many requests come and go while the disk is full: of rows that were never written nothing
// is removed.
TEST(RequestJournalTest, RemovalsDoNotPileUpOnAFullDisk) {
  const auto store = std::make_shared<PlayedStore>();
  store->rows[hash("old")] = {};
  RequestJournal journal(store);
  {
    const std::lock_guard lock(store->mutex);
    store->broken = true;
  }
  for (int i = 0; i < 500; ++i) {
    journal.begin({hash(std::to_string(i)), {}, "", 0, {}});
    journal.remove(hash(std::to_string(i)));
  }
  journal.begin({hash("marker"), {}, "", 0, {}});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  const auto wait_until = [&](const auto& is_so) {
    while (true) {
      {
        const std::lock_guard lock(store->mutex);
        if (is_so()) return true;
      }
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  ASSERT_TRUE(wait_until([&] { return store->seen.contains(hash("marker")); }));
  {
    const std::lock_guard lock(store->mutex);
    store->broken = false;
  }
  journal.remove(hash("old"));
  ASSERT_TRUE(wait_until([&] { return store->rows.empty(); }));
  EXPECT_EQ(store->removals, 1);
}

TEST(RequestJournalTest, ADatabaseThatIsAwayCostsNothing) {
  const auto store = std::make_shared<PlayedStore>();
  store->away = true;
  {
    RequestJournal journal(store);
    journal.begin({hash("a"), {}, "", 0, {}});
    journal.token(hash("a"), token(0, 5, 1));
    for (int tries = 0; tries == 0;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::lock_guard lock(store->mutex);
      tries = store->writes;
    }
    journal.token(hash("a"), token(0, 6, 2));
    const std::lock_guard lock(store->mutex);
    store->away = false;
  }
  ASSERT_EQ(store->rows.size(), 1U);
  EXPECT_EQ(answers(store->rows.begin()->second)[0], (std::vector<TokenId>{1, 2}));
}

TEST(RequestJournalTest, WhatWaitsForADatabaseIsBounded) {
  const auto store = std::make_shared<PlayedStore>();
  store->away = true;
  constexpr std::size_t kTokens = 200'000;
  {
    RequestJournal journal(store);
    journal.begin({hash("a"), {}, "", 0, {}});
    for (int tries = 0; tries == 0;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::lock_guard lock(store->mutex);
      tries = store->writes;
    }
    for (Position i = 0; i < kTokens; ++i) journal.token(hash("a"), token(0, i, 1));
    const std::lock_guard lock(store->mutex);
    store->away = false;
  }
  const std::size_t written = answers(store->rows.begin()->second)[0].size();
  EXPECT_GT(written, 0U);
  EXPECT_LT(written, kTokens);
}

TEST(RequestJournalTest, TokensBeyondTheBoundAreLeftOut) {
  const auto store = std::make_shared<PlayedStore>();
  constexpr std::size_t kTokens = 200'000;
  {
    RequestJournal journal(store);
    store->mutex.lock();  // a disk that hangs
    journal.begin({hash("a"), {}, "", 0, {}});
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (Position i = 0; i < kTokens; ++i) journal.token(hash("a"), token(0, i, 1));
    store->mutex.unlock();
  }
  const std::size_t written = answers(store->rows.begin()->second)[0].size();
  EXPECT_GT(written, 0U);
  EXPECT_LT(written, kTokens);
}

}  // namespace
}  // namespace hearth::coordinator
