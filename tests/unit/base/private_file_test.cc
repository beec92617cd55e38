#include "base/private_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

namespace hearth {
namespace {

class PrivateFileTest : public ::testing::Test {
 protected:
  PrivateFileTest() {
    char name[] = "/tmp/hearth-private-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~PrivateFileTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_),
                                                  std::filesystem::directory_iterator()));
  }

  std::string folder_;
};

TEST_F(PrivateFileTest, KeepsAKeyForItsOwnerAlone) {
  const SecretKey key = SecretKey::generate();
  ASSERT_TRUE(write_key_file(path("node.key"), key));
  struct stat found {};
  ASSERT_EQ(::stat(path("node.key").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600U);
  const auto read = read_key_file(path("node.key"));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->public_key(), key.public_key());
  EXPECT_EQ(files(), 1u) << "a draft was left";
}

TEST_F(PrivateFileTest, NeverOverwritesAKey) {
  const SecretKey key = SecretKey::generate();
  ASSERT_TRUE(write_key_file(path("node.key"), key));
  EXPECT_FALSE(write_key_file(path("node.key"), SecretKey::generate()));
  EXPECT_EQ(read_key_file(path("node.key"))->public_key(), key.public_key());
  EXPECT_EQ(files(), 1u);
}

TEST_F(PrivateFileTest, RefusesEveryModeThatOthersCanUse) {
  ASSERT_TRUE(write_key_file(path("node.key"), SecretKey::generate()));
  for (const mode_t wider : {0640U, 0604U, 0620U, 0602U, 0610U, 0601U, 0644U, 0777U}) {
    ASSERT_EQ(::chmod(path("node.key").c_str(), wider), 0);
    const auto read = read_key_file(path("node.key"));
    ASSERT_FALSE(read) << std::oct << wider;
    EXPECT_NE(read.error().message.find("chmod 600 " + path("node.key")), std::string::npos);
  }
  for (const mode_t narrow : {0600U, 0400U}) {
    ASSERT_EQ(::chmod(path("node.key").c_str(), narrow), 0);
    EXPECT_TRUE(read_key_file(path("node.key"))) << std::oct << narrow;
  }
}

TEST_F(PrivateFileTest, RefusesLinksFifosAndFolders) {
  ASSERT_TRUE(write_key_file(path("real.key"), SecretKey::generate()));
  ASSERT_EQ(::symlink(path("real.key").c_str(), path("link").c_str()), 0);
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  ASSERT_EQ(::mkdir(path("folder").c_str(), 0700), 0);
  for (const char* name : {"link", "fifo", "folder"}) {
    const auto read = read_key_file(path(name));
    ASSERT_FALSE(read) << name;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidInput) << name;
    EXPECT_NE(read.error().message.find("rm "), std::string::npos) << read.error().message;
  }
}

TEST_F(PrivateFileTest, NamesAMissingFile) {
  EXPECT_EQ(read_key_file(path("none")).error().code, ErrorCode::kNotFound);
}

TEST_F(PrivateFileTest, RefusesWhatIsNoKey) {
  const SecretKey key = SecretKey::generate();
  ASSERT_TRUE(write_key_file(path("good"), key));
  const Bytes good = *read_private_file(path("good"), 1000);
  std::vector<Bytes> bad = {{}, Bytes(good.begin(), good.end() - 1), good, good, good};
  bad[2].push_back(std::byte{'\n'});
  bad[3][0] = std::byte{'H'};
  bad[4][40] = std::byte{'G'};
  for (const Bytes& bytes : bad) {
    ASSERT_TRUE(write_private_file(path("bad"), bytes));
    EXPECT_FALSE(read_key_file(path("bad")));
  }
}

TEST_F(PrivateFileTest, ReadsNoMoreThanItsLimit) {
  ASSERT_TRUE(write_private_file(path("large"), Bytes(101)));
  EXPECT_FALSE(read_private_file(path("large"), 100));
  EXPECT_EQ(read_private_file(path("large"), 101)->size(), 101u);
}

TEST_F(PrivateFileTest, ReplacesWhole) {
  ASSERT_TRUE(write_private_file(path("roster"), as_bytes("one")));
  ASSERT_TRUE(write_private_file(path("roster"), as_bytes("two")));
  EXPECT_EQ(as_text(*read_private_file(path("roster"), 10)), "two");
  EXPECT_EQ(files(), 1u);
  EXPECT_EQ(write_private_file(path("none/roster"), {}).error().code, ErrorCode::kIo);
}

TEST_F(PrivateFileTest, ProcessesThatBeginAtOnceShareOneKey) {
  std::vector<std::thread> threads;
  std::vector<PublicKey> keys(8);
  for (PublicKey& key : keys) {
    threads.emplace_back([&] { key = own_key_file(path("own.key"))->public_key(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const PublicKey& key : keys) EXPECT_EQ(key, keys[0]);
  EXPECT_EQ(files(), 1u);
}

TEST_F(PrivateFileTest, AFolderIsMadeForItsUserAloneAndOneThatOthersWriteInIsRefused) {
  const std::string folder = path("made/inside");
  ASSERT_TRUE(make_private_folder(folder).ok());
  EXPECT_EQ(std::filesystem::status(folder).permissions(), std::filesystem::perms::owner_all);
  ASSERT_TRUE(make_private_folder(folder).ok()) << "it is there already";
  std::filesystem::permissions(folder, std::filesystem::perms::group_write,
                               std::filesystem::perm_options::add);
  const Status refused = make_private_folder(folder);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("chmod go-w " + folder), std::string::npos);
  ASSERT_TRUE(write_private_file(path("file"), {}).ok());
  EXPECT_EQ(make_private_folder(path("file/below")).error().code, ErrorCode::kIo);
}

TEST_F(PrivateFileTest, WhatAKilledProcessLeftIsCleared) {
  for (const char* name : {"roster.draft-aB3dE6", "roster.draft-mine", "roster.backup"}) {
    std::ofstream(path(name)) << "x";
  }
  const std::string held = path("token.draft-aB3dE6");
  const int file = ::open(held.c_str(), O_CREAT | O_WRONLY, 0600);
  ASSERT_EQ(::flock(file, LOCK_EX), 0);
  ASSERT_TRUE(make_private_folder(folder_).ok());
  EXPECT_EQ(files(), 3U);
  EXPECT_FALSE(std::filesystem::exists(path("roster.draft-aB3dE6")));
  EXPECT_TRUE(std::filesystem::exists(held)) << "another process writes it now";
  ::close(file);
  ASSERT_TRUE(make_private_folder(folder_).ok());
  EXPECT_FALSE(std::filesystem::exists(held));
}

}  // namespace
}  // namespace hearth
