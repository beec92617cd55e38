#include "coordinator/proof/ledger_service.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <thread>

#include "base/limits.h"
#include "coordinator/proof/ledger_clock.h"
#include "coordinator/proof/ledger_snapshot.h"
#include "ledger/archive.h"
#include "ledger/books.h"
#include "ledger/scan.h"
#include "tests/unit/coordinator/proof/receipt_stage.h"

namespace hearth::coordinator {
namespace {

namespace fs = std::filesystem;

// A folder whose disk is full from some moment on.
class FullDisk final : public ledger::LogFolder {
 public:
  FullDisk(std::unique_ptr<ledger::LogFolder> folder, const std::atomic<bool>& full)
      : folder_(std::move(folder)), full_(full) {}

  Result<Bytes> read(const std::string& name, std::size_t limit) override {
    return folder_->read(name, limit);
  }
  Status write(std::span<const File> files) override {
    if (full_) return Error{ErrorCode::kIo, "the disk is full"};
    return folder_->write(files);
  }
  Status sync_names(const std::string& folder) override { return folder_->sync_names(folder); }
  Status rename(const std::string& from, const std::string& to) override {
    return folder_->rename(from, to);
  }
  Status remove(const std::string& name) override { return folder_->remove(name); }
  Result<std::vector<std::string>> list(const std::string& folder) override {
    return folder_->list(folder);
  }

 private:
  std::unique_ptr<ledger::LogFolder> folder_;
  const std::atomic<bool>& full_;
};

struct LedgerServiceTest : ::testing::Test {
  LedgerServiceTest() {
    char name[] = "/tmp/hearth-receipts-XXXXXX";
    above = ::mkdtemp(name);
  }
  ~LedgerServiceTest() override {
    receipts.reset();
    fs::remove_all(above);
  }

  Status open(const SecretKey& cluster = testing::receipt_cluster(),
              AuditMode audits = AuditMode::kOff) {
    TRY(auto folder,
        ledger::open_archived_log((above / "ledger").string(), ledger::LogAccess::kCreate));
    folder = std::make_unique<FullDisk>(std::move(folder), full);
    TRY(receipts, LedgerService::open(
                      std::move(folder), cluster, "build", audits, clock,
                      [this](std::function<void()> task) { post(std::move(task)); }, credits));
    LedgerService::Listener listener;
    listener.send = [this](const std::string& node,
                           const control::v1::CoordinatorMessage& message) {
      control::v1::WorkerMessage answer;
      *answer.mutable_receipts() = stages[node == "a" ? 0 : 1].sign(message.countersign());
      receipts->take(node, answer);
      ++signed_windows;
    };
    listener.run = [this](const AuditRun& run) {
      asked.push_back(run);
      return true;
    };
    listens = receipts->listen(std::move(listener));
    receipts->begin(testing::receipt_pipeline(stages));
    return ok_status();
  }
  void claim(std::vector<testing::ReceiptStage>& of, const ReceiptRequest& request) {
    for (testing::ReceiptStage& stage : of) {
      control::v1::WorkerMessage message;
      *message.mutable_window_claims() = stage.claim(request);
      receipts->take(stage.node, message);
    }
  }
  void answer(unsigned char number) {
    ReceiptRequest request = testing::receipt_request(number);
    // Books want a window that was begun lately.
    receipts->start(request.epoch, request.order.request, request.tokens.size());
    claim(stages, request);
    receipts->over(request);
    run_until([this, wanted = signed_windows + 2] { return signed_windows == wanted; });
  }
  // How many entries the log on the disk has, all of them as the rules want them.
  std::uint64_t logged() {
    receipts.reset();  // which writes what it has
    auto folder = ledger::open_archived_log((above / "ledger").string(), ledger::LogAccess::kRead);
    ledger::Books books;
    const auto scan =
        ledger::scan_log(**folder, {testing::receipt_cluster().public_key(), {}},
                         [&books](std::uint64_t /*index*/, ByteSpan entry, const Hash256& leaf) {
                           return books.apply(entry, leaf);
                         });
    EXPECT_TRUE(scan) << scan.error().message;
    return scan ? scan->checkpoint.size : 0;
  }

  using ReceiptStage = testing::ReceiptStage;
  struct OldClock final : Clock {  // of the windows that stages play
    TimePoint now() const override { return SystemClock().now(); }
    std::int64_t unix_seconds() const override { return unix_; }
    std::atomic<std::int64_t> unix_ = 1'700'000'100;
  } clock;
  fs::path above;
  std::atomic<bool> full = false;
  std::vector<ReceiptStage> stages = testing::receipt_stages();
  std::vector<ReceiptStage> others = testing::other_receipt_stages();
  std::vector<AuditRun> asked;
  std::shared_ptr<const LedgerService::Listener> listens;
  std::shared_ptr<Credits> credits;  // null: no account pays
  std::unique_ptr<LedgerService> receipts;
  int signed_windows = 0;

  void post(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    wake_.notify_one();
  }
  void run_until(const std::function<bool()>& done) {
    while (!done()) {
      std::unique_lock lock(mutex_);
      ASSERT_TRUE(wake_.wait_for(lock, std::chrono::seconds(60), [&] { return !tasks_.empty(); }));
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
  }
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
};

TEST_F(LedgerServiceTest, TheLogGoesOnAfterARestart) {
  ASSERT_TRUE(open());
  EXPECT_EQ(receipts->build(), "build");
  answer(1);
  answer(2);
  EXPECT_EQ(logged(), 3u + 4u);
  ASSERT_TRUE(open());
  answer(3);
  EXPECT_EQ(logged(), 3u + 6u);
}

TEST_F(LedgerServiceTest, SummarisesWhatIsLogged) {
  ASSERT_TRUE(open());
  answer(1);
  receipts.reset();
  ASSERT_TRUE(open());
  std::promise<LedgerSummary> told;
  receipts->summarise([&told](const LedgerSummary& summary) { told.set_value(summary); });
  const LedgerSummary summary = told.get_future().get();
  EXPECT_EQ(summary.entries, 3u + 2u);
  ASSERT_EQ(summary.members.size(), 2u);
  EXPECT_EQ(summary.members[0].served + summary.members[1].served, 2);
}

TEST_F(LedgerServiceTest, WithCreditsThePayerIsInTheLogAndPays) {
  const PublicKey payer = testing::receipt_key(70).public_key();
  const auto grant = [&](std::int64_t amount) {
    std::promise<Status> told;
    receipts->grant(payer, amount, [&told](const Status& done) { told.set_value(done); });
    return told.get_future().get();
  };
  ASSERT_TRUE(open());
  EXPECT_EQ(grant(100).error().code, ErrorCode::kRefused) << "a log only";
  receipts.reset();
  credits = std::make_shared<Credits>();
  ASSERT_TRUE(open()) << "with audits off as well";
  for (const std::int64_t amount : {std::int64_t{0}, std::int64_t{-1}, ledger::kGrantMax + 1}) {
    EXPECT_EQ(grant(amount).error().code, ErrorCode::kInvalidInput) << amount;
  }
  ASSERT_TRUE(grant(100));
  EXPECT_EQ(credits->balance(payer).spendable, 100) << "at once";
  // Five prompt positions and one more, in twice two layers, and the fee.
  constexpr std::int64_t kPrice = 2 * (2 * (5 + 5) + 2);
  auto holds = credits->reserve(payer, {{testing::receipt_request(1).order.request, 60}});
  ASSERT_TRUE(holds);
  answer(1);
  answer(2);  // for which no credit is held
  holds->clear();
  ASSERT_TRUE(grant(1)) << "behind which the receipts are on the disk";
  EXPECT_EQ(credits->balance(payer).spendable, 101 - kPrice);
  EXPECT_EQ(logged(), 3u + 4u + 2u);
  credits = std::make_shared<Credits>();
  ASSERT_TRUE(open());
  EXPECT_EQ(credits->balance(payer).spendable, 101 - kPrice) << "as the log has it";
  EXPECT_EQ(credits->balance(payer).reserved, 0);
}

TEST_F(LedgerServiceTest, AClockThatIsWrongCostsNoReceipts) {
  constexpr std::int64_t kDay = 24 * 3'600;
  const std::int64_t right = clock.unix_;
  clock.unix_ = right + 400 * kDay;
  ASSERT_TRUE(open());
  answer(1);
  EXPECT_EQ(logged(), 3u + 2u);
  clock.unix_ = right;
  ASSERT_TRUE(open()) << "with the right clock";
  EXPECT_GE(*receipts->time(), right + 400 * kDay) << "a log's time does not go back";
  answer(2);
  clock.unix_ = right - kDay;  // while it runs
  answer(3);
  clock.unix_ = right + 401 * kDay;
  answer(4);
  EXPECT_EQ(logged(), 3u + 8u);
  clock.unix_ = right - 400 * kDay;
  ASSERT_TRUE(open());
  answer(5);
  EXPECT_EQ(logged(), 3u + 10u);
}

TEST_F(LedgerServiceTest, WhoMakesOtherReceiptsIsToldWhy) {
  ASSERT_TRUE(open());
  EXPECT_EQ(receipts->why_unreceipted("a", "other"), "") << "nothing is audited";
  receipts.reset();
  ASSERT_TRUE(open(testing::receipt_key(1), AuditMode::kSpot));
  EXPECT_EQ(receipts->why_unreceipted("a", "build"), "");
  EXPECT_NE(
      receipts->why_unreceipted("a", "other").find("its build is other, this server's is build"),
      std::string::npos);
  EXPECT_NE(receipts->why_unreceipted("a", ""), "");
  receipts->skip({"a"}, 3, "key", limits::kWindowPositions + 2);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (receipts->audits().unreceipted.total == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(receipts->audits().unreceipted.by_node.at("a"), 2u);
  EXPECT_EQ(receipts->audits().unreceipted.by_key.at("key"), 6u);
}

TEST_F(LedgerServiceTest, ACheckpointIsDrawnOver) {
  ASSERT_TRUE(open(testing::receipt_cluster(), AuditMode::kSpot));
  receipts->begin(testing::receipt_pipeline(others, Epoch(5)));
  answer(1);
  run_until([this] { return !asked.empty(); });
  EXPECT_EQ(asked[0].nodes, (std::vector<std::string>{"c", "d"}));
  // Their request is one that makes no receipts, whatever its stages say.
  ReceiptRequest again = testing::receipt_request(1);
  again.epoch = Epoch(5);
  again.order = asked[0].order;
  receipts->start(again.epoch, again.order.request, again.tokens.size());
  claim(others, again);
  EXPECT_EQ(logged(), 3u + 2u + 1u) << "rules, members, receipts, the draw";
}

TEST_F(LedgerServiceTest, AClockThatLeapsCostsNoAuditThatIsUnderWay) {
  ASSERT_TRUE(open(testing::receipt_cluster(), AuditMode::kSpot));
  receipts->begin(testing::receipt_pipeline(others, Epoch(5)));
  answer(1);
  run_until([this] { return !asked.empty(); });
  clock.unix_ += 400 * 24 * std::int64_t{3'600};
  for (int i = 0; i < 2; ++i) {
    const std::int64_t before = *receipts->time();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (*receipts->time() < before + LedgerClock::kBusySeconds &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
  }
  EXPECT_LT(*receipts->time(), clock.unix_.load()) << "an audit is under way";
  EXPECT_EQ(receipts->audits().running, 1u);
  EXPECT_EQ(receipts->audits().missed_total, 0u);
}

TEST_F(LedgerServiceTest, ALogThatFailsSaysSoAndTheRestGoesOn) {
  ASSERT_TRUE(open());
  answer(1);
  EXPECT_EQ(receipts->fault(), "");
  EXPECT_EQ(logged(), 3u + 2u);
  ASSERT_TRUE(open());
  full = true;
  answer(2);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (receipts->fault().empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_NE(receipts->fault().find("the disk is full"), std::string::npos);
  answer(3);  // no caller waits for a disk
  full = false;
  EXPECT_EQ(logged(), 3u + 2u) << "what follows a failed append is not appended";
  ASSERT_TRUE(open());
  EXPECT_EQ(receipts->fault(), "");
  answer(4);
  EXPECT_EQ(logged(), 3u + 4u);
}

TEST_F(LedgerServiceTest, ADamagedOrForeignLogIsRefused) {
  ASSERT_TRUE(open());
  answer(1);
  logged();
  const Status foreign = open(testing::receipt_key(2));
  ASSERT_FALSE(foreign.ok());
  EXPECT_NE(foreign.error().message.find("another log"), std::string::npos)
      << foreign.error().message;
  fs::resize_file(above / "ledger/tile/entries/000.p/5", 100);
  const Status damaged = open();
  ASSERT_FALSE(damaged.ok());
  EXPECT_NE(damaged.error().message.find("tile/entries/000.p/5"), std::string::npos)
      << damaged.error().message;
}

// A bundle of entries, an hour and more old when the server stops.
struct OldLedgerTest : LedgerServiceTest {
  static constexpr std::int64_t kHour = 3'600;

  void live() {
    ASSERT_TRUE(open(testing::receipt_cluster(), AuditMode::kSpot));
    for (int i = 0; i < 130; ++i) answer(static_cast<unsigned char>(i));
    EXPECT_GE(logged(), 3u + 260u);
    clock.unix_ += 2 * kHour;
    ASSERT_TRUE(open(testing::receipt_cluster(), AuditMode::kSpot));
    answer(130);
    EXPECT_GE(logged(), 3u + 262u);
  }
  void archive() {
    const auto log = ledger::open_log_folder((above / "ledger").string(), ledger::LogAccess::kRead);
    const std::string to = (above / "archive").string();
    const auto folder = ledger::open_log_folder(to, ledger::LogAccess::kCreate);
    const auto done = ledger::archive_bundles(**log, **folder, to, kHour);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->moved, 1u);
  }
  fs::path snapshot() const { return above / "ledger/snapshot"; }
};

TEST_F(OldLedgerTest, AStartGoesOnFromTheSnapshotWithoutTheArchive) {
  live();
  archive();
  ASSERT_TRUE(fs::exists(snapshot()));
  fs::rename(above / "archive", above / "away");
  ASSERT_TRUE(open(testing::receipt_cluster(), AuditMode::kSpot)) << "no archived entry is needed";
  answer(131);
  receipts.reset();
  ASSERT_TRUE(open());
  answer(132);
  receipts.reset();
  // Without the snapshot it is, and the error says where it was.
  fs::rename(snapshot(), above / "snapshot");
  const Status lost = open();
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(lost.error().message.find("entries 0 to 255 are archived in"), std::string::npos)
      << lost.error().message;
  fs::rename(above / "away", above / "archive");
  ASSERT_TRUE(open());
  EXPECT_GE(logged(), 3u + 266u) << "and the books allow all of it";
}

TEST_F(OldLedgerTest, ASnapshotThatDoesNotFitIsPassedOver) {
  live();
  const std::string path = snapshot().string();
  const auto folder =
      ledger::open_log_folder((above / "ledger").string(), ledger::LogAccess::kRead);
  const ledger::Checkpoint checkpoint = ledger::read_checkpoint(**folder).value();
  const SecretKey cluster = testing::receipt_cluster();
  const Bytes whole = (*folder)->read("snapshot", kSnapshotBytes).value();
  const auto found = [&](const Bytes& bytes) {
    EXPECT_TRUE(ledger::replace_file(**folder, "snapshot", bytes));
    return find_snapshot(cluster, **folder, checkpoint).has_value();
  };
  EXPECT_TRUE(found(whole));
  EXPECT_FALSE(find_snapshot(testing::receipt_key(2), **folder, checkpoint)) << "another cluster";
  for (const std::size_t at :
       {std::size_t{3}, std::size_t{30}, std::size_t{80}, whole.size() - 1}) {
    Bytes other = whole;
    other[at] ^= std::byte{1};
    EXPECT_FALSE(found(other)) << at;
    other.resize(at);
    EXPECT_FALSE(found(other)) << at;
  }
  // The cluster's own, of other entries, and of more than there are.
  ledger::Books strange({}, ledger::EntrySignatures::kTrusted);
  const auto grow = [&](std::int64_t time, const ledger::EntryBody& body) {
    EXPECT_TRUE(strange.apply(ledger::write_entry({time, body})));
  };
  grow(1, ledger::RulesEntry{ledger::policy_hash({}), cluster.public_key()});
  EXPECT_FALSE(found(write_snapshot(cluster, strange, 0, {})));
  grow(1, ledger::MemberEntry{cluster.public_key(), Hash256(), true});
  while (strange.entries() <= checkpoint.size) {
    grow(1, ledger::ChangeEntry{cluster.public_key()});
  }
  EXPECT_FALSE(found(write_snapshot(cluster, strange, 0, {})));
  ASSERT_TRUE(open()) << "which folds the whole log";
  answer(131);
  EXPECT_GE(logged(), 3u + 264u);
  EXPECT_TRUE(find_snapshot(cluster, **folder, ledger::read_checkpoint(**folder).value()))
      << "and keeps one that fits";
}

TEST_F(OldLedgerTest, AChangedEntryIsFoundThoughTheSnapshotHasItsFold) {
  live();
  const std::string path = (above / "ledger/tile/entries/000").string();
  std::string bytes;
  {
    std::ifstream in(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  bytes[20] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
  const Status changed = open();
  ASSERT_FALSE(changed.ok());
  EXPECT_NE(changed.error().message.find("tile/entries/000: entry 0"), std::string::npos)
      << changed.error().message;
}

}  // namespace
}  // namespace hearth::coordinator
