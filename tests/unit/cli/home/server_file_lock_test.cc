#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/home/server_file.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

struct ServerFileLockTest : ::testing::Test {
  fs::path folder = fs::temp_directory_path() / ("hearth-server-lock-" + std::to_string(getpid()));
  std::string path = (folder / "data").string();
  void TearDown() override { fs::remove_all(folder); }
  static int mode(const std::string& name) {
    struct stat found = {};
    return ::stat(name.c_str(), &found) == 0 ? static_cast<int>(found.st_mode & 0777) : -1;
  }
};

TEST_F(ServerFileLockTest, ComesBackAsItWasWrittenAndGoesWithItsServer) {
  const ServerInfo info{"http://127.0.0.1:1", "127.0.0.1:2", "[::1]:3", "a \"model\"\n\\", 77};
  {
    auto file = ServerFile::lock(path);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_FALSE(read_server_file(path).ok());
    ASSERT_TRUE((*file)->write(info).ok());
    const auto read = read_server_file(path);
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->api, info.api);
    EXPECT_EQ(read->control, info.control);
    EXPECT_EQ(read->data, info.data);
    EXPECT_EQ(read->model, info.model);
    EXPECT_FALSE(fs::exists(path + "/serve.json.new"));
    ServerInfo other = info;
    other.control = "home:9";
    ASSERT_TRUE((*file)->write(other).ok());
    EXPECT_EQ(read_server_file(path)->control, "home:9");
  }
  EXPECT_FALSE(fs::exists(path + "/serve.json"));
  EXPECT_EQ(read_server_file(path).error().code, ErrorCode::kUnavailable);
}

TEST_F(ServerFileLockTest, FolderAndLockAreForThisUserAlone) {
  auto file = ServerFile::lock(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(mode(path), 0700);
  EXPECT_EQ(mode(path + "/serve.lock"), 0600);
}

TEST_F(ServerFileLockTest, ASecondServerIsKeptOutUntilTheFirstIsGone) {
  auto first = ServerFile::lock(path);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE((*first)->write({"http://x", "c:1", "d:1", "m", 1}).ok());
  const auto second = ServerFile::lock(path);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kIo);
  EXPECT_NE(second.error().message.find(path), std::string::npos);
  EXPECT_TRUE(read_server_file(path).ok()) << "the refused one must not remove the file";
  first.value().reset();
  EXPECT_TRUE(ServerFile::lock(path).ok());
}

TEST_F(ServerFileLockTest, AFolderThatCannotBeMadeIsNamed) {
  fs::create_directories(folder);
  std::ofstream(folder / "file") << "x";
  const auto refused = ServerFile::lock((folder / "file" / "data").string());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kIo);
  EXPECT_NE(refused.error().message.find("file/data"), std::string::npos);
}

TEST_F(ServerFileLockTest, AFolderThatOthersMayWriteInIsRefused) {
  fs::create_directories(path);
  for (const mode_t mode : {0777, 0770, 0702}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const auto file = ServerFile::lock(path);
    ASSERT_FALSE(file.ok()) << mode;
    EXPECT_NE(file.error().message.find("chmod go-w " + path), std::string::npos);
  }
  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  EXPECT_TRUE(ServerFile::lock(path).ok());
}

}  // namespace
}  // namespace hearth::cli
