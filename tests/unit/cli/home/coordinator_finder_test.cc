#include "cli/home/coordinator_finder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace hearth::cli {
namespace {

using Words = std::vector<std::string>;

struct CoordinatorFinderTest : ::testing::Test {
  const PublicKey cluster = SecretKey::generate().public_key();
  Words file = {"10.0.0.1:9"};
  std::vector<Words> kept;
  std::atomic<int> searches{0};
  std::vector<FoundCluster> announced;

  CoordinatorFinder finder() {
    CoordinatorFinderOptions options;
    options.cluster = cluster;
    options.addresses = file;
    options.reread = [this] { return file; };
    options.keep = [this](const Words& addresses) {
      file = addresses;
      kept.push_back(addresses);
    };
    options.search = [this] {
      const auto found = announced;
      ++searches;
      return found;
    };
    return CoordinatorFinder(options);
  }
  static Roster roster(const Words& addresses) {
    Roster made;
    made.entries = {{SecretKey::generate().public_key(), "den", Role::kWorker, {"10.9.9.9:1"}},
                    {SecretKey::generate().public_key(), "home", Role::kCoordinator, addresses}};
    return made;
  }
};

TEST_F(CoordinatorFinderTest, KeepsWhatTheRosterSaysBehindWhatLedThere) {
  CoordinatorFinder finder = this->finder();
  EXPECT_EQ(finder.next(), "10.0.0.1:9");
  finder.reached(roster({"10.0.0.1:9"}));
  EXPECT_TRUE(kept.empty()) << "it is there already";
  EXPECT_EQ(finder.next(), "10.0.0.1:9");
  finder.reached(roster({"10.0.0.7:9"}));
  EXPECT_EQ(kept, (std::vector<Words>{{"10.0.0.1:9", "10.0.0.7:9"}}));
  EXPECT_EQ(finder.next(), "10.0.0.1:9");
  EXPECT_EQ(finder.next(), "10.0.0.7:9");
  finder.reached(roster({"10.0.0.7:9"}));
  EXPECT_EQ(finder.next(), "10.0.0.7:9") << "where it was last comes first";
}

TEST_F(CoordinatorFinderTest, SaysWhenAllAddressesWereTried) {
  file = {"10.0.0.1:9", "10.0.0.7:9"};
  CoordinatorFinder finder = this->finder();
  for (int round = 0; round < 2; ++round) {
    finder.next();
    EXPECT_FALSE(finder.tried_all());
    finder.next();
    EXPECT_TRUE(finder.tried_all());
  }
}

TEST_F(CoordinatorFinderTest, TheListStaysShort) {
  CoordinatorFinder finder = this->finder();
  for (int i = 0; i < 20; ++i) {
    finder.next();
    finder.reached(roster({"10.0.1." + std::to_string(i) + ":9"}));
  }
  EXPECT_LE(finder.known().size(), 4u);
  EXPECT_EQ(finder.known().front(), "10.0.0.1:9");
  EXPECT_EQ(finder.known()[1], "10.0.1.19:9");
}

TEST_F(CoordinatorFinderTest, FollowsHearthJoinWhileItRuns) {
  CoordinatorFinder finder = this->finder();
  EXPECT_EQ(finder.next(), "10.0.0.1:9");
  file = {"10.0.0.2:9"};
  EXPECT_EQ(finder.next(), "10.0.0.2:9");
  EXPECT_EQ(finder.all(), Words{"10.0.0.2:9"});
  file.clear();  // unreadable for a moment
  EXPECT_EQ(finder.next(), "10.0.0.2:9");
}

TEST_F(CoordinatorFinderTest, AsksTheNetworkForItsClusterAfterDialsInVainAndNotAgainAtOnce) {
  announced = {{"other", "10.0.0.66:9", SecretKey::generate().public_key()},
               {"home", "10.0.0.3:9", cluster}};
  CoordinatorFinder finder = this->finder();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(finder.next(), "10.0.0.1:9");
  EXPECT_EQ(searches, 0);
  std::string next;
  for (int i = 0; i < 2000 && next != "10.0.0.3:9"; ++i) {
    next = finder.next();
    EXPECT_NE(next, "10.0.0.66:9");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(next, "10.0.0.3:9");
  EXPECT_EQ(searches, 1);
  EXPECT_TRUE(kept.empty()) << "no address has answered yet";
  finder.reached(roster({"10.0.0.3:9"}));
  EXPECT_EQ(kept, (std::vector<Words>{{"10.0.0.3:9", "10.0.0.1:9"}}));
}

}  // namespace
}  // namespace hearth::cli
