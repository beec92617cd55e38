#include "cli/cluster.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/private_file.h"

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

TEST_F(ClusterTest, IsReadAsItWasWritten) {
  write(R"({"name": "home", "host": "fd00::7", "control_port": 9})");
  const auto cluster = need_cluster(folder_);
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_EQ(cluster->name, "home");
  EXPECT_EQ(cluster->host, "fd00::7");
  EXPECT_EQ(cluster->control_port, 9);
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

TEST_F(ClusterTest, InitRefusesABadNameAndAFolderThatHasOne) {
  InitOptions options;
  options.name = "a\nb";
  options.host = "127.0.0.1";
  options.data_dir = folder_;
  EXPECT_NE(run_init(options), 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/cluster.key"));
  options.name = "home";
  EXPECT_EQ(run_init(options), 0);
  const auto key = read_key_file(folder_ + "/cluster.key");
  ASSERT_TRUE(key);
  EXPECT_NE(run_init(options), 0);
  EXPECT_EQ(read_key_file(folder_ + "/cluster.key")->public_key(), key->public_key());
  EXPECT_TRUE(need_cluster(folder_));
  std::filesystem::remove(folder_ + "/cluster.json");
  EXPECT_EQ(run_init(options), 0) << "one that was interrupted";
  EXPECT_EQ(read_key_file(folder_ + "/cluster.key")->public_key(), key->public_key());
}

}  // namespace
}  // namespace hearth::cli
