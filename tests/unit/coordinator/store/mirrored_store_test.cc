#include "coordinator/store/mirrored_store.h"

#include <unistd.h>

#include <chrono>
#include <future>
#include <thread>

#include "tests/unit/coordinator/store/held_lease.h"
#include "tests/unit/coordinator/store/private_postgres.h"

namespace hearth::coordinator {
namespace {

ApiKey key_named(const std::string& name) {
  ApiKey key;
  key.id = "id of " + name;
  key.secret_hash = blake2b(as_bytes(name));
  key.name = name;
  return key;
}

class MirroredStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = PrivatePostgres::shared();
    if (server_ == nullptr) GTEST_SKIP() << "the package postgresql is not installed";
    server_->start();
    server_->clear();
    ASSERT_TRUE(use_store_url(folder_.path(), server_->url()).ok());
    lease_.emplace(server_->url());
    ASSERT_EQ(lease_->take(), 1U);
    auto opened = open_server_store(folder_.path(), lease_->term(1),
                                    [this](const Error& why) { lost_.set_value(why); });
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    store_ = *opened;
  }
  void TearDown() override {
    if (server_ != nullptr) server_->thaw();
  }

  // Tries until the database is back.
  void add_when_back(const std::string& name) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    Status added = store_->add_key(key_named(name));
    while (!added.ok() && added.error().code == ErrorCode::kUnavailable) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << added.error().message;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      added = store_->add_key(key_named(name));
    }
    EXPECT_TRUE(added.ok()) << added.error().message;
  }
  Error loss() {
    auto told = lost_.get_future();
    const bool is_told = told.wait_for(std::chrono::seconds(120)) == std::future_status::ready;
    EXPECT_TRUE(is_told);
    return is_told ? told.get() : Error();
  }
  bool has(const std::string& name) {
    const auto found = store_->find_key("id of " + name);
    return found.ok() && found->has_value() && !(*found)->revoked;
  }

  StoreFolder folder_;
  PrivatePostgres* server_ = nullptr;
  std::optional<HeldLease> lease_;
  std::promise<Error> lost_;
  std::shared_ptr<Store> store_;  // before what its thread uses
};

TEST_F(MirroredStoreTest, ReadsGoOnWhileTheDatabaseIsAway) {
  ASSERT_TRUE(store_->add_key(key_named("before")).ok());
  server_->stop();
  const Status refused = store_->add_key(key_named("meanwhile"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find("is away"), std::string::npos) << refused.error().message;
  EXPECT_TRUE(has("before"));
  EXPECT_FALSE(has("meanwhile"));
  EXPECT_EQ(store_->keys()->size(), 1U);
  EXPECT_TRUE(store_->forget_waiting(5).ok()) << "nothing is to be written";
  const std::string epoch = [&] {
    server_->start();
    add_when_back("after");
    return server_->value("SELECT epoch FROM lease");
  }();
  EXPECT_EQ(epoch, "1") << "a lost connection ends no lease";
  EXPECT_EQ(server_->value("SELECT count(*) FROM keys"), "2");
  EXPECT_TRUE(has("before") && has("after"));
}

TEST_F(MirroredStoreTest, AFrozenDatabaseIsWaitedForOnce) {
  ASSERT_TRUE(store_->add_key(key_named("before")).ok());
  server_->freeze();
  Status refused = store_->add_key(key_named("meanwhile"));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("did not answer in time"), std::string::npos)
      << refused.error().message;
  refused = store_->add_key(key_named("later"));
  EXPECT_NE(refused.error().message.find("the swarm goes on computing"), std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(has("before"));
  server_->thaw();
  add_when_back("after");
  EXPECT_FALSE(has("later"));
  EXPECT_EQ(server_->value("SELECT count(*) FROM keys"), std::to_string(store_->keys()->size()));
}

TEST_F(MirroredStoreTest, ChangesOfOtherProcessesArrive) {
  ASSERT_TRUE(store_->add_key(key_named("laptop")).ok());
  const auto command = folder_.open();
  ASSERT_TRUE(*command->revoke_key("laptop"));
  ASSERT_TRUE(command->add_key(key_named("phone")).ok());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (has("laptop") || !has("phone")) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // And what is refused in the database is not in the mirror.
  EXPECT_EQ(store_->add_key(key_named("phone")).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(store_->keys()->size(), 2U);
}

TEST_F(MirroredStoreTest, ASecondCoordinatorIsRefusedByName) {
  const auto second = open_server_store(folder_.path(), {2, "ab"}, [](const Error&) {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kRefused);
  EXPECT_NE(second.error().message.find("process " + std::to_string(::getpid())), std::string::npos)
      << second.error().message;
  EXPECT_TRUE(store_->add_key(key_named("first")).ok()) << "the first one keeps it";
  store_.reset();
  HeldLease next(server_->url());
  ASSERT_EQ(next.depose_and_take(), 2U);
  EXPECT_TRUE(open_server_store(folder_.path(), next.term(2), [](const Error&) {}).ok());
}

// As after a pause in which another coordinator has held the store.
TEST_F(MirroredStoreTest, AnOlderEpochWritesNothing) {
  server_->execute("UPDATE lease SET epoch = epoch + 1, name = 'den, process 7'");
  EXPECT_FALSE(store_->add_key(key_named("late")).ok());
  const Error why = loss();
  EXPECT_EQ(why.code, ErrorCode::kRefused);
  EXPECT_NE(why.message.find("den, process 7"), std::string::npos) << why.message;
  EXPECT_FALSE(store_->add_key(key_named("later")).ok());
  EXPECT_EQ(server_->value("SELECT count(*) FROM keys"), "0");
}

// In an older copy of the database, another one has got the same epoch.
TEST_F(MirroredStoreTest, TheSameEpochOfAnotherHolderIsNotItsOwn) {
  server_->execute("UPDATE lease SET holder = 'ab', name = 'den, process 7'");
  EXPECT_FALSE(store_->add_key(key_named("late")).ok());
  EXPECT_NE(loss().message.find("den, process 7"), std::string::npos);
  EXPECT_EQ(server_->value("SELECT count(*) FROM keys"), "0");
}

TEST_F(MirroredStoreTest, AnOlderCopyOfTheDatabaseIsNotFollowed) {
  ASSERT_TRUE(store_->add_key(key_named("laptop")).ok());
  server_->execute("UPDATE head SET changes = 0; DELETE FROM keys; NOTIFY hearth");
  const Error why = loss();
  EXPECT_NE(why.message.find("older copy"), std::string::npos) << why.message;
  EXPECT_TRUE(has("laptop"));
}

TEST_F(MirroredStoreTest, AnotherCoordinatorDuringALossDeposesIt) {
  server_->stop();
  EXPECT_FALSE(store_->add_key(key_named("meanwhile")).ok());
  server_->start();
  // Before or after it connects again, which are the two ways to see it.
  server_->execute("UPDATE lease SET epoch = epoch + 5, name = 'attic, process 9'");
  const Error why = loss();
  EXPECT_NE(why.message.find("attic, process 9"), std::string::npos) << why.message;
}

}  // namespace
}  // namespace hearth::coordinator
