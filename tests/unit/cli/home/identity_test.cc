#include "cli/home/identity.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/private_file.h"

namespace hearth::cli {
namespace {

class IdentityTest : public ::testing::Test {
 protected:
  IdentityTest() {
    char name[] = "/tmp/hearth-identity-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~IdentityTest() override { std::filesystem::remove_all(folder_); }

  Bytes roster(std::uint64_t number, const std::string& name) {
    Roster made;
    made.number = number;
    made.entries = {{SecretKey::generate().public_key(), name, Role::kWorker, {}}};
    return sign_roster(made, cluster_).value();
  }
  std::vector<std::string> evidence() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("roster.evidence-")) found.push_back(entry.path().string());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  std::string folder_;
  SecretKey cluster_ = SecretKey::generate();
};

TEST_F(IdentityTest, ANewerRosterStaysWhenTheProcessEnds) {
  {
    const auto file = RosterFile::open(folder_, cluster_.public_key());
    ASSERT_TRUE(file);
    EXPECT_EQ((*file)->book()->roster(), nullptr);
    EXPECT_EQ((*file)->take(roster(3, "den")), Offer::kNewer);
    EXPECT_EQ((*file)->take(as_bytes("no roster")), std::nullopt);
  }
  const auto file = RosterFile::open(folder_, cluster_.public_key());
  ASSERT_TRUE(file);
  EXPECT_TRUE((*file)->book()->find("den"));
  EXPECT_TRUE(evidence().empty());
  EXPECT_FALSE(RosterFile::open(folder_, SecretKey::generate().public_key())) << "another cluster";
}

TEST_F(IdentityTest, RollbackAndForkAreRefusedAndKeptAsEvidence) {
  const auto file = RosterFile::open(folder_, cluster_.public_key());
  ASSERT_TRUE(file);
  const Bytes five = roster(5, "five");
  const Bytes four = roster(4, "four");
  const Bytes fork = roster(5, "fork");
  EXPECT_EQ((*file)->take(five), Offer::kNewer);
  EXPECT_EQ((*file)->take(five), Offer::kKnown);
  EXPECT_TRUE(evidence().empty()) << "the same again is no contradiction";
  EXPECT_EQ((*file)->take(four), Offer::kRollback);
  EXPECT_EQ((*file)->take(fork), Offer::kFork);
  EXPECT_EQ((*file)->take(fork), Offer::kFork);
  EXPECT_EQ((*file)->book()->bytes(), five);
  const auto kept = evidence();
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(*read_private_file(kept[0], 10'000), four);
  EXPECT_EQ(*read_private_file(kept[1], 10'000), fork);
  for (int i = 0; i < 50; ++i) (*file)->take(roster(2, "many"));
  EXPECT_EQ(evidence().size(), 16u) << "the disk is not theirs to fill";
  EXPECT_EQ((*file)->take(roster(5, "fork again")), Offer::kFork);
}

TEST_F(IdentityTest, WhatAMemberHoldsAgainstOursIsEvidenceWhenItIsNoOlder) {
  const auto file = RosterFile::open(folder_, cluster_.public_key());
  ASSERT_TRUE(file);
  const Bytes five = roster(5, "five");
  ASSERT_EQ((*file)->take(five), Offer::kNewer);
  const SecretKey other = SecretKey::generate();
  EXPECT_FALSE((*file)->contradicts(as_bytes("no roster")).ok());
  EXPECT_FALSE((*file)->contradicts(sign_roster({{}, 9, {}}, other).value()).ok());
  EXPECT_FALSE((*file)->contradicts(five).value());
  EXPECT_FALSE((*file)->contradicts(roster(4, "four")).value()) << "it is late";
  EXPECT_TRUE((*file)->evidence().empty());
  EXPECT_TRUE((*file)->contradicts(roster(5, "fork")).value());
  EXPECT_TRUE((*file)->contradicts(roster(8, "eight")).value());
  EXPECT_EQ((*file)->book()->bytes(), five) << "only this machine signs";
  ASSERT_TRUE(write_private_file(folder_ + "/roster.evidence-9-x", as_bytes("damaged")));
  std::vector<std::uint64_t> numbers;
  for (const Roster& each : (*file)->evidence()) numbers.push_back(each.number);
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(numbers, (std::vector<std::uint64_t>{5, 8}));
}

TEST_F(IdentityTest, AServerKeepsItsKeys) {
  PublicKey cluster;
  PublicKey node;
  {
    const auto made = ServerIdentity::open(folder_);
    ASSERT_TRUE(made) << made.error().message;
    cluster = made->cluster.public_key();
    node = made->node.key;
    EXPECT_NE(cluster, node);
  }
  const auto again = ServerIdentity::open(folder_);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->cluster.public_key(), cluster);
  EXPECT_EQ(again->node.key, node);
  ASSERT_EQ(::chmod((folder_ + "/node.key").c_str(), 0644), 0);
  const auto refused = ServerIdentity::open(folder_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("chmod 600"), std::string::npos);
}

TEST_F(IdentityTest, AMembersFolderIsNoServers) {
  const std::string json = R"({"cluster": ")" + cluster_.public_key().hex() +
                           R"(", "node": "den", "coordinators": ["127.0.0.1:9"]})";
  ASSERT_TRUE(write_private_file(folder_ + "/member.json", as_bytes(json)));
  const auto refused = ServerIdentity::open(folder_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("this machine is worker den"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/cluster.key"));
}

TEST_F(IdentityTest, OneWorkerOfANameRunsInAFolder) {
  auto first = lock_worker(folder_, "den", {});
  ASSERT_TRUE(first) << first.error().message;
  const auto second = lock_worker(folder_, "den", {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kRefused);
  EXPECT_NE(second.error().message.find("worker den runs already"), std::string::npos);
  EXPECT_TRUE(lock_worker(folder_, "attic", {}));
  first->close();
  EXPECT_TRUE(lock_worker(folder_, "den", {})) << "it has ended";
}

TEST_F(IdentityTest, ALocalTokenOpensForEveryReaderOfItsFile) {
  const std::string path = folder_ + "/local.token";
  {
    const auto token = LocalToken::write(folder_, cluster_.public_key(), "127.0.0.1:900");
    ASSERT_TRUE(token) << token.error().message;
    struct stat found {};
    ASSERT_EQ(::stat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0600U);
    const auto read = parse_join_token(as_text(*read_private_file(path, 1000)));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->addresses, std::vector<std::string>{"127.0.0.1:900"});
    EXPECT_TRUE((*token)->opens(read->id, read->secret));
    EXPECT_FALSE((*token)->opens(read->id, read->id));
    EXPECT_FALSE((*token)->opens(read->id, ""));
    EXPECT_FALSE((*token)->opens("", read->secret));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace hearth::cli
