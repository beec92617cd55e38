#include <gtest/gtest.h>

#include <filesystem>

#include "base/private_file.h"
#include "cli/cluster/cluster.h"
#include "cli/home/cluster_file.h"
#include "cli/home/own_address.h"
#include "coordinator/store/store.h"

namespace hearth::cli {
namespace {

class ClusterTest : public ::testing::Test {
 protected:
  ClusterTest() {
    char name[] = "/tmp/hearth-cluster-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~ClusterTest() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& text) const {
    ASSERT_TRUE(write_private_file(folder_ + "/cluster.json", as_bytes(text)));
  }
  std::string folder_;
};

TEST_F(ClusterTest, WithoutInitThereIsNone) {
  const auto none = read_cluster(folder_);
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->has_value());
  const auto needed = need_cluster(folder_);
  ASSERT_FALSE(needed);
  EXPECT_EQ(needed.error().code, ErrorCode::kNotFound);
  EXPECT_NE(needed.error().message.find("hearth init"), std::string::npos);
}

TEST_F(ClusterTest, AStoreIsOpenedOfAClusterAlone) {
  const auto none = open_cluster_store(folder_);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("hearth init"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/hearth.db")) << "nothing is made on the way";
  write(R"({"name": "home", "host": "::1", "control_port": 9})");
  const auto store = open_cluster_store(folder_);
  ASSERT_TRUE(store.ok()) << store.error().message;
  EXPECT_TRUE((*store)->tokens()->empty());
}

TEST_F(ClusterTest, IsReadAsItWasWritten) {
  write(R"({"name": "home", "host": "fd00::7", "control_port": 9})");
  const auto cluster = need_cluster(folder_);
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_EQ(cluster->name, "home");
  EXPECT_EQ(cluster->host, "fd00::7");
  EXPECT_EQ(cluster->control_port, 9);
  EXPECT_FALSE(cluster->credits) << "of one that was made before there were any";
  write(R"({"name": "home", "host": "fd00::7", "control_port": 9, "credits": true})");
  EXPECT_TRUE(need_cluster(folder_)->credits);
}

TEST_F(ClusterTest, ADamagedFileIsNamedAndNotBelieved) {
  for (const char* text :
       {"", "{", "[]", R"({"name": "home"})", R"({"name": "", "host": "::1", "control_port": 9})",
        R"({"name": "home", "host": "den", "control_port": 9})",
        R"({"name": "home", "host": "::1", "control_port": 0})",
        R"({"name": "home", "host": "::1", "control_port": 65536})",
        R"({"name": "home", "host": "::1", "control_port": "x"})",
        R"({"name": 7, "host": "::1", "control_port": 9})"}) {
    write(text);
    const auto cluster = read_cluster(folder_);
    ASSERT_FALSE(cluster) << text;
    EXPECT_NE(cluster.error().message.find("cluster.json"), std::string::npos);
  }
}

TEST_F(ClusterTest, OnlyAnAddressThatInitFoundFollowsTheMachine) {
  const auto now = default_host();
  for (const bool follows : {false, true}) {
    write(R"({"name": "home", "host": "192.0.2.1", "control_port": 9, "follows": )" +
          std::string(follows ? "true}" : "false}"));
    Cluster cluster = *need_cluster(folder_);
    EXPECT_EQ(cluster.follows, follows);
    const Status settled = settle_address(folder_, cluster);
    const bool moves = follows && now.ok();
    EXPECT_EQ(settled.ok(), moves);
    EXPECT_EQ(cluster.host, moves ? *now : "192.0.2.1");
    EXPECT_EQ(need_cluster(folder_)->host, cluster.host);
    EXPECT_EQ(need_cluster(folder_)->follows, follows);
  }
  InitOptions options;
  options.name = "other";
  options.data_dir = folder_ + "/found";
  if (own_host().ok()) {
    ASSERT_TRUE(run_init(options));
    EXPECT_TRUE(need_cluster(options.data_dir)->follows);
    options.name.clear();
    options.host = "127.0.0.1";
    ASSERT_TRUE(run_init(options));
    EXPECT_FALSE(need_cluster(options.data_dir)->follows) << "a person has named one";
  }
  options.name = "named";
  options.host = "127.0.0.1";
  options.data_dir = folder_ + "/named";
  ASSERT_TRUE(run_init(options));
  EXPECT_FALSE(need_cluster(options.data_dir)->follows);
}

TEST_F(ClusterTest, InitRefusesABadNameAndAFolderThatHasOne) {
  InitOptions options;
  options.name = "a\nb";
  options.host = "127.0.0.1";
  options.data_dir = folder_;
  EXPECT_FALSE(run_init(options));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/cluster.key"));
  options.name = "home";
  EXPECT_TRUE(run_init(options));
  const auto key = read_key_file(folder_ + "/cluster.key");
  ASSERT_TRUE(key);
  EXPECT_FALSE(run_init(options));
  EXPECT_EQ(read_key_file(folder_ + "/cluster.key")->public_key(), key->public_key());
  EXPECT_TRUE(need_cluster(folder_));
  options.name.clear();
  options.host = "127.0.0.2";
  EXPECT_TRUE(run_init(options)) << "the same at another address";
  EXPECT_EQ(need_cluster(folder_)->name, "home");
  EXPECT_EQ(need_cluster(folder_)->host, "127.0.0.2");
  EXPECT_EQ(need_cluster(folder_)->control_port, kClusterPort);
  EXPECT_EQ(read_key_file(folder_ + "/cluster.key")->public_key(), key->public_key());
  EXPECT_TRUE(check_own_address(*need_cluster(folder_)));
  options.host = "192.0.2.1";
  EXPECT_FALSE(run_init(options)) << "no address of this machine";
  EXPECT_EQ(need_cluster(folder_)->host, "127.0.0.2");
  const Status moved = check_own_address({"home", "192.0.2.1", 9});
  ASSERT_FALSE(moved);
  EXPECT_NE(moved.error().message.find("hearth init --address"), std::string::npos);
  options.name = "home";
  options.host = "127.0.0.1";
  std::filesystem::remove(folder_ + "/cluster.json");
  InitOptions nameless = options;
  nameless.name.clear();
  EXPECT_FALSE(run_init(nameless)) << "the folder has no cluster to move";
  EXPECT_TRUE(run_init(options)) << "one that was interrupted";
  EXPECT_EQ(read_key_file(folder_ + "/cluster.key")->public_key(), key->public_key());
}

}  // namespace
}  // namespace hearth::cli
