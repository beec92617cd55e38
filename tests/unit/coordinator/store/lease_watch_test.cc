#include "coordinator/store/lease_watch.h"

#include <chrono>
#include <functional>
#include <thread>

#include "tests/unit/coordinator/store/private_postgres.h"

namespace hearth::coordinator {
namespace {

class LeaseWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = PrivatePostgres::shared();
    if (server_ == nullptr) GTEST_SKIP() << "the package postgresql is not installed";
    server_->start();
    server_->clear();
    ASSERT_TRUE(use_store_url(folder_.path(), server_->url()).ok());
  }
  void TearDown() override {
    if (server_ != nullptr) server_->thaw();
  }
  // A lease that a busy machine does not lose where a test is not about its end.
  static LeaseTimes long_times() {
    LeaseTimes times;
    times.lease = std::chrono::seconds(60);
    return times;
  }
  std::unique_ptr<LeaseWatch> start(const std::string& api,
                                    const LeaseTimes& times = long_times()) const {
    auto watch = LeaseWatch::start(folder_.path(), api, "", "keys", times);
    EXPECT_TRUE(watch.ok()) << watch.error().message;
    return watch.ok() ? *std::move(watch) : nullptr;
  }
  static void wait_for(const std::function<bool()>& happens) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!happens()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  StoreFolder folder_;
  PrivatePostgres* server_ = nullptr;
};

TEST_F(LeaseWatchTest, AReleasedLeaseGoesToTheStandby) {
  auto first = start("first");
  wait_for([&] { return first->led() > 0; });
  const auto second = start("second");
  wait_for([&] { return first->view().standbys.size() == 1; });
  EXPECT_EQ(second->led(), 0U);
  EXPECT_EQ(second->view().leader.api, "first");
  first.reset();
  wait_for([&] { return second->led() > 0; });
  EXPECT_EQ(server_->value("SELECT count(*) FROM coordinators WHERE api = 'first'"), "0");
}

TEST_F(LeaseWatchTest, ALeaderStopsWhenTheStoreDoesNotAnswer) {
  const auto first = start("first", {});
  const auto second = start("second", {});
  wait_for([&] { return first->led() + second->led() > 0; });
  // Each has seen the other one, whichever leads.
  wait_for([&] { return first->view().standbys.size() + second->view().standbys.size() > 1; });
  server_->freeze();
  wait_for([&] { return first->led() + second->led() == 0; });
  wait_for([&] { return !first->away().empty() && !second->away().empty(); });
  server_->thaw();
  wait_for([&] { return first->led() + second->led() > 0; });
}

TEST_F(LeaseWatchTest, ALeaderThatGivesItBackIsAStandby) {
  const auto first = start("first");
  wait_for([&] { return first->led() > 0; });
  const auto second = start("second");
  wait_for([&] { return first->view().standbys.size() == 1; });
  first->give_back();
  EXPECT_EQ(first->led(), 0U);
  wait_for([&] { return second->led() > 0; });
  wait_for([&] { return second->view().standbys.size() == 1; });
  EXPECT_EQ(second->view().standbys[0].api, "first");
}

TEST_F(LeaseWatchTest, ALeaseInViewAgesWhileTheStoreIsAway) {
  const auto first = start("first", {});
  const auto second = start("second", {});
  wait_for([&] { return first->led() + second->led() > 0; });
  LeaseWatch& waits = first->led() > 0 ? *second : *first;
  wait_for([&] { return waits.view().left > Duration(0) && waits.view().epoch > 0; });
  server_->freeze();
  wait_for([&] { return waits.view().left <= Duration(0); });
  EXPECT_GT(waits.view().epoch, 0U) << "it is the last one that was seen";
}

TEST_F(LeaseWatchTest, AnOlderCopyOfTheStoreIsTold) {
  const auto first = start("first");
  wait_for([&] { return first->led() > 0; });
  server_->execute(
      "UPDATE lease SET epoch = epoch + 4, holder = 'x', ends = clock_timestamp() + "
      "interval '1 day'");
  wait_for([&] { return first->view().holder == "x"; });
  EXPECT_TRUE(first->away().empty()) << first->away();
  server_->execute("UPDATE lease SET epoch = 1");
  wait_for([&] { return !first->away().empty(); });
  EXPECT_NE(first->away().find("older copy"), std::string::npos) << first->away();
}

TEST_F(LeaseWatchTest, OtherKeysAndOtherStoresAreTold) {
  const auto first = start("first");
  wait_for([&] { return first->led() > 0; });
  const auto other = LeaseWatch::start(folder_.path(), "", "", "other keys");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code, ErrorCode::kRefused);
  EXPECT_NE(other.error().message.find("copy cluster.key and node.key"), std::string::npos)
      << other.error().message;
  EXPECT_EQ(server_->value("SELECT count(*) FROM coordinators WHERE seen > clock_timestamp() - "
                           "interval '1 day' AND id <> (SELECT holder FROM lease)"),
            "0")
      << "a refused coordinator is no standby";
  const StoreFolder plain;
  const auto none = LeaseWatch::start(plain.path(), "", "", "keys");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, nullptr) << "SQLite needs no lease";
}

}  // namespace
}  // namespace hearth::coordinator
