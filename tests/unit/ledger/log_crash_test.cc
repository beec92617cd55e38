// Every point at which the power may go, and what the disk may hold then.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "ledger/log.h"
#include "tests/unit/ledger/crash_disk.h"

namespace hearth::ledger {
namespace {

constexpr unsigned kChoices = 24;

const SecretKey& log_key() {
  static const SecretKey key = SecretKey::from_seed(Bytes(32, std::byte{7})).value();
  return key;
}

std::string entry_text(std::uint64_t index) {
  std::string text = "entry " + std::to_string(index);
  if (index % 3 == 0) text += std::string(index % 700, 'x');  // some longer than a sector
  return text;
}

Status append_some(Log& log, std::uint64_t count) {
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < count; ++i) texts.push_back(entry_text(log.size() + i));
  std::vector<ByteSpan> entries;
  for (const std::string& text : texts) entries.push_back(as_bytes(text));
  TRY_VOID(log.append(entries));
  return ok_status();
}

// The log of a disk; empty when what it holds is not exactly entries 0, 1, 2...
Result<std::unique_ptr<Log>> open_and_check(CrashDisk& disk) {
  return Log::open(borrow(disk), log_key(),
                   [](std::uint64_t index, ByteSpan entry, const Hash256& leaf) -> Status {
                     REQUIRE(as_text(entry) == entry_text(index), "an entry that was not appended");
                     REQUIRE(leaf == leaf_hash(entry), "a leaf that is not the entry's");
                     return ok_status();
                   });
}

struct Workload {
  std::uint64_t before = 0;            // entries that the disk holds safely when it begins
  std::vector<std::uint64_t> batches;  // 0: a cosignature; kKept: one that is kept beside
};
constexpr std::uint64_t kKept = ~std::uint64_t{0};

// What was acknowledged when so many steps were done.
struct Acknowledged {
  std::size_t steps = 0;
  std::uint64_t entries = 0;
  std::size_t cosignatures = 0;
  std::uint64_t witnessed = 0;  // entries that a witness has cosigned
};

struct Outcome {
  std::size_t states = 0;
  std::size_t bad = 0;
  std::string first;  // of the bad ones
};

std::string check_state(const Image& image, const Acknowledged& promised, std::uint64_t next) {
  CrashDisk disk(image);
  auto log = open_and_check(disk);
  if (!log) return "does not open: " + log.error().message;
  const std::uint64_t size = (*log)->size();
  if (size != promised.entries && size != next) {
    return "has " + std::to_string(size) + " entries; " + std::to_string(promised.entries) +
           " were acknowledged";
  }
  if (size == promised.entries &&
      (*log)->checkpoint().cosignatures.size() < promised.cosignatures) {
    return "lost a cosignature";
  }
  const auto& kept = (*log)->cosigned();
  if (promised.witnessed > 0 && (kept.empty() || kept.begin()->second.size < promised.witnessed)) {
    return "lost what a witness cosigned";
  }
  if (const Status more = append_some(**log, 1); !more) return "takes no entry";
  auto again = open_and_check(disk);
  if (!again) return "is damaged after the next append: " + again.error().message;
  return (*again)->size() == size + 1 ? "" : "forgot the next append";
}

Outcome run(const Workload& work, CrashDisk::Fault fault = CrashDisk::Fault::kNone) {
  Image image;
  {
    CrashDisk disk;
    auto log = Log::create(borrow(disk), log_key());
    EXPECT_TRUE(log);
    EXPECT_TRUE(work.before == 0 || append_some(**log, work.before).ok());
    image = disk.now();
  }
  CrashDisk disk(image);
  disk.fault = fault;
  std::vector<Acknowledged> promises{{0, work.before, 0, 0}};
  {
    auto log = open_and_check(disk);
    EXPECT_TRUE(log);
    std::size_t cosignatures = 0;
    std::uint64_t witnessed = 0;
    std::vector<Checkpoint> waiting;  // of a witness that answers one append later
    for (const std::uint64_t count : work.batches) {
      if (count == kKept) {
        if (waiting.empty()) {
          waiting.push_back(cosigned_by((*log)->checkpoint(), 1'700'000'000, log_key()));
        } else {
          EXPECT_TRUE((*log)->keep_cosigned(waiting));
          witnessed = waiting.front().size;
          cosignatures = std::max(cosignatures, (*log)->checkpoint().cosignatures.size());
          waiting.clear();
        }
      } else if (count == 0) {
        const SecretKey witness =
            SecretKey::from_seed(Bytes(32, std::byte{static_cast<unsigned char>(9 + cosignatures)}))
                .value();
        EXPECT_TRUE((*log)->add_cosignature(cosign((*log)->checkpoint(), 1'700'000'000, witness)));
        ++cosignatures;
      } else {
        EXPECT_TRUE(append_some(**log, count));
        cosignatures = 0;
      }
      promises.push_back({disk.steps(), (*log)->size(), cosignatures, witnessed});
    }
  }
  Outcome outcome;
  std::set<Image> seen;  // under the promise in force; what a disk holds often comes again
  for (std::size_t steps = 0, at = 0; steps <= disk.steps(); ++steps) {
    while (at + 1 < promises.size() && promises[at + 1].steps <= steps) {
      ++at;
      seen.clear();
    }
    const std::uint64_t next = at + 1 < promises.size() ? promises[at + 1].entries : 0;
    for (unsigned choice = 0; choice < kChoices; ++choice) {
      ++outcome.states;
      Image left = disk.crash(steps, choice);
      if (seen.contains(left)) continue;
      const std::string wrong = check_state(left, promises[at], next);
      seen.insert(std::move(left));
      if (wrong.empty()) continue;
      if (outcome.bad++ == 0) {
        outcome.first = "after step " + std::to_string(steps) + ", choice " +
                        std::to_string(choice) + ", the log " + wrong;
      }
    }
  }
  return outcome;
}

Workload single_appends(std::uint64_t before, std::size_t count) {
  return {before, std::vector<std::uint64_t>(count, 1)};
}

TEST(LogCrash, NoStateLosesAnEntryOrLeavesDamage) {
  std::size_t states = 0;
  for (const Workload& work :
       {single_appends(0, 38), single_appends(250, 12), Workload{508, {3, 0, 2, 0, 0, 300, 5}},
        Workload{0, {1, 0, 2, 0, 7, 246, 1, 255, 1, 0, 3}},
        Workload{5, {kKept, kKept, 1, kKept, 252, kKept, 3, kKept, 1, kKept, 1}}}) {
    const Outcome outcome = run(work);
    EXPECT_EQ(outcome.bad, 0u) << outcome.first;
    states += outcome.states;
  }
  std::printf("%zu crash states\n", states);
  EXPECT_GE(states, 16'000u);
}

TEST(LogCrash, AMissingSyncWouldBeFound) {
  for (const auto fault : {CrashDisk::Fault::kFileSync, CrashDisk::Fault::kNameSync}) {
    EXPECT_GT(run(single_appends(0, 4), fault).bad, 0u);
  }
}

// Recovery itself may be cut off, too.
TEST(LogCrash, ACrashDuringRecoveryIsOneMore) {
  CrashDisk disk;
  std::size_t acknowledged = 0;
  {
    auto log = Log::create(borrow(disk), log_key());
    ASSERT_TRUE(log);
    ASSERT_TRUE(append_some(**log, 30));
    acknowledged = disk.steps();
    ASSERT_TRUE(append_some(**log, 230));
  }
  std::size_t leftovers = 0;
  for (std::size_t steps = acknowledged; steps <= disk.steps(); ++steps) {
    for (unsigned choice = 0; choice < 8; ++choice) {
      CrashDisk once(disk.crash(steps, choice));
      ASSERT_TRUE(open_and_check(once));
      leftovers += once.steps() > 1 ? 1 : 0;
      for (std::size_t again = 0; again <= once.steps(); ++again) {
        for (unsigned second = 0; second < 6; ++second) {
          const std::string wrong = check_state(once.crash(again, second), {0, 30, 0, 0}, 260);
          ASSERT_EQ(wrong, "") << steps << " " << choice << " " << again << " " << second;
        }
      }
    }
  }
  EXPECT_GT(leftovers, 20u) << "there was something to recover";
}

// Each step fails in turn: no entry is acknowledged from then on, and a new process has all that
// were.
TEST(LogCrash, AFailedDiskEndsTheLog) {
  std::size_t failures = 0;
  for (std::size_t at = 4;; ++at) {
    CrashDisk disk;
    auto log = Log::create(borrow(disk), log_key());
    ASSERT_TRUE(log);
    disk.fails_at = at;
    std::uint64_t acknowledged = 0;
    std::optional<Error> failed;
    for (int i = 0; i < 20 && !failed; ++i) {
      const Status appended = append_some(**log, 1);
      if (appended) acknowledged = (*log)->size();
      if (!appended) failed = appended.error();
    }
    if (!failed) break;
    ++failures;
    EXPECT_EQ(failed->code, ErrorCode::kIo);
    EXPECT_NE(failed->message.find("start the process again"), std::string::npos)
        << failed->message;
    disk.fails_at = ~std::size_t{0};
    EXPECT_FALSE(append_some(**log, 1)) << "a sync that failed once is not asked again";
    auto reopened = open_and_check(disk);
    ASSERT_TRUE(reopened) << reopened.error().message;
    EXPECT_GE((*reopened)->size(), acknowledged);
    EXPECT_LE((*reopened)->size(), acknowledged + 1);
  }
  EXPECT_GT(failures, 150u);
}

TEST(LogCrash, ALogIsCreatedWholeOrNotAtAll) {
  CrashDisk disk;
  ASSERT_TRUE(Log::create(borrow(disk), log_key()));
  for (std::size_t steps = 0; steps <= disk.steps(); ++steps) {
    for (unsigned choice = 0; choice < kChoices; ++choice) {
      CrashDisk after(disk.crash(steps, choice));
      auto opened = open_and_check(after);
      if (!opened && opened.error().code == ErrorCode::kNotFound) {
        ASSERT_LT(steps, disk.steps());
        opened = Log::create(borrow(after), log_key());
      }
      ASSERT_TRUE(opened) << steps << " " << choice << ": " << opened.error().message;
      EXPECT_EQ((*opened)->size(), 0u);
    }
  }
}

}  // namespace
}  // namespace hearth::ledger
