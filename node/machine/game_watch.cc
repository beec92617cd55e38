#include "node/machine/game_watch.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "node/machine/shared_library.h"

namespace hearth::node {
namespace {

// sd-bus's own types, as its manual gives them; its header is not needed to build.
using SdBus = void;
using SdMessage = void;
using Handler = int (*)(SdMessage*, void* userdata, void* error);

constexpr char kName[] = "com.feralinteractive.GameMode";
constexpr char kPath[] = "/com/feralinteractive/GameMode";
// Whatever it tells, and that it comes or goes.
constexpr char kSignals[] = "type='signal',sender='com.feralinteractive.GameMode'";
constexpr char kOwner[] =
    "type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged',"
    "arg0='com.feralinteractive.GameMode'";

constexpr std::uint64_t kWaitMicroseconds = 200'000;  // for news, then it looks whether to stop
constexpr std::uint64_t kAnswerMicroseconds = 2'000'000;
constexpr auto kConnectAgain = std::chrono::seconds(5);

struct BusFunctions {
  int (*open_user)(SdBus**) = nullptr;
  SdBus* (*close)(SdBus*) = nullptr;
  int (*add_match)(SdBus*, void** slot, const char* match, Handler, void* userdata) = nullptr;
  int (*process)(SdBus*, SdMessage**) = nullptr;
  int (*wait)(SdBus*, std::uint64_t microseconds) = nullptr;
  int (*new_call)(SdBus*, SdMessage**, const char*, const char*, const char*,
                  const char*) = nullptr;
  int (*set_auto_start)(SdMessage*, int) = nullptr;
  int (*append)(SdMessage*, const char* types, ...) = nullptr;
  int (*call)(SdBus*, SdMessage*, std::uint64_t microseconds, void* error, SdMessage**) = nullptr;
  int (*read)(SdMessage*, const char* types, ...) = nullptr;
  SdMessage* (*unref)(SdMessage*) = nullptr;
};

Result<BusFunctions> bus_functions(const SharedLibrary& library) {
  BusFunctions f;
  const auto find = [&](const char* name, auto& function) {
    return find_function(library, "sd-bus", name, function);
  };
  TRY_VOID(find("sd_bus_open_user", f.open_user));
  TRY_VOID(find("sd_bus_flush_close_unref", f.close));
  TRY_VOID(find("sd_bus_add_match", f.add_match));
  TRY_VOID(find("sd_bus_process", f.process));
  TRY_VOID(find("sd_bus_wait", f.wait));
  TRY_VOID(find("sd_bus_message_new_method_call", f.new_call));
  TRY_VOID(find("sd_bus_message_set_auto_start", f.set_auto_start));
  TRY_VOID(find("sd_bus_message_append", f.append));
  TRY_VOID(find("sd_bus_call", f.call));
  TRY_VOID(find("sd_bus_message_read", f.read));
  TRY_VOID(find("sd_bus_message_unref", f.unref));
  return f;
}

}  // namespace

class GameWatch::Bus {
 public:
  Bus(SharedLibrary library, const BusFunctions& functions)
      : library_(std::move(library)), sd_(functions) {}

  // One connection after the other; `games` is 0 while no connection is open.
  void listen(std::atomic<std::uint32_t>& games, const std::atomic<bool>& stopping) {
    while (!stopping) {
      SdBus* bus = nullptr;
      if (sd_.open_user(&bus) >= 0) hear(bus, games, stopping);
      if (bus != nullptr) sd_.close(bus);
      games = 0;
      const auto again = std::chrono::steady_clock::now() + kConnectAgain;
      while (!stopping && std::chrono::steady_clock::now() < again) {
        std::this_thread::sleep_for(std::chrono::microseconds(kWaitMicroseconds));
      }
    }
  }

 private:
  void hear(SdBus* bus, std::atomic<std::uint32_t>& games, const std::atomic<bool>& stopping) {
    bool news = true;
    const Handler note = [](SdMessage*, void* flag, void*) {
      *static_cast<bool*>(flag) = true;
      return 0;
    };
    for (const char* match : {kSignals, kOwner}) {
      if (sd_.add_match(bus, nullptr, match, note, &news) < 0) return;
    }
    while (!stopping) {
      if (std::exchange(news, false)) games = ask(bus);
      const int done = sd_.process(bus, nullptr);
      if (done < 0) return;  // the session ended
      if (done > 0 || news) continue;
      const int waited = sd_.wait(bus, kWaitMicroseconds);
      if (waited < 0 && waited != -EINTR) return;
    }
  }

  // GameMode's own count; 0 where it does not run.
  std::uint32_t ask(SdBus* bus) const {
    SdMessage* question = nullptr;
    SdMessage* answer = nullptr;
    std::int32_t count = 0;
    const bool asked =
        sd_.new_call(bus, &question, kName, kPath, "org.freedesktop.DBus.Properties", "Get") >= 0 &&
        sd_.set_auto_start(question, 0) >= 0 &&
        sd_.append(question, "ss", kName, "ClientCount") >= 0 &&
        sd_.call(bus, question, kAnswerMicroseconds, nullptr, &answer) >= 0 &&
        sd_.read(answer, "v", "i", &count) >= 0;
    if (question != nullptr) sd_.unref(question);
    if (answer != nullptr) sd_.unref(answer);
    return asked ? static_cast<std::uint32_t>(std::max(0, count)) : 0;
  }

  const SharedLibrary library_;
  const BusFunctions sd_;
};

GameWatch::GameWatch(std::unique_ptr<Bus> bus)
    : bus_(std::move(bus)), thread_([this] { bus_->listen(games_, stopping_); }) {}

GameWatch::~GameWatch() {
  stopping_ = true;
  thread_.join();
}

Result<std::unique_ptr<GameWatch>> GameWatch::open(const std::string& name) {
  SharedLibrary library = open_library(name);
  if (library == nullptr) {
    return Error::of(ErrorCode::kUnavailable, "cannot load sd-bus: ", dlerror());
  }
  TRY(const BusFunctions functions, bus_functions(library));
  return std::unique_ptr<GameWatch>(
      new GameWatch(std::make_unique<Bus>(std::move(library), functions)));
}

}  // namespace hearth::node
