// Against a real message bus of its own, where dbus-daemon is installed, with a GameMode of ours.
#include "node/machine/game_watch.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace hearth::node {
namespace {

constexpr char kName[] = "com.feralinteractive.GameMode";
constexpr char kPath[] = "/com/feralinteractive/GameMode";

// A session bus; without an address where none can be started.
class SessionBus {
 public:
  SessionBus() {
    int out[2];
    if (pipe(out) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], 1);
      execlp("dbus-daemon", "dbus-daemon", "--session", "--nofork", "--print-address",
             static_cast<char*>(nullptr));
      _exit(127);
    }
    close(out[1]);
    std::FILE* text = fdopen(out[0], "r");
    char line[512] = "";
    if (std::fgets(line, sizeof line, text) != nullptr) address_ = line;
    std::fclose(text);
    address_ = address_.substr(0, address_.find('\n'));
  }
  ~SessionBus() {
    if (pid_ <= 0) return;
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  const std::string& address() const { return address_; }

 private:
  pid_t pid_ = 0;
  std::string address_;
};

// GameMode as far as it is asked: its count, and a signal when that changes.
class FakeGameMode {
 public:
  explicit FakeGameMode(void* library) : library_(library) {
    EXPECT_GE(call<int(void**)>("sd_bus_open_user")(&bus_), 0);
    EXPECT_GE(call<int(void*, void**, const char*, Handler, void*)>("sd_bus_add_object")(
                  bus_, nullptr, kPath, &FakeGameMode::answer, this),
              0);
    EXPECT_GE(call<int(void*, const char*, std::uint64_t)>("sd_bus_request_name")(bus_, kName, 0),
              0);
  }
  ~FakeGameMode() { call<void*(void*)>("sd_bus_flush_close_unref")(bus_); }

  void set(int games) {
    games_ = games;
    call<int(void*, const char*, const char*, const char*, const char*, ...)>("sd_bus_emit_signal")(
        bus_, kPath, kName, "GameRegistered", "io", 1, "/game");
  }
  void serve() const {
    if (call<int(void*, void**)>("sd_bus_process")(bus_, nullptr) == 0) {
      call<int(void*, std::uint64_t)>("sd_bus_wait")(bus_, 10'000);
    }
  }
  int asked() const { return asked_; }

 private:
  using Handler = int (*)(void* message, void* userdata, void* error);
  template <typename Function>
  Function* call(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }
  static int answer(void* message, void* userdata, void*) {
    auto* self = static_cast<FakeGameMode*>(userdata);
    const auto is =
        self->call<int(void*, const char*, const char*)>("sd_bus_message_is_method_call");
    if (is(message, "org.freedesktop.DBus.Properties", "Get") == 0) return 0;
    ++self->asked_;
    return self->call<int(void*, const char*, ...)>("sd_bus_reply_method_return")(message, "v", "i",
                                                                                  self->games_);
  }

  void* const library_;
  void* bus_ = nullptr;
  int games_ = 0;
  int asked_ = 0;
};

template <typename Condition>
bool holds_soon(const Condition& condition, FakeGameMode* mode = nullptr) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition() && std::chrono::steady_clock::now() < deadline) {
    if (mode != nullptr) mode->serve();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return condition();
}

TEST(GameWatch, HearsOfGamesFromTheSessionBus) {
  void* const library = dlopen("libsystemd.so.0", RTLD_NOW);
  const SessionBus bus;
  if (library == nullptr || bus.address().empty()) GTEST_SKIP() << "no dbus-daemon or libsystemd";
  setenv("DBUS_SESSION_BUS_ADDRESS", bus.address().c_str(), 1);
  {
    const auto watch = GameWatch::open();
    ASSERT_TRUE(watch.ok()) << watch.error().message;
    const auto games = [&] { return (*watch)->games(); };
    auto mode = std::make_unique<FakeGameMode>(library);
    EXPECT_TRUE(holds_soon([&] { return mode->asked() > 0; }, mode.get())) << "it was not noticed";
    EXPECT_EQ(games(), 0U);
    mode->set(2);
    EXPECT_TRUE(holds_soon([&] { return games() == 2; }, mode.get()));
    mode->set(1);
    EXPECT_TRUE(holds_soon([&] { return games() == 1; }, mode.get()));
    mode->set(-7);
    EXPECT_TRUE(holds_soon([&] { return games() == 0; }, mode.get()));
    mode->set(1);
    EXPECT_TRUE(holds_soon([&] { return games() == 1; }, mode.get()));
    mode.reset();
    EXPECT_TRUE(holds_soon([&] { return games() == 0; })) << "GameMode ended, and its games";
    const auto late = GameWatch::open();
    mode = std::make_unique<FakeGameMode>(library);
    mode->set(3);
    EXPECT_TRUE(holds_soon([&] { return games() == 3 && (*late)->games() == 3; }, mode.get()));
  }
  unsetenv("DBUS_SESSION_BUS_ADDRESS");
}

TEST(GameWatch, WithoutASessionThereAreNoGames) {
  setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent/bus", 1);
  const auto watch = GameWatch::open();
  if (watch.ok()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ((*watch)->games(), 0U);
  }
  unsetenv("DBUS_SESSION_BUS_ADDRESS");
}

TEST(GameWatch, SaysWhyThereIsNone) {
  const auto absent = GameWatch::open("libthere-is-none.so.7");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::kUnavailable);
  const auto other = GameWatch::open("libm.so.6");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("sd_bus_open_user"), std::string::npos);
}

}  // namespace
}  // namespace hearth::node
