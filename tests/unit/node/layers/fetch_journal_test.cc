#include "node/layers/fetch_journal.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <bitset>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/random.h"

namespace hearth::node {
namespace {

namespace fs = std::filesystem;
using Pairs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

TEST(RangeSetTest, EqualsABitmap) {
  constexpr std::size_t kSize = 64;
  SeededRandom random(5);
  for (int round = 0; round < 200; ++round) {
    RangeSet set;
    std::bitset<kSize> bits;
    for (int step = 0; step < 20; ++step) {
      const std::uint64_t begin = random.next() % kSize;
      const std::uint64_t end = random.next() % (kSize + 1);
      const bool add = random.next() % 3 != 0;
      add ? set.add(begin, end) : set.remove(begin, end);
      for (std::uint64_t i = begin; i < end; ++i) bits[i] = add;
      Pairs expected;
      for (std::uint64_t i = 0; i < kSize; ++i) {
        if (bits[i]) continue;
        if (expected.empty() || expected.back().second != i) expected.emplace_back(i, i);
        expected.back().second = i + 1;
      }
      ASSERT_EQ(set.missing(0, kSize), expected);
      ASSERT_EQ(set.covered(0, kSize), bits.count());
      const std::uint64_t from = random.next() % kSize;
      std::uint64_t covered = 0;
      for (std::uint64_t i = from; i < kSize; ++i) covered += bits[i];
      ASSERT_EQ(set.covered(from, kSize), covered);
    }
  }
}

struct FetchJournalTest : ::testing::Test {
  FetchJournalTest() {
    std::string pattern = (fs::temp_directory_path() / "hearth-journal-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
    path = folder + "/j";
  }
  ~FetchJournalTest() override { fs::remove_all(folder); }
  std::unique_ptr<FetchJournal> open(const char* key = "key") {
    auto journal = FetchJournal::open(path, blake2b(as_bytes(key)), {});
    EXPECT_TRUE(journal.ok());
    return std::move(journal).value();
  }
  std::string folder;
  std::string path;
};

TEST_F(FetchJournalTest, RemembersWhatItWasTold) {
  {
    const auto journal = open();
    EXPECT_TRUE(journal->empty());
    ASSERT_TRUE(journal->add_written(0, 100).ok());
    ASSERT_TRUE(journal->add_written(200, 300).ok());
    ASSERT_TRUE(journal->forget_written(50, 60).ok());
    ASSERT_TRUE(journal->add_verified(7).ok());
  }
  const auto journal = open();
  EXPECT_EQ(journal->written().missing(0, 300), (Pairs{{50, 60}, {100, 200}}));
  EXPECT_TRUE(journal->verified(7));
  EXPECT_FALSE(journal->verified(8));
  ASSERT_TRUE(journal->clear().ok());
  EXPECT_TRUE(journal->empty());
  EXPECT_FALSE(journal->verified(7));
}

TEST_F(FetchJournalTest, OfAnotherFileItIsEmpty) {
  ASSERT_TRUE(open()->add_verified(7).ok());
  EXPECT_TRUE(open("another")->empty());
}

// A kill can end a record anywhere; a disk can change any bit.
TEST_F(FetchJournalTest, WhatIsTornOrChangedNeverCounts) {
  {
    const auto journal = open();
    for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(journal->add_verified(i).ok());
  }
  std::ifstream in(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  ASSERT_EQ(whole.size(), 256U);
  const auto verified = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    const auto journal = open();
    std::uint64_t count = 0;
    while (journal->verified(count)) ++count;
    for (std::uint64_t i = count; i < 300; ++i) EXPECT_FALSE(journal->verified(i));
    return count;
  };
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    ASSERT_EQ(verified(whole.substr(0, size)), size / 32) << size;
  }
  for (std::size_t bit = 0; bit < whole.size() * 8; bit += 3) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_EQ(verified(flipped), bit / 8 / 32) << bit;
  }
  std::ofstream(path, std::ios::binary) << whole.substr(0, 40);
  ASSERT_TRUE(open()->add_verified(1).ok());
  EXPECT_TRUE(open()->verified(1)) << "written where the torn record was";
}

TEST_F(FetchJournalTest, OneAtATime) {
  auto first = open();
  int asked = 0;
  const auto second =
      FetchJournal::open(path, blake2b(as_bytes("key")), [&] { return ++asked > 2; });
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kCancelled);
  std::thread waiting([&] { EXPECT_TRUE(open()->verified(1)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ASSERT_TRUE(first->add_verified(1).ok());
  first.reset();
  waiting.join();
}

}  // namespace
}  // namespace hearth::node
