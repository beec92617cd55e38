#include "coordinator/store/stored_log.h"

#include <chrono>
#include <filesystem>
#include <future>

#include "base/private_file.h"
#include "coordinator/store/store.h"
#include "ledger/archive.h"
#include "ledger/log.h"
#include "tests/unit/coordinator/store/held_lease.h"
#include "tests/unit/coordinator/store/private_postgres.h"

namespace hearth::coordinator {
namespace {

using ledger::Log;

class StoredLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = PrivatePostgres::shared();
    if (server_ == nullptr) GTEST_SKIP() << "the package postgresql is not installed";
    server_->start();
    server_->clear();
    ASSERT_TRUE(use_store_url(folder_.path(), server_->url()).ok());
    first_.emplace(server_->url());
    second_.emplace(server_->url());
    ASSERT_EQ(first_->take(), 1U);
  }
  std::unique_ptr<ledger::LogFolder> stored(std::uint64_t epoch) const {
    auto opened =
        open_stored_log(folder_.path(), (epoch == 1 ? *first_ : *second_).term(epoch), stops_);
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return opened.ok() ? *std::move(opened) : nullptr;
  }
  std::string log_path() const { return folder_.path() + "/ledger"; }
  // The entries, as an auditor reads them.
  std::vector<std::string> audit() const {
    std::vector<std::string> entries;
    const auto folder = open_log_to_read(folder_.path(), log_path());
    EXPECT_TRUE(folder.ok()) << folder.error().message;
    const auto scan = ledger::scan_log(**folder, {key_.public_key(), {}},
                                       [&](std::uint64_t, ByteSpan entry, const Hash256&) {
                                         entries.emplace_back(as_text(entry));
                                         return ok_status();
                                       });
    EXPECT_TRUE(scan.ok()) << scan.error().message;
    return entries;
  }

  StoreFolder folder_;
  PrivatePostgres* server_ = nullptr;
  const SecretKey key_ = SecretKey::generate();
  const std::shared_ptr<std::atomic<bool>> stops_ = std::make_shared<std::atomic<bool>>(false);
  std::optional<HeldLease> first_;
  std::optional<HeldLease> second_;
};

TEST_F(StoredLogTest, TheNextLeaderContinuesTheLogAndTheOldOneAppendsNothing) {
  auto old = Log::create(stored(1), key_);
  ASSERT_TRUE(old.ok()) << old.error().message;
  ASSERT_TRUE((*old)->append(as_bytes("one")).ok());
  ASSERT_EQ(second_->depose_and_take(), 2U);
  // The old leader stood still meanwhile, and wakes up.
  const auto late = (*old)->append(as_bytes("late"));
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.error().message.find("another coordinator has taken the lease"), std::string::npos)
      << late.error().message;
  auto now = Log::open(stored(2), key_);
  ASSERT_TRUE(now.ok()) << now.error().message;
  EXPECT_EQ((*now)->size(), 1U);
  ASSERT_TRUE((*now)->append(as_bytes("two")).ok());
  EXPECT_FALSE((*old)->append(as_bytes("later")).ok());
  EXPECT_FALSE((*old)->keep_snapshot(as_bytes("snapshot")).ok());
  EXPECT_EQ(audit(), (std::vector<std::string>{"one", "two"}));
}

// It stood still between the tiles and the checkpoint.
TEST_F(StoredLogTest, HalfAnAppendOfTheOldLeaderIsRemoved) {
  auto first = Log::create(stored(1), key_);
  ASSERT_TRUE((*first)->append(as_bytes("one")).ok());
  const auto half = stored(1);
  const Bytes tile(64, std::byte{7});
  const ledger::LogFolder::File file{"tile/0/000.p/2", tile};
  ASSERT_TRUE(half->write({&file, 1}).ok());
  const ledger::LogFolder::File draft{"checkpoint.new", tile};
  ASSERT_TRUE(half->write({&draft, 1}).ok());
  ASSERT_EQ(second_->depose_and_take(), 2U);
  auto now = Log::open(stored(2), key_);
  ASSERT_TRUE(now.ok()) << now.error().message;
  EXPECT_EQ(half->rename("checkpoint.new", "checkpoint").error().code, ErrorCode::kRefused);
  ASSERT_TRUE((*now)->append(as_bytes("two")).ok());
  EXPECT_EQ(half->remove("checkpoint").error().code, ErrorCode::kRefused);
  EXPECT_EQ(half->write({&file, 1}).error().code, ErrorCode::kRefused);
  EXPECT_EQ(audit(), (std::vector<std::string>{"one", "two"}));
}

TEST_F(StoredLogTest, AnAppendWaitsForAStoreThatIsAway) {
  auto log = Log::create(stored(1), key_);
  ASSERT_TRUE(log.ok());
  server_->stop();
  auto appended = std::async(std::launch::async, [&] { return (*log)->append(as_bytes("one")); });
  EXPECT_EQ(appended.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  server_->start();
  EXPECT_TRUE(appended.get().ok());
  EXPECT_EQ(audit(), (std::vector<std::string>{"one"}));
  server_->stop();
  *stops_ = true;
  EXPECT_FALSE((*log)->append(as_bytes("two")).ok()) << "the process ends";
}

TEST_F(StoredLogTest, NamesAndSizesAreThoseOfAFolder) {
  const auto folder = stored(1);
  EXPECT_EQ(folder->read("tile/0/000", 9).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(folder->list("tile/").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(folder->list("")->empty());
  const Bytes bytes(9);
  for (const char* name : {"tile/0/000", "tile/0/000.p/1", "tile/0/x1", "tile0", "checkpoint"}) {
    const ledger::LogFolder::File file{name, bytes};
    ASSERT_TRUE(folder->write({&file, 1}).ok());
  }
  EXPECT_EQ(*folder->list(""), (std::vector<std::string>{"checkpoint", "tile/", "tile0"}));
  EXPECT_EQ(*folder->list("tile/0/"), (std::vector<std::string>{"000", "000.p/", "x1"}));
  EXPECT_EQ(folder->read("tile/0/000", 8).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(folder->read("tile/0/000", 9)->size(), 9U);
  EXPECT_TRUE(folder->rename("tile0", "checkpoint").ok());
  EXPECT_EQ(folder->rename("tile0", "checkpoint").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(folder->remove("tile/0/000.p/1").ok());
  EXPECT_EQ(folder->remove("tile/0/000.p/1").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(server_->value("SELECT changes FROM head"), "0") << "no copy of the rows is renewed";
}

TEST_F(StoredLogTest, AFolderIsRemovedAtOnce) {
  const auto folder = stored(1);
  const Bytes bytes(9);
  for (const char* name : {"tile/0/000", "tile/0/000.p/1", "tile/0/000.p/2", "tile/0/000.q"}) {
    const ledger::LogFolder::File file{name, bytes};
    ASSERT_TRUE(folder->write({&file, 1}).ok());
  }
  EXPECT_TRUE(folder->remove_folder("tile/0/000.p/").ok());
  EXPECT_EQ(*folder->list("tile/0/"), (std::vector<std::string>{"000", "000.q"}));
  EXPECT_EQ(folder->remove_folder("tile/0/000.p/").error().code, ErrorCode::kNotFound);
  ASSERT_EQ(second_->depose_and_take(), 2U);
  EXPECT_EQ(folder->remove_folder("tile/").error().code, ErrorCode::kRefused);
  EXPECT_EQ(server_->value("SELECT count(*) FROM ledger_files"), "2");
}

TEST_F(StoredLogTest, ALogOnTheDiskIsBroughtIntoTheStoreAndBack) {
  {
    auto disk = Log::create(*ledger::open_log_folder(log_path(), ledger::LogAccess::kCreate), key_);
    ASSERT_TRUE((*disk)->append(std::vector<ByteSpan>(300, as_bytes("entry"))).ok());
    ASSERT_TRUE((*disk)->keep_snapshot(as_bytes("books")).ok());
  }
  EXPECT_FALSE(*has_stored_log(folder_.path()));
  {
    auto log = Log::open(stored(1), key_);
    ASSERT_TRUE(log.ok()) << log.error().message;
    ASSERT_TRUE((*log)->append(as_bytes("the last")).ok());
  }
  EXPECT_TRUE(*has_stored_log(folder_.path()));
  EXPECT_FALSE(std::filesystem::exists(log_path() + "/checkpoint")) << "there is one log";
  EXPECT_EQ(audit().size(), 301U);
  ASSERT_TRUE(first_->store().ask({LeaseAsk::kRelease, 1}).ok());
  const auto moved = migrate_store(folder_.path(), "");
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  EXPECT_TRUE(std::filesystem::exists(log_path() + "/checkpoint"));
  const auto entries = audit();
  ASSERT_EQ(entries.size(), 301U);
  EXPECT_EQ(entries.back(), "the last");
}

// Stopped between the copy and the last step.
TEST_F(StoredLogTest, AnEarlierStateOnTheDiskIsPutAway) {
  const auto disk = [&] {
    return *ledger::open_log_folder(log_path(), ledger::LogAccess::kCreate);
  };
  ASSERT_TRUE((*Log::create(disk(), key_))->append(as_bytes("one")).ok());
  ASSERT_TRUE((*Log::open(stored(1), key_))->append(as_bytes("two")).ok());
  std::filesystem::rename(log_path() + "/checkpoint.moved", log_path() + "/checkpoint");
  EXPECT_TRUE(check_log_on_disk(folder_.path()).ok());
  const auto log = Log::open(stored(1), key_);
  ASSERT_TRUE(log.ok()) << log.error().message;
  EXPECT_EQ((*log)->size(), 2U);
  EXPECT_FALSE(std::filesystem::exists(log_path() + "/checkpoint"));
}

TEST_F(StoredLogTest, AnotherHistoryOnTheDiskIsRefusedBeforeItLeads) {
  ASSERT_TRUE((*Log::create(stored(1), key_))->append(as_bytes("one")).ok());
  auto disk = *ledger::open_log_folder(log_path(), ledger::LogAccess::kCreate);
  ASSERT_TRUE((*Log::create(std::move(disk), key_))->append(as_bytes("another one")).ok());
  const Status refused = check_log_on_disk(folder_.path());
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("move it away"), std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(open_stored_log(folder_.path(), first_->term(1), stops_).ok());
}

TEST_F(StoredLogTest, EvidenceGoesWithTheLog) {
  const Bytes bytes(9, std::byte{7});
  const std::string name = "disputes/" + blake2b(bytes).hex();
  {
    auto disk = Log::create(*ledger::open_log_folder(log_path(), ledger::LogAccess::kCreate), key_);
    ASSERT_TRUE((*disk)->append(as_bytes("one")).ok());
  }
  std::filesystem::create_directories(log_path() + "/disputes");
  ASSERT_TRUE(write_private_file(log_path() + "/" + name, bytes).ok());
  const auto now = stored(1);
  EXPECT_EQ(*now->read(name, 99), bytes);
  const Bytes other(9, std::byte{8});
  const std::string second = "disputes/" + blake2b(other).hex();
  const ledger::LogFolder::File file{second, other};
  ASSERT_TRUE(now->write({&file, 1}).ok());
  EXPECT_EQ(*(*open_log_to_read(folder_.path(), log_path()))->read(second, 99), other);
  ASSERT_TRUE(first_->store().ask({LeaseAsk::kRelease, 1}).ok());
  const auto moved = migrate_store(folder_.path(), "");
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  EXPECT_EQ(*read_private_file(log_path() + "/" + second, 99), other);
}

TEST_F(StoredLogTest, MigrationBringsTheLogEachTime) {
  ASSERT_TRUE(first_->store().ask({LeaseAsk::kRelease, 1}).ok());
  const StoreFolder plain;
  ASSERT_NE(plain.open(), nullptr);
  const std::string path = plain.path() + "/ledger";
  const auto disk = [&] { return *ledger::open_log_folder(path, ledger::LogAccess::kCreate); };
  ASSERT_TRUE((*Log::create(disk(), key_))->append(as_bytes("one")).ok());
  for (std::uint64_t round = 0; round < 2; ++round) {
    const auto there = migrate_store(plain.path(), server_->url());
    ASSERT_TRUE(there.ok()) << there.error().message;
    EXPECT_TRUE(*has_stored_log(folder_.path())) << "a standby that starts first continues it";
    EXPECT_FALSE(std::filesystem::exists(path + "/checkpoint"));
    const auto back = migrate_store(plain.path(), "");
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(server_->value("SELECT count(*) FROM ledger_files"), "0");
    auto log = Log::open(disk(), key_);
    ASSERT_TRUE(log.ok()) << log.error().message;
    EXPECT_EQ((*log)->size(), round + 1);
    ASSERT_TRUE((*log)->append(as_bytes("more")).ok());
    std::filesystem::remove(plain.file() + ".old");
  }
}

}  // namespace
}  // namespace hearth::coordinator
