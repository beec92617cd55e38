#include "coordinator/proof/machine_history.h"

#include <gtest/gtest.h>

namespace hearth::coordinator {
namespace {

using Machines = MachineHistory::Machines;

PublicKey public_key_of(unsigned seed) {
  Bytes bytes(SecretKey::kSeedBytes, std::byte{0});
  bytes[0] = static_cast<std::byte>(seed);
  bytes[1] = static_cast<std::byte>(seed >> 8U);
  return SecretKey::from_seed(bytes).value().public_key();
}

// A table of the store.
struct Table {
  std::map<PublicKey, Hash256> rows;
  int writes = 0;
  bool full = false;

  MachineHistory open() {
    return {Machines(rows.begin(), rows.end()), [this](const Machines& machines) -> Status {
              if (full) return Error{ErrorCode::kIo, "the disk is full"};
              ++writes;
              for (const auto& [key, machine] : machines) rows.insert_or_assign(key, machine);
              return ok_status();
            }};
  }
};

TEST(MachineHistory, SeesChangesDuringDowntimeToo) {
  Table table;
  {
    MachineHistory history = table.open();
    EXPECT_FALSE(history.meet(public_key_of(1), "build 1")) << "it was never met before";
    EXPECT_FALSE(history.meet(public_key_of(2), "build 1"));
    EXPECT_FALSE(history.meet(public_key_of(1), "build 1"));
    EXPECT_TRUE(history.meet(public_key_of(1), "build 2"));
    EXPECT_FALSE(history.meet(public_key_of(1), "build 2"));
    ASSERT_TRUE(history.store());
    EXPECT_TRUE(history.meet(public_key_of(2), "build 2")) << "a crash loses this";
  }
  MachineHistory again = table.open();
  EXPECT_FALSE(again.meet(public_key_of(1), "build 2"));
  EXPECT_TRUE(again.meet(public_key_of(2), "build 2"));
  EXPECT_TRUE(again.meet(public_key_of(1), "build 1"));
}

TEST(MachineHistory, OnlyWhatIsNewIsWrittenAndAFailureIsRetried) {
  Table table;
  MachineHistory history = table.open();
  ASSERT_TRUE(history.store());
  EXPECT_EQ(table.writes, 0);
  (void)history.meet(public_key_of(1), "a");
  table.full = true;
  EXPECT_FALSE(history.store());
  table.full = false;
  ASSERT_TRUE(history.store());
  ASSERT_TRUE(history.store());
  EXPECT_EQ(table.writes, 1);
  EXPECT_EQ(table.rows.size(), 1U);
}

TEST(MachineHistory, TheNumberOfKeysIsBounded) {
  Machines known;
  for (unsigned i = 0; i <= MachineHistory::kKeys; ++i) {
    known.emplace_back(PublicKey::parse(public_key_of(i).bytes()).value(), Hash256());
  }
  MachineHistory history(known, nullptr);
  EXPECT_TRUE(history.meet(known.front().first, "a"));
  EXPECT_FALSE(history.meet(known.back().first, "a"));
  EXPECT_FALSE(history.meet(known.back().first, "b")) << "it is not remembered";
  EXPECT_TRUE(history.store()) << "without a store nothing is written";
}

}  // namespace
}  // namespace hearth::coordinator
