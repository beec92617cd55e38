#include "cli/home/server_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace hearth::cli {
namespace {

class ServerFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/hearth-server-file-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    root_ = name;
    folder_ = root_ + "/deep/data";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string root_;
  std::string folder_;
};

TEST_F(ServerFileTest, IsThereWhileTheServerIs) {
  EXPECT_EQ(read_server_file(folder_).error().code, ErrorCode::kUnavailable);
  {
    auto file = ServerFile::lock(folder_);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_TRUE((*file)->write({"http://127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "model", 4}));
    const auto info = read_server_file(folder_);
    ASSERT_TRUE(info);
    EXPECT_EQ(info->api, "http://127.0.0.1:1");
    EXPECT_EQ(info->control, "127.0.0.1:2");
    EXPECT_EQ(info->data, "127.0.0.1:3");
    EXPECT_EQ(info->model, "model");
    EXPECT_EQ(info->pid, 4);
  }
  EXPECT_FALSE(read_server_file(folder_));
}

TEST_F(ServerFileTest, TheFolderIsForItsUserAlone) {
  ASSERT_TRUE(ServerFile::lock(folder_));
  struct stat status = {};
  ASSERT_EQ(::stat(folder_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(ServerFileTest, OneServerAFolder) {
  auto first = ServerFile::lock(folder_);
  ASSERT_TRUE(first);
  const auto second = ServerFile::lock(folder_);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find(folder_), std::string::npos);
  first->reset();
  EXPECT_TRUE(ServerFile::lock(folder_));
}

TEST_F(ServerFileTest, AFileThatIsNoneIsNoServer) {
  std::filesystem::create_directories(folder_);
  for (const char* text : {"", "{", "[]", "{\"control\": 7}", "null"}) {
    std::ofstream(folder_ + "/serve.json") << text;
    EXPECT_FALSE(read_server_file(folder_)) << text;
  }
}

}  // namespace
}  // namespace hearth::cli
