#include "coordinator/proof/witness_collector.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>

#include "node/proof/witness.h"
#include "proto/fixed_field.h"
#include "tests/unit/ledger/crash_disk.h"

namespace hearth::coordinator {
namespace {

namespace fs = std::filesystem;

SecretKey witness_key(unsigned char seed) {
  return SecretKey::from_seed(Bytes(SecretKey::kSeedBytes, std::byte{seed})).value();
}

struct PlayedClock final : Clock {
  TimePoint now() const override { return TimePoint{} + at; }
  std::int64_t unix_seconds() const override { return 1'700'000'000; }
  Duration at{};
};

// A log, its desk, and witnesses that keep what they cosigned.
struct WitnessCollectorTest : ::testing::Test {
  WitnessCollectorTest() {
    char name[] = "/tmp/hearth-witnesses-XXXXXX";
    folder = ::mkdtemp(name);
    log = ledger::Log::create(ledger::borrow(disk), witness_key(1)).value();
  }
  ~WitnessCollectorTest() override { fs::remove_all(folder); }

  void meet(const std::string& name, unsigned char seed) {
    keys.try_emplace(name, witness_key(seed));
    desk->meet(name, keys.at(name).public_key());
  }
  void grow(std::uint64_t count, const std::string& word = "entry ") {
    for (std::uint64_t i = 0; i < count; ++i) {
      ASSERT_TRUE(log->append(as_bytes(word + std::to_string(log->size()))));
    }
  }
  control::v1::Cosigned answer(const std::string& name, const control::v1::CheckpointOffer& offer) {
    node::WitnessBook book(
        {name, (folder / name).string(), witness_key(1).public_key(), keys.at(name)}, clock);
    return book.answer(offer);
  }
  // One tick: offers go out, answers come in and are stored with the next. How many were offered.
  std::size_t tick() {
    EXPECT_TRUE(desk->on_timer(*log));
    const auto messages = desk->take_messages();
    for (const NodeMessage& one : messages) {
      desk->take(one.node, answer(one.node, one.body.checkpoint_offer()), *log);
    }
    EXPECT_TRUE(desk->on_timer(*log));
    const std::size_t again = tick_again();
    clock.at += std::chrono::milliseconds(500);
    return messages.size() + again;
  }
  std::size_t tick_again() {
    const auto messages = desk->take_messages();
    for (const NodeMessage& one : messages) {
      desk->take(one.node, answer(one.node, one.body.checkpoint_offer()), *log);
    }
    EXPECT_TRUE(desk->on_timer(*log));
    return messages.size();
  }
  std::uint64_t cosigned(unsigned char seed) const {
    const auto found = log->cosigned().find(witness_key(seed).public_key());
    return found == log->cosigned().end() ? 0 : found->second.size;
  }
  void restart() {
    log = ledger::Log::open(ledger::borrow(disk), witness_key(1)).value();
    desk.emplace(witness_key(1).public_key(), clock);
  }

  PlayedClock clock;
  fs::path folder;
  ledger::CrashDisk disk;
  std::unique_ptr<ledger::Log> log;
  std::optional<WitnessCollector> desk{std::in_place, witness_key(1).public_key(), clock};
  std::map<std::string, SecretKey> keys;
};

TEST_F(WitnessCollectorTest, NodesCosignWhatGrowsAtABoundedRate) {
  grow(3);
  meet("a", 2);
  meet("b", 3);
  EXPECT_EQ(tick(), 2u);
  EXPECT_EQ(cosigned(2), 3u);
  EXPECT_EQ(cosigned(3), 3u);
  EXPECT_EQ(log->checkpoint().cosignatures.size(), 2u) << "the newest checkpoint has both";
  clock.at += WitnessCollector::kPause;
  EXPECT_EQ(tick(), 0u) << "nothing has grown";
  std::size_t offers = 0;
  constexpr int kTicks = 40;  // of half a second
  for (int i = 0; i < kTicks; ++i) {
    grow(1);
    offers += tick();
  }
  EXPECT_LE(offers, 2 * (kTicks / 4 + 1u));
  EXPECT_GE(offers, 2 * (kTicks / 5u));
  EXPECT_GT(cosigned(2), 3u);
  desk->lose("a");
  clock.at += WitnessCollector::kPause;
  grow(1);
  EXPECT_EQ(tick(), 1u);
  EXPECT_LT(cosigned(2), cosigned(3));
}

TEST_F(WitnessCollectorTest, AnotherProcessGoesOnWhereEachWitnessIs) {
  grow(3);
  meet("a", 2);
  tick();
  // Cosigned, and lost on the way back: the log thinks that it is where it was.
  grow(4);
  desk->take_messages();
  clock.at += WitnessCollector::kPause;
  ASSERT_TRUE(desk->on_timer(*log));
  const auto lost = desk->take_messages();
  ASSERT_EQ(lost.size(), 1u);
  (void)answer("a", lost[0].body.checkpoint_offer());
  restart();
  EXPECT_EQ(cosigned(2), 3u);
  grow(2);
  meet("a", 2);
  tick();
  tick();
  EXPECT_EQ(cosigned(2), 9u);
  EXPECT_EQ(desk->fault(), "");
  // One that forgot all begins anew.
  fs::remove(folder / "a");
  restart();
  grow(1);
  meet("a", 2);
  tick();
  tick();
  EXPECT_EQ(cosigned(2), 10u);
  EXPECT_EQ(desk->fault(), "");
}

TEST_F(WitnessCollectorTest, ALogThatWasRolledBackIsFoundByTheFirstWitness) {
  grow(5);
  const ledger::Image older = disk.now();
  grow(5);
  meet("a", 2);
  tick();
  ASSERT_EQ(cosigned(2), 10u);
  disk.now() = older;
  restart();
  meet("a", 2);
  tick();
  EXPECT_NE(desk->fault().find("a holds a checkpoint"), std::string::npos);
  EXPECT_NE(desk->fault().find("of 10 entries"), std::string::npos) << desk->fault();
  EXPECT_FALSE(fs::exists(folder / "a.fork")) << "it has signed no second history yet";
}

TEST_F(WitnessCollectorTest, ALogThatWentOnFromAnOlderCopyIsProvedAFork) {
  for (const std::uint64_t more : {1, 5, 40}) {
    grow(5);
    const ledger::Image older = disk.now();
    grow(5);
    meet("a", 2);
    tick();
    const std::uint64_t witnessed = cosigned(2);
    disk.now() = older;
    restart();
    grow(4 + more, "another ");
    meet("a", 2);
    tick();
    tick();
    EXPECT_NE(desk->fault(), "") << more;
    ASSERT_TRUE(fs::exists(folder / "a.fork")) << more;
    EXPECT_EQ(cosigned(2), 0u) << "nothing of it is cosigned";
    fs::remove(folder / "a");
    fs::remove(folder / "a.fork");
    ASSERT_GE(witnessed, 10u);
    disk.now().clear();
    log = ledger::Log::create(ledger::borrow(disk), witness_key(1)).value();
    desk.emplace(witness_key(1).public_key(), clock);
  }
}

TEST_F(WitnessCollectorTest, WhatIsNoCosignatureIsNone) {
  grow(3);
  meet("a", 2);
  keys.try_emplace("b", witness_key(3));
  ASSERT_TRUE(desk->on_timer(*log));
  const auto messages = desk->take_messages();
  ASSERT_EQ(messages.size(), 1u);
  const control::v1::CheckpointOffer& offer = messages[0].body.checkpoint_offer();
  control::v1::Cosigned unasked = answer("b", offer);
  desk->take("b", unasked, *log);  // it has no session
  desk->take("a", unasked, *log);  // another's line
  ASSERT_TRUE(desk->on_timer(*log));
  EXPECT_TRUE(log->cosigned().empty());
  desk->take("a", answer("a", offer), *log);  // it has answered already
  ASSERT_TRUE(desk->on_timer(*log));
  EXPECT_TRUE(log->cosigned().empty());
  // Who says nothing is asked again, and not before.
  desk->meet("a", witness_key(2).public_key());
  ASSERT_TRUE(desk->on_timer(*log));
  EXPECT_EQ(desk->take_messages().size(), 1u);
  clock.at += WitnessCollector::kPatience - std::chrono::seconds(1);
  ASSERT_TRUE(desk->on_timer(*log));
  EXPECT_EQ(desk->take_messages().size(), 0u);
  clock.at += std::chrono::seconds(1);
  ASSERT_TRUE(desk->on_timer(*log));
  EXPECT_EQ(desk->take_messages().size(), 1u);
}

}  // namespace
}  // namespace hearth::coordinator
