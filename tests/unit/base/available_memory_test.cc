#include "base/available_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

namespace hearth {
namespace {

struct AvailableMemory : ::testing::Test {
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "memory-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root = name;
    put("/proc/meminfo", "MemTotal:  9000 kB\nMemFree: 10 kB\nMemAvailable:    5000 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
  std::string root;
};

TEST_F(AvailableMemory, IsTheKernelsOwnEstimateWhereNothingLimits) {
  EXPECT_EQ(available_memory(root), 5000U * 1024);
  put("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(available_memory(root), 5000U * 1024);
  put("/proc/self/cgroup", "0::/user.slice\n");
  put("/sys/fs/cgroup/user.slice/memory.max", "max\n");
  put("/sys/fs/cgroup/user.slice/memory.current", "4096\n");
  EXPECT_EQ(available_memory(root), 5000U * 1024);
}

TEST_F(AvailableMemory, TheTightestGroupOnTheWayUpLimits) {
  put("/proc/self/cgroup", "0::/box/inner\n");
  put("/sys/fs/cgroup/box/inner/memory.max", "3000000\n");
  put("/sys/fs/cgroup/box/inner/memory.current", "500000\n");
  EXPECT_EQ(available_memory(root), 2'500'000U);
  put("/sys/fs/cgroup/box/memory.max", "1000000\n");
  put("/sys/fs/cgroup/box/memory.current", "600000\n");
  EXPECT_EQ(available_memory(root), 400'000U);
  put("/sys/fs/cgroup/box/memory.stat", "anon 9\ninactive_file 100000\nactive_file 20000\n");
  EXPECT_EQ(available_memory(root), 520'000U) << "pages of files are given back when asked for";
  put("/sys/fs/cgroup/memory.max", "100\n");  // a container sees its own limit at the root
  put("/sys/fs/cgroup/memory.current", "200\n");
  EXPECT_EQ(available_memory(root), 0U);
}

TEST_F(AvailableMemory, ReadsTheOlderHierarchyToo) {
  put("/proc/self/cgroup", "12:cpu,cpuacct:/x\n7:memory:/docker/abc\n");
  put("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "2000000\n");
  put("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "1500000\n");
  put("/sys/fs/cgroup/memory/docker/abc/memory.stat", "total_inactive_file 300000\n");
  EXPECT_EQ(available_memory(root), 800'000U);
}

TEST_F(AvailableMemory, IsUnboundedWhereNothingIsKnownAndSaneHere) {
  EXPECT_EQ(available_memory(root + "/none"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_GT(available_memory(), 1U << 20);
}

TEST_F(AvailableMemory, WhatAProcessHoldsIsWithoutThePagesOfFiles) {
  put("/proc/42/status",
      "Name:\thearth\nVmRSS:\t  300 kB\nRssAnon:\t  100 kB\nRssFile:\t 200 kB\n");
  EXPECT_EQ(held_memory(42, root), 100U * 1024);
  EXPECT_FALSE(held_memory(43, root));
  EXPECT_GT(held_memory(getpid()).value_or(0), 0U);
}

}  // namespace
}  // namespace hearth
