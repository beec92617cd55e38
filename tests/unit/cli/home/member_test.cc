#include "cli/home/member.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/fingerprint.h"
#include "base/private_file.h"

namespace hearth::cli {
namespace {

class MemberTest : public ::testing::Test {
 protected:
  MemberTest() {
    char name[] = "/tmp/hearth-member-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~MemberTest() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(write_private_file(folder_ + "/" + name, as_bytes(text)));
  }
  std::string member_json(const std::string& cluster, const std::string& node = "den",
                          const std::string& coordinators = R"(["127.0.0.1:9", "[::1]:9"])") const {
    return R"({"cluster": ")" + cluster + R"(", "node": ")" + node + R"(", "coordinators": )" +
           coordinators + "}";
  }
  bool has(const std::string& name) const { return std::filesystem::exists(folder_ + "/" + name); }
  JoinToken token(const PublicKey& cluster) const {
    return {fingerprint(cluster), std::string(16, '0'), std::string(43, 'A'), {"127.0.0.1:1"}};
  }

  std::string folder_;
  const SecretKey cluster_key_ = SecretKey::generate();
  const PublicKey cluster_ = cluster_key_.public_key();
};

TEST_F(MemberTest, AFolderWithoutServerOrClusterSaysWhatToDo) {
  const auto member = Member::enter(folder_, "den");
  ASSERT_FALSE(member);
  EXPECT_EQ(member.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(member.error().message.find("--data-dir"), std::string::npos);
  EXPECT_NE(member.error().message.find("hearth join"), std::string::npos);
  EXPECT_EQ(leave_cluster(folder_, false).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(leave_cluster(folder_, true).error().code, ErrorCode::kNotFound);
}

TEST_F(MemberTest, WhoHasJoinedKeepsNameKeyAndCoordinators) {
  write("member.json", member_json(cluster_.hex()));
  EXPECT_FALSE(Member::enter(folder_, "den")) << "its key is missing";
  const auto key = own_key_file(folder_ + "/node.key");
  ASSERT_TRUE(key);
  EXPECT_FALSE(Member::enter(folder_, "attic")) << "a second name";
  for (const char* name : {"", "den"}) {
    const auto member = Member::enter(folder_, name);
    ASSERT_TRUE(member) << member.error().message;
    EXPECT_EQ((*member)->name(), "den");
    EXPECT_FALSE(lock_worker(folder_, "den", {})) << "it runs";
    EXPECT_EQ((*member)->identity().key, key->public_key());
    EXPECT_EQ((*member)->roster().book()->cluster(), cluster_);
    EXPECT_TRUE((*member)->beyond_loopback());
    EXPECT_EQ(*(*member)->listen_address(), "127.0.0.1:0") << "where the coordinator sees it";
    EXPECT_EQ(*(*member)->coordinator(), "127.0.0.1:9");
    EXPECT_EQ(*(*member)->coordinator(), "[::1]:9");
    EXPECT_EQ(*(*member)->coordinator(), "127.0.0.1:9") << "one after another";
  }
}

TEST_F(MemberTest, AClientServesNothingAndKnowsItsApi) {
  std::string json = member_json(cluster_.hex());
  json.insert(1, R"("role": "client", "api": "10.0.0.1:11500", )");
  write("member.json", json);
  ASSERT_TRUE(own_key_file(folder_ + "/node.key"));
  const auto serving = Member::enter(folder_, "");
  ASSERT_FALSE(serving);
  EXPECT_NE(serving.error().message.find("joined as client"), std::string::npos);
  EXPECT_FALSE(read_member_api(folder_)) << "its key is missing";
  write("api.key", "hk1.x\n");
  const auto api = read_member_api(folder_);
  ASSERT_TRUE(api);
  EXPECT_EQ(api->address, "10.0.0.1:11500");
  EXPECT_EQ(api->key, "hk1.x");
  ASSERT_TRUE(leave_cluster(folder_, true));
  EXPECT_FALSE(has("api.key"));
}

TEST_F(MemberTest, WhoseRosterNamesItNoLongerDoesNotStart) {
  write("member.json", member_json(cluster_.hex()));
  const auto key = own_key_file(folder_ + "/node.key");
  ASSERT_TRUE(key);
  Roster roster;
  roster.entries = {{SecretKey::generate().public_key(), "attic", Role::kWorker, {}}};
  ASSERT_TRUE(write_private_file(folder_ + "/roster", *sign_roster(roster, cluster_key_)));
  const auto removed = Member::enter(folder_, "");
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, ErrorCode::kRefused);
  roster.entries.push_back({key->public_key(), "den", Role::kWorker, {}});
  ASSERT_TRUE(write_private_file(folder_ + "/roster", *sign_roster(roster, cluster_key_)));
  EXPECT_TRUE(Member::enter(folder_, ""));
}

TEST_F(MemberTest, WhoLeavesIsToldSoAndNotThatItWasRemoved) {
  const auto says = [&](const char* part) {
    return Member::removed(folder_).message.find(part) != std::string::npos;
  };
  write("member.json", member_json(cluster_.hex()));
  EXPECT_TRUE(says("was removed"));
  write("leaving", "");  // hearth leave waits for the coordinator's word
  EXPECT_TRUE(says("has left"));
  ASSERT_TRUE(own_key_file(folder_ + "/node.key"));
  ASSERT_TRUE(leave_cluster(folder_, true));
  EXPECT_TRUE(says("has left"));
  EXPECT_FALSE(has("leaving"));
}

TEST_F(MemberTest, ADamagedFileIsNamedAndNotBelieved) {
  const std::string good = cluster_.hex();
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("7"),
        member_json("", "den"), member_json("zz", "den"), member_json(std::string(64, '0'), "den"),
        member_json(good, ""), member_json(good, "a\\nb"), member_json(good, "den", "[]"),
        member_json(good, "den", "7"), member_json(good, "den", R"(["nowhere"])"),
        member_json(good, "den",
                    R"(["1.1.1.1:1","1.1.1.1:2","1.1.1.1:3","1.1.1.1:4","1.1.1.1:5"])"),
        std::string(100'000, ' ')}) {
    write("member.json", text);
    const auto found = read_member_file(folder_);
    ASSERT_FALSE(found) << text;
    EXPECT_NE(found.error().message.find("member.json"), std::string::npos);
  }
  write("member.json", member_json(good));
  ASSERT_TRUE(read_member_file(folder_));
  ASSERT_EQ(::chmod((folder_ + "/member.json").c_str(), 0644), 0);
  EXPECT_NE(read_member_file(folder_).error().message.find("chmod 600"), std::string::npos);
}

TEST_F(MemberTest, JoinRefusesBeforeItDials) {
  EXPECT_FALSE(join_cluster(folder_, token(cluster_), "", Role::kWorker)) << "no name";
  EXPECT_FALSE(has("node.key"));
  write("member.json", member_json(cluster_.hex()));
  const PublicKey other = SecretKey::generate().public_key();
  const auto second = join_cluster(folder_, token(other), "den", Role::kWorker);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("hearth leave"), std::string::npos);
  EXPECT_FALSE(join_cluster(folder_, token(cluster_), "attic", Role::kWorker)) << "a second name";
  std::filesystem::remove(folder_ + "/member.json");
  write("cluster.key", "a server's");
  const auto server = join_cluster(folder_, token(cluster_), "den", Role::kWorker);
  ASSERT_FALSE(server);
  EXPECT_NE(server.error().message.find("belongs to a server"), std::string::npos);
  EXPECT_FALSE(leave_cluster(folder_, true)) << "a server does not leave its own cluster";
  EXPECT_TRUE(has("cluster.key"));
}

TEST_F(MemberTest, LeavingForgetsAnAdminsOrder) {
  write("member.json", member_json(cluster_.hex()));
  ASSERT_TRUE(own_key_file(folder_ + "/node.key"));
  const std::string order = admin_order_file(folder_, "den");
  std::filesystem::create_directory(folder_ + "/local");
  ASSERT_TRUE(write_private_file(order, as_bytes("{\"drain\":false,\"until\":0}\n")));
  ASSERT_TRUE(leave_cluster(folder_, true));
  EXPECT_FALSE(std::filesystem::exists(order));
}

TEST_F(MemberTest, LeavingHereOnlyForgetsKeyAndRoster) {
  write("member.json", member_json(cluster_.hex()));
  write("roster", "old");
  write("roster.evidence-1-00", "kept");
  ASSERT_TRUE(own_key_file(folder_ + "/node.key"));
  ASSERT_TRUE(leave_cluster(folder_, true));
  for (const char* name : {"member.json", "roster", "node.key"}) EXPECT_FALSE(has(name)) << name;
  EXPECT_TRUE(has("roster.evidence-1-00"));
}

TEST_F(MemberTest, LeavingNeedsTheCoordinatorsWord) {
  write("member.json", member_json(cluster_.hex(), "den", R"(["127.0.0.1:1"])"));
  ASSERT_TRUE(own_key_file(folder_ + "/node.key"));
  const Status left = leave_cluster(folder_, false);
  ASSERT_FALSE(left);
  EXPECT_EQ(left.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(has("node.key"));
  EXPECT_TRUE(has("member.json"));
}

}  // namespace
}  // namespace hearth::cli
