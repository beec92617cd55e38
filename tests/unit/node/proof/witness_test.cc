#include "node/proof/witness.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>

#include "base/private_file.h"
#include "ledger/log.h"
#include "proto/fixed_field.h"
#include "tests/unit/ledger/crash_disk.h"

namespace hearth::node {
namespace {

namespace fs = std::filesystem;
using control::v1::CheckpointOffer;
using control::v1::Cosigned;

SecretKey witness_key(unsigned char seed) {
  return SecretKey::from_seed(Bytes(SecretKey::kSeedBytes, std::byte{seed})).value();
}

// The cluster's log, and what its coordinator offers of it.
struct Coordinator {
  void grow(std::uint64_t count, const std::string& word = "entry ") {
    for (std::uint64_t i = 0; i < count; ++i) {
      EXPECT_TRUE(log->append(as_bytes(word + std::to_string(log->size()))));
    }
  }
  CheckpointOffer offer(std::uint64_t old_size) const {
    const ledger::Offer made = log->offer(old_size).value();
    CheckpointOffer message;
    message.set_checkpoint(made.checkpoint.text());
    message.set_old_size(made.old_size);
    message.set_old_root(to_field(made.old_root.bytes));
    for (const Hash256& hash : made.proof) message.add_proof(to_field(hash.bytes));
    return message;
  }
  ledger::CrashDisk disk;
  std::unique_ptr<ledger::Log> log =
      ledger::Log::create(ledger::borrow(disk), witness_key(1)).value();
};

struct WitnessTest : ::testing::Test {
  WitnessTest() {
    char name[] = "/tmp/hearth-witness-XXXXXX";
    folder = ::mkdtemp(name);
  }
  ~WitnessTest() override { fs::remove_all(folder); }

  WitnessOptions options() const {
    return {"w", (folder / "witness").string(), witness_key(1).public_key(), witness_key(2)};
  }
  WitnessBook book() const { return {options(), clock}; }
  // The size that the answer has cosigned last; everything about it checked.
  static std::uint64_t size_of(const Cosigned& answer) {
    const auto checkpoint = ledger::parse_cosigned(
        as_bytes(answer.checkpoint()), witness_key(1).public_key(), witness_key(2).public_key());
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    return checkpoint ? checkpoint->size : 0;
  }

  struct LateClock final : Clock {
    TimePoint now() const override { return {}; }
    std::int64_t unix_seconds() const override { return 1'700'000'000; }
  } clock;
  fs::path folder;
  Coordinator coordinator;
};

TEST_F(WitnessTest, CosignsWhatGrowsAndRemembersItInAnotherProcess) {
  coordinator.grow(5);
  Cosigned answer = book().answer(coordinator.offer(0));
  EXPECT_EQ(answer.refused(), "");
  EXPECT_EQ(size_of(answer), 5u);
  EXPECT_EQ(as_text(*read_private_file(options().file, 10'000)), answer.checkpoint())
      << "what it answers is on the disk";
  coordinator.grow(300);
  answer = book().answer(coordinator.offer(0));
  EXPECT_EQ(answer.refused(), "") << "only from elsewhere than where it is";
  EXPECT_EQ(size_of(answer), 5u);
  answer = book().answer(coordinator.offer(5));
  EXPECT_EQ(size_of(answer), 305u);
  const std::string before = answer.checkpoint();
  EXPECT_EQ(book().answer(coordinator.offer(305)).checkpoint(), before) << "the same once more";
}

TEST_F(WitnessTest, RefusesALogThatWasCutBack) {
  coordinator.grow(5);
  const CheckpointOffer older = coordinator.offer(0);
  coordinator.grow(5);
  ASSERT_EQ(size_of(book().answer(coordinator.offer(0))), 10u);
  WitnessBook again = book();
  const Cosigned answer = again.answer(older);
  EXPECT_NE(answer.refused().find("cut back: it shows 5 entries"), std::string::npos)
      << answer.refused();
  EXPECT_EQ(size_of(answer), 10u) << "what it holds against the log goes with it";
  EXPECT_FALSE(fs::exists(options().file + ".fork")) << "an older checkpoint proves nothing";
}

TEST_F(WitnessTest, KeepsTheProofOfAFork) {
  Coordinator other;
  coordinator.grow(5);
  other.grow(5);
  coordinator.grow(3);
  other.grow(9, "another ");
  ASSERT_EQ(size_of(book().answer(coordinator.offer(0))), 8u);
  const Cosigned answer = book().answer(other.offer(8));
  EXPECT_NE(answer.refused().find("two histories"), std::string::npos) << answer.refused();
  EXPECT_EQ(size_of(answer), 8u);
  const auto file = read_private_file(options().file + ".fork", ledger::kForkBytes);
  ASSERT_TRUE(file) << file.error().message;
  const auto fork = ledger::parse_fork(*file);
  ASSERT_TRUE(fork) << fork.error().message;
  EXPECT_EQ(fork->one.size, 8u);
  EXPECT_EQ(fork->other.size, 14u);
  coordinator.grow(1);
  EXPECT_EQ(size_of(book().answer(coordinator.offer(8))), 9u) << "its own history goes on";
}

TEST_F(WitnessTest, NothingElseIsCosigned) {
  coordinator.grow(5);
  const CheckpointOffer good = coordinator.offer(0);
  const auto refusal = [this](CheckpointOffer offer) { return book().answer(offer).refused(); };
  CheckpointOffer bad = good;
  bad.set_checkpoint(good.checkpoint().substr(1));
  EXPECT_NE(refusal(bad), "");
  bad = good;
  bad.set_old_root("short");
  EXPECT_NE(refusal(bad), "");
  bad = good;
  bad.add_proof("short");
  EXPECT_NE(refusal(bad), "");
  bad = good;
  bad.set_checkpoint(
      ledger::sign_checkpoint(5, coordinator.log->checkpoint().root, witness_key(3)).text());
  EXPECT_NE(refusal(bad).find("of another log"), std::string::npos);
  EXPECT_FALSE(fs::exists(options().file));
  // Its own file, damaged: it does not begin anew by itself.
  ASSERT_EQ(size_of(book().answer(good)), 5u);
  ASSERT_TRUE(write_private_file(options().file, as_bytes("nothing")));
  EXPECT_NE(refusal(good).find(" is damaged ("), std::string::npos);
}

TEST_F(WitnessTest, AFullDiskIsNoCosignature) {
  coordinator.grow(5);
  WitnessOptions nowhere = options();
  nowhere.file = (folder / "gone" / "witness").string();
  const Cosigned answer = WitnessBook(nowhere, clock).answer(coordinator.offer(0));
  EXPECT_NE(answer.refused(), "");
  EXPECT_EQ(answer.checkpoint(), "");
}

TEST_F(WitnessTest, AnswersOnTheOwnersThread) {
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> tasks;
  Witness witness(options(), clock, [&](std::function<void()> task) {
    const std::lock_guard lock(mutex);
    tasks.push_back(std::move(task));
    wake.notify_one();
  });
  coordinator.grow(5);
  std::uint64_t size = 0;
  witness.ask(coordinator.offer(0), [&size](const Cosigned& answer) { size = size_of(answer); });
  std::unique_lock lock(mutex);
  ASSERT_TRUE(wake.wait_for(lock, std::chrono::seconds(60), [&] { return !tasks.empty(); }));
  EXPECT_EQ(size, 0u);
  tasks.front()();
  EXPECT_EQ(size, 5u);
}

}  // namespace
}  // namespace hearth::node
