#include "coordinator/store/postgres_lease.h"

#include <chrono>

#include "coordinator/store/requests.h"
#include "coordinator/store/store.h"
#include "coordinator/store/stored_manifest.h"
#include "tests/unit/coordinator/store/held_lease.h"
#include "tests/unit/coordinator/store/private_postgres.h"

namespace hearth::coordinator {
namespace {

class PostgresLeaseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = PrivatePostgres::shared();
    if (server_ == nullptr) GTEST_SKIP() << "the package postgresql is not installed";
    server_->start();
    server_->clear();
    ASSERT_TRUE(use_store_url(folder_.path(), server_->url()).ok());
  }
  Result<std::unique_ptr<PostgresDatabase>> writer(const LeaseTerm& term) const {
    PostgresOptions options{*parse_store_url(server_->url()), Database::Flush::kEveryCommit,
                            kCommandWait};
    options.term = term;
    return PostgresDatabase::open(options);
  }
  static Status add_node_row(PostgresDatabase& db) {
    return db.execute(
        "INSERT INTO waiting (public_key, name, source, since, seen) VALUES ("
        "decode('00', 'hex'), 'n', 's', 1, 1)");
  }

  StoreFolder folder_;
  PrivatePostgres* server_ = nullptr;
};

TEST_F(PostgresLeaseTest, OneOfTwoHoldsIt) {
  HeldLease first(server_->url());
  HeldLease second(server_->url());
  EXPECT_EQ(first.take(), 1U);
  EXPECT_EQ(second.take(), 0U) << "it has not ended";
  auto view = second.store().ask({});
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->holder, first.self().id);
  EXPECT_EQ(view->leader, first.self().peer);
  EXPECT_GT(view->left, std::chrono::minutes(9));
  EXPECT_EQ(view->cluster, "keys");
  ASSERT_EQ(view->standbys.size(), 1U);
  EXPECT_EQ(view->standbys[0], second.self().peer);
  const std::int64_t began = view->began;
  EXPECT_GT(began, 1'700'000'000);

  // A renewal of another epoch, and a release by another one, change nothing.
  EXPECT_TRUE(second.store().ask({LeaseAsk::kRelease, 1}).ok());
  EXPECT_EQ(second.take(), 0U);
  ASSERT_TRUE(first.store().ask({LeaseAsk::kRelease, 1}).ok());
  EXPECT_EQ(second.take(), 2U);
  view = first.store().ask({LeaseAsk::kRenew, 1});
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(view->holder, second.self().id) << "a renewal of an older epoch changes nothing";
  EXPECT_GT(view->began, began) << "also within one second";
}

TEST_F(PostgresLeaseTest, EndsByTheClockOfTheStore) {
  HeldLease first(server_->url(), std::chrono::milliseconds(1));
  HeldLease second(server_->url());
  EXPECT_EQ(first.take(), 1U);
  // The store's clock alone decides: no time of this process is part of a question.
  std::uint64_t epoch = 0;
  while (epoch == 0 && !::testing::Test::HasFailure()) epoch = second.take();
  EXPECT_EQ(epoch, 2U);
}

// Also where the clock says that the lease has ended.
TEST_F(PostgresLeaseTest, ARenewalBeatsATakeThatDoesNotKnowIt) {
  HeldLease first(server_->url(), std::chrono::milliseconds(1));
  HeldLease second(server_->url());
  ASSERT_EQ(first.take(), 1U);
  const LeaseView seen = *second.store().ask({});
  EXPECT_EQ(seen.lasts, std::chrono::milliseconds(1));
  ASSERT_TRUE(first.store().ask({LeaseAsk::kRenew, 1}).ok());
  server_->execute("UPDATE hearth.lease SET ends = clock_timestamp()");
  const LeaseQuestion late{LeaseAsk::kTake, 1, seen.renewed, seen.holder};
  EXPECT_EQ(second.store().ask(late)->holder, first.self().id);
  const LeaseView now = *second.store().ask({});
  EXPECT_NE(now.renewed, seen.renewed);
  const LeaseQuestion other{LeaseAsk::kTake, 1, now.renewed, "of another history"};
  EXPECT_EQ(second.store().ask(other)->holder, first.self().id);
  EXPECT_EQ(second.take(), 2U);
}

// Otherwise the lease would last until the clock is there again.
TEST_F(PostgresLeaseTest, AClockThatWasSetBackEndsIt) {
  HeldLease first(server_->url());
  HeldLease second(server_->url());
  ASSERT_EQ(first.take(), 1U);
  EXPECT_EQ(second.take(), 0U);
  server_->execute("UPDATE hearth.lease SET ends = clock_timestamp() + interval '1 year'");
  EXPECT_EQ(second.take(), 2U);
}

TEST_F(PostgresLeaseTest, ALeaseThatIsGivenBackLastsNoMore) {
  HeldLease first(server_->url());
  ASSERT_EQ(first.take(), 1U);
  const LeaseView back = *first.store().ask({LeaseAsk::kRelease, 1});
  EXPECT_EQ(back.lasts, Duration(0));
}

TEST_F(PostgresLeaseTest, OtherKeysDoNotTakeIt) {
  HeldLease first(server_->url());
  EXPECT_EQ(first.take(), 1U);
  ASSERT_TRUE(first.store().ask({LeaseAsk::kRelease, 1}).ok());
  PostgresLease other(*parse_store_url(server_->url()), lease_self("", "", "other keys"),
                      std::chrono::minutes(1));
  const LeaseView free = *first.store().ask({});
  const LeaseQuestion take{LeaseAsk::kTake, 1, free.renewed, free.holder};
  const auto taken = other.ask(take);
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(taken->epoch, 1U);
  PostgresLease command(*parse_store_url(server_->url()), lease_self("", "", ""),
                        std::chrono::minutes(1));
  EXPECT_EQ(command.ask(take)->cluster, "keys") << "a command signs nothing";
}

TEST_F(PostgresLeaseTest, AnOlderEpochChangesNothing) {
  HeldLease first(server_->url());
  HeldLease second(server_->url());
  ASSERT_EQ(first.take(), 1U);
  const auto old = writer(first.term(1));
  ASSERT_TRUE(old.ok());
  EXPECT_TRUE((*old)->transaction([&] { return add_node_row(**old); }).ok());
  EXPECT_TRUE((*old)->transaction([&] { return (*old)->execute("DELETE FROM waiting"); }).ok());
  ASSERT_EQ(second.depose_and_take(), 2U);
  const Status late = (*old)->transaction([&] { return add_node_row(**old); });
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, ErrorCode::kRefused);
  EXPECT_EQ(server_->value("SELECT count(*) FROM waiting"), "0");
  // A command has no lease.
  const auto command = writer({});
  EXPECT_TRUE((*command)->transaction([&] { return add_node_row(**command); }).ok());
}

TEST_F(PostgresLeaseTest, TheSameEpochOfAnotherHolderChangesNothing) {
  HeldLease first(server_->url());
  ASSERT_EQ(first.take(), 1U);
  const auto mine = writer(first.term(1));
  EXPECT_TRUE((*mine)->transaction([&] { return add_node_row(**mine); }).ok());
  const auto other = writer({1, "ab"});
  const Status late =
      (*other)->transaction([&] { return (*other)->execute("DELETE FROM waiting"); });
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, ErrorCode::kRefused);
  EXPECT_EQ(server_->value("SELECT count(*) FROM waiting"), "1");
}

TEST_F(PostgresLeaseTest, TheManifestIsOneOfAllCoordinators) {
  HeldLease first(server_->url());
  HeldLease second(server_->url());
  ASSERT_EQ(first.take(), 1U);
  EXPECT_TRUE(read_stored_manifest(folder_.path())->empty());
  EXPECT_TRUE(write_stored_manifest(folder_.path(), first.term(1), as_bytes("one")).ok());
  EXPECT_TRUE(write_stored_manifest(folder_.path(), first.term(1), as_bytes("two")).ok());
  ASSERT_EQ(second.depose_and_take(), 2U);
  const Status late = write_stored_manifest(folder_.path(), first.term(1), as_bytes("late"));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, ErrorCode::kRefused);
  EXPECT_EQ(as_text(*read_stored_manifest(folder_.path())), "two");
}

// A leader that stands still between the beginning of a transaction and its COMMIT.
TEST_F(PostgresLeaseTest, ATransactionIsWholeBeforeTheNextEpochOrNotAtAll) {
  HeldLease first(server_->url());
  HeldLease second(server_->url());
  ASSERT_EQ(first.take(), 1U);
  const auto slow = writer(first.term(1));
  ASSERT_TRUE((*slow)->begin(Database::Access::kWrite).ok());
  ASSERT_TRUE(add_node_row(**slow).ok());
  EXPECT_TRUE(first.store().ask({LeaseAsk::kRenew, 1}).ok()) << "a renewal does not wait for it";
  server_->execute("UPDATE hearth.lease SET ends = clock_timestamp()");
  const auto before = second.store().ask({});
  ASSERT_TRUE(before.ok());
  const auto waits = second.store().ask({LeaseAsk::kTake, 1, before->renewed, before->holder});
  ASSERT_FALSE(waits.ok()) << "the epoch changes when the transaction is over";
  EXPECT_EQ(waits.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE((*slow)->execute("COMMIT").ok());
  EXPECT_EQ(second.take(), 2U);
  EXPECT_EQ(server_->value("SELECT count(*) FROM waiting"), "1");
}

TEST_F(PostgresLeaseTest, KeptRequestsAreFenced) {
  HeldLease first(server_->url());
  HeldLease second(server_->url());
  ASSERT_EQ(first.take(), 1U);
  const auto journal = open_request_store(folder_.path(), first.term(1));
  ASSERT_TRUE(journal.ok());
  const Hash256 name = blake2b(as_bytes("a request"));
  ASSERT_TRUE((*journal)->write({RequestRow{name, name, "key", 0, Bytes(9)}}).ok());
  ASSERT_EQ(second.depose_and_take(), 2U);
  EXPECT_EQ((*journal)->write({RequestTokens{name, Bytes(7)}}).error().code, ErrorCode::kRefused);
  EXPECT_EQ((*journal)->write({RequestRemoval{name}}).error().code, ErrorCode::kRefused);
  EXPECT_EQ((*journal)->clear().error().code, ErrorCode::kRefused);
  EXPECT_EQ(server_->value("SELECT count(*) FROM request_tokens"), "0");
  EXPECT_EQ(server_->value("SELECT count(*) FROM requests"), "1");
  const auto next = open_request_store(folder_.path(), second.term(2));
  EXPECT_EQ((*next)->load()->rows.size(), 1U) << "the next leader resumes it";
  EXPECT_TRUE((*next)->write({RequestTokens{name, Bytes(7)}}).ok());
}

}  // namespace
}  // namespace hearth::coordinator
