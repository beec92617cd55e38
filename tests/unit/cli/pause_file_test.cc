#include "cli/pause_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/node/machine/pause_folder.h"

namespace hearth::cli {
namespace {

TEST(PauseFile, KeepsTheOrder) {
  const PauseFolder folder;
  EXPECT_EQ(*read_pause_file(folder.path()), std::nullopt);
  for (const node::OwnerOrder& order :
       {node::OwnerOrder{false, 0}, node::OwnerOrder{true, 1'700'000'000}}) {
    ASSERT_TRUE(write_pause_file(folder.path(), order).ok());
    EXPECT_EQ(*read_pause_file(folder.path()), order);
  }
  EXPECT_TRUE(*remove_pause_file(folder.path()));
  EXPECT_FALSE(*remove_pause_file(folder.path()));
  EXPECT_EQ(*read_pause_file(folder.path()), std::nullopt);
}

TEST(PauseFile, CreatesTheFolderForItsUserAlone) {
  const PauseFolder folder;
  const std::string inner = folder.path() + "/new";
  ASSERT_TRUE(write_pause_file(inner, {}).ok());
  EXPECT_EQ(std::filesystem::status(inner).permissions(), std::filesystem::perms::owner_all);
}

TEST(PauseFile, WhatIsNoneOfOursIsAnErrorThatSaysWhatToDo) {
  const PauseFolder folder;
  for (const char* text :
       {"", "pause", "[]", "{}", "{\"drain\":1,\"until\":0}", "{\"drain\":false,\"until\":\"x\"}",
        "{\"drain\":false,\"until\":1.5}"}) {
    ASSERT_TRUE(write_pause_file(folder.path(), {}).ok());
    std::ofstream(pause_file(folder.path())) << text;
    const auto order = read_pause_file(folder.path());
    ASSERT_FALSE(order.ok()) << text;
    EXPECT_NE(order.error().message.find("hearth resume"), std::string::npos) << text;
  }
}

TEST(WorkShare, AWorkerThatHasMemoryIsSeen) {
  const PauseFolder folder;
  EXPECT_FALSE(*workers_work(folder.path()));
  WorkShare one(folder.path());
  EXPECT_FALSE(*workers_work(folder.path()));
  one.hold(true);
  {
    WorkShare two(folder.path());
    two.hold(true);
    one.hold(false);
    EXPECT_TRUE(*workers_work(folder.path())) << "the other one has some";
  }
  EXPECT_FALSE(*workers_work(folder.path())) << "it ended";
  EXPECT_FALSE(workers_work(folder.path() + "/none").ok());
  WorkShare nowhere(folder.path() + "/none");
  nowhere.hold(true);
}

}  // namespace
}  // namespace hearth::cli
