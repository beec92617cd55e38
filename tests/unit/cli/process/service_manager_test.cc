// The process's state is one, so each test has a process of its own, whose exit code names the
// check that failed.
#include "cli/process/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/process/loop.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

// Stands for systemd.
class Receiver {
 public:
  explicit Receiver(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    if (path.front() == '@') address.sun_path[0] = '\0';
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    if (::bind(socket_, reinterpret_cast<const sockaddr*>(&address), bytes) != 0) _exit(99);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  // The next message that has arrived; empty: none has.
  std::string next() {
    std::array<char, 256> text{};
    const ssize_t got = ::recv(socket_, text.data(), text.size(), MSG_DONTWAIT);
    return got > 0 ? std::string(text.data(), static_cast<std::size_t>(got)) : std::string();
  }

 private:
  int socket_;
};

std::string abstract_name() { return "@hearth-service-manager-" + std::to_string(::getpid()); }

[[noreturn]] void live_and_stop() {
  Receiver systemd(abstract_name());
  ::setenv("WATCHDOG_USEC", "4", 1);  // a sign of life each microsecond
  ::setenv("WATCHDOG_PID", "1", 1);
  find_service_manager();
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) {
    if (std::getenv(name) != nullptr) _exit(1);
  }
  notify_alive();
  if (!systemd.next().empty()) _exit(2);
  notify_started();
  notify_started();
  if (systemd.next() != "READY=1\nWATCHDOG_USEC=0" || !systemd.next().empty()) _exit(3);
  set_watchdog(Watchdog::kOn);
  if (systemd.next() != "WATCHDOG_USEC=4") _exit(4);
  while (true) {
    notify_alive();
    const std::string sign = systemd.next();
    if (sign == "WATCHDOG=1") break;
    if (!sign.empty()) _exit(5);
  }
  set_watchdog(Watchdog::kOff);
  if (systemd.next() != "WATCHDOG_USEC=0") _exit(6);
  ::usleep(10);
  notify_alive();
  notify_stopping();
  if (systemd.next() != "STOPPING=1") _exit(7);
  _exit(0);
}

TEST(ServiceManagerDeathTest, HearsOfTheStartOfLifeAndOfTheEnd) {
  EXPECT_EXIT(live_and_stop(), ::testing::ExitedWithCode(0), "");
}

[[noreturn]] void run_a_loop() {
  Receiver systemd(abstract_name());
  ::setenv("WATCHDOG_USEC", "4", 1);
  find_service_manager();
  Loop loop;
  int ticks = 0;
  loop.run(
      [&] {
        if (++ticks == 3) raise(SIGTERM);
      },
      [&] { loop.stop(); });
  std::vector<std::string> heard;
  for (std::string each = systemd.next(); !each.empty(); each = systemd.next()) {
    heard.push_back(each);
  }
  const auto signs = static_cast<std::size_t>(std::count(heard.begin(), heard.end(), "WATCHDOG=1"));
  std::erase(heard, "WATCHDOG=1");
  const std::vector<std::string> rest = {"READY=1\nWATCHDOG_USEC=0", "WATCHDOG_USEC=4",
                                         "STOPPING=1", "WATCHDOG_USEC=0"};
  _exit(signs >= 2 && heard == rest ? 0 : 1);
}

TEST(ServiceManagerDeathTest, HearsFromALoop) {
  EXPECT_EXIT(run_a_loop(), ::testing::ExitedWithCode(0), "");
}

TEST(ServiceManagerDeathTest, WithoutAWatchdogOnlyStartAndEndAreSent) {
  const auto live = [] {
    const fs::path folder = fs::temp_directory_path() / ("hearth-" + std::to_string(::getpid()));
    fs::create_directories(folder);
    Receiver systemd((folder / "notify").string());
    find_service_manager();
    notify_started();
    set_watchdog(Watchdog::kOn);
    notify_alive();
    const std::string first = systemd.next();
    const std::string second = systemd.next();
    fs::remove_all(folder);
    _exit(first == "READY=1" && second.empty() ? 0 : 1);
  };
  EXPECT_EXIT(live(), ::testing::ExitedWithCode(0), "");
}

TEST(ServiceManagerDeathTest, AManagerThatDoesNotReadBlocksNothing) {
  const auto flood = [] {
    const Receiver systemd(abstract_name());
    find_service_manager();
    for (int i = 0; i < 100'000; ++i) notify_stopping();
    _exit(0);
  };
  EXPECT_EXIT(flood(), ::testing::ExitedWithCode(0), "");
}

TEST(ServiceManagerDeathTest, AnAddressThatIsNoneIsIgnored) {
  for (const std::string& path : {std::string("relative"), std::string("@"), std::string(),
                                  "/" + std::string(sizeof(sockaddr_un), 'x')}) {
    const auto live = [&] {
      ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
      find_service_manager();
      notify_started();
      set_watchdog(Watchdog::kOn);
      notify_alive();
      notify_stopping();
      _exit(std::getenv("NOTIFY_SOCKET") == nullptr ? 0 : 1);
    };
    EXPECT_EXIT(live(), ::testing::ExitedWithCode(0), "") << path;
  }
}

TEST(Services, AreThoseOfThePackage) {
  const fs::path root = fs::temp_directory_path() / ("hearth-root-" + std::to_string(::getpid()));
  EXPECT_EQ(find_services("/var/lib/hearth", root), Services::kNone);
  fs::create_directories(root / "usr/lib/systemd/system");
  std::ofstream(root / "usr/lib/systemd/system/hearth-worker.service") << "[Unit]\n";
  EXPECT_EQ(find_services("/var/lib/hearth", root), Services::kOfThisFolder);
  EXPECT_EQ(find_services("/home/a/.local/share/hearth", root), Services::kOther);
  fs::remove_all(root);
}

}  // namespace
}  // namespace hearth::cli
