#include "cli/process/children.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "cli/process/process_log.h"
#include "tests/unit/cli/process/logs_folder.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

// A child is this same program. With the variable set it never reaches the tests: it leaves its
// process id in the folder named there, then does what its first argument says.
const bool kIsChild = [] {
  const char* folder = std::getenv("HEARTH_TEST_CHILD");
  if (folder == nullptr) return false;
  std::ifstream arguments("/proc/self/cmdline");
  std::string word;
  std::getline(arguments, word, '\0');
  std::getline(arguments, word, '\0');
  if (word == "deaf") std::signal(SIGTERM, SIG_IGN);
  std::ofstream(fs::path(folder) / std::to_string(getpid())) << word;
  std::fprintf(stderr, "line one\nbell \a and a line without an end");
  if (word == "exit") _exit(3);
  if (word == "crash") raise(SIGKILL);
  while (true) pause();
}();

struct ChildrenTest : ::testing::Test {
  boost::asio::io_context io;
  fs::path folder = fs::temp_directory_path() / ("hearth-children-" + std::to_string(getpid()));

  void SetUp() override {
    ASSERT_FALSE(kIsChild);
    fs::create_directories(folder);
    setenv("HEARTH_TEST_CHILD", folder.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("HEARTH_TEST_CHILD");
    fs::remove_all(folder);
  }
  // Runs the loop until it holds; generous, and asserted by the caller.
  bool until(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!holds() && std::chrono::steady_clock::now() < end) {
      io.restart();
      io.run_for(std::chrono::milliseconds(10));
    }
    return holds();
  }
  std::vector<pid_t> started() const {
    std::vector<pid_t> pids;
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::ifstream file(entry.path());
      std::string word;
      if (file >> word) pids.push_back(std::stoi(entry.path().filename()));
    }
    return pids;
  }
  static bool alive(pid_t pid) { return ::kill(pid, 0) == 0; }
};

TEST_F(ChildrenTest, StartsEachAndStopsThemWhenAsked) {
  Children children(io);
  EXPECT_EQ(children.running(), 0U);
  children.start({{"one", {"sleep"}}, {"two", {"sleep"}}, {"three", {"sleep"}}});
  EXPECT_EQ(children.running(), 3U);
  ASSERT_TRUE(until([&] { return started().size() == 3; }));
  for (const pid_t pid : started()) EXPECT_TRUE(alive(pid));
  children.stop();
  ASSERT_TRUE(until([&] { return children.running() == 0; }));
  EXPECT_EQ(started().size(), 3U) << "no child is started again after stop()";
}

TEST_F(ChildrenTest, WhoEndsByItselfOrIsKilledIsStartedAgain) {
  Children children(io);
  children.start({{"ends", {"exit"}}, {"stays", {"sleep"}}});
  ASSERT_TRUE(until([&] { return started().size() >= 4; }));  // "ends" three times
  std::vector<pid_t> before = started();
  pid_t stays = 0;
  for (const pid_t pid : before) {
    std::ifstream file(folder / std::to_string(pid));
    std::string word;
    file >> word;
    if (word == "sleep") stays = pid;
  }
  ASSERT_NE(stays, 0);
  ::kill(stays, SIGKILL);
  ASSERT_TRUE(until([&] {
    int sleepers = 0;
    for (const pid_t pid : started()) {
      std::ifstream file(folder / std::to_string(pid));
      std::string word;
      file >> word;
      sleepers += word == "sleep" ? 1 : 0;
    }
    return sleepers == 2;
  }));
  EXPECT_FALSE(alive(stays));
  children.stop();
  ASSERT_TRUE(until([&] { return children.running() == 0; }));
}

TEST_F(ChildrenTest, StopBeforeARestartIsDueStartsNoChild) {
  Children children(io);
  children.start({{"dies", {"crash"}}});
  ASSERT_TRUE(until([&] { return children.running() == 0; }));
  const std::size_t count = started().size();
  children.stop();
  io.restart();
  io.run_for(std::chrono::milliseconds(500));  // longer than the first pause of 200 ms
  EXPECT_EQ(children.running(), 0U);
  EXPECT_EQ(started().size(), count);
}

TEST_F(ChildrenTest, TheDestructorEndsWhatDoesNotListen) {
  std::vector<pid_t> pids;
  {
    Children children(io);
    children.start({{"deaf", {"deaf"}}});
    ASSERT_TRUE(until([&] { return started().size() == 1; }));
    pids = started();
    children.stop();
    io.restart();
    io.run_for(std::chrono::milliseconds(100));
    EXPECT_EQ(children.running(), 1U);
    EXPECT_TRUE(alive(pids[0]));
  }
  EXPECT_FALSE(alive(pids[0]));
  EXPECT_EQ(waitpid(pids[0], nullptr, WNOHANG), -1) << "no zombie is left";
}

TEST_F(ChildrenTest, AProgramThatCannotRunIsNamed) {
  const auto before = spdlog::default_logger();
  const LogsFolder logs;
  ASSERT_TRUE(start_process_log("info").ok());
  ASSERT_TRUE(log_to_file(logs.file("serve.log")).ok());
  Children children(io);
  children.start({{"one", {}, "/nowhere/hearth"}});
  EXPECT_TRUE(until([&] {
    std::ifstream file(logs.file("serve.log"));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return text.find("[one] cannot run /nowhere/hearth\n") != std::string::npos;
  }));
  children.stop();
  spdlog::set_default_logger(before);
}

}  // namespace
}  // namespace hearth::cli
