#include "cli/process/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/check.h"
#include "cli/process/paths.h"

namespace hearth::cli {
namespace {

constexpr const char* kUnit = "usr/lib/systemd/system/hearth-worker.service";
constexpr const char* kServiceFolder = "/var/lib/hearth";  // as deploy/system/service.env has it

using SteadyTime = std::chrono::steady_clock::time_point;

struct ServiceManager {
  int socket = -1;  // -1: no service manager was found
  sockaddr_un address{};
  socklen_t address_bytes = 0;
  std::chrono::microseconds watchdog{0};  // 0: it does not watch
  bool is_watching = false;
  bool has_started = false;
  SteadyTime last_sign{};
};

ServiceManager manager;

// An absolute path, or "@" and an abstract name.
bool set_address(const std::string& path) {
  const bool fits = path.size() > 1 && path.size() < sizeof manager.address.sun_path;
  if (!fits || (path.front() != '/' && path.front() != '@')) return false;
  manager.address.sun_family = AF_UNIX;
  std::memcpy(manager.address.sun_path, path.data(), path.size());
  if (path.front() == '@') manager.address.sun_path[0] = '\0';
  manager.address_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  return true;
}

// Never blocks: if the service manager does not read, a message to it is lost, and this process
// loses no time.
void send_to_manager(std::string_view text) {
  if (manager.socket < 0) return;
  (void)::sendto(manager.socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                 reinterpret_cast<const sockaddr*>(&manager.address), manager.address_bytes);
}

}  // namespace

void find_service_manager() {
  const std::string path = environment_text("NOTIFY_SOCKET");
  const std::string watchdog = environment_text("WATCHDOG_USEC");
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
  if (path.empty() || manager.socket >= 0 || !set_address(path)) return;
  manager.socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  manager.watchdog = std::chrono::microseconds(std::strtoul(watchdog.c_str(), nullptr, 10));
}

void notify_started() {
  if (manager.has_started) return;
  manager.has_started = true;
  // The watchdog waits until the main thread runs its loop, because a worker may wait for its
  // coordinator.
  send_to_manager(manager.watchdog.count() > 0 ? "READY=1\nWATCHDOG_USEC=0" : "READY=1");
}

void set_watchdog(Watchdog state) {
  if (manager.watchdog.count() == 0) return;
  INVARIANT(manager.has_started, "the service manager watches what has started");
  manager.is_watching = state == Watchdog::kOn;
  const auto limit = manager.is_watching ? manager.watchdog.count() : 0;
  send_to_manager("WATCHDOG_USEC=" + std::to_string(limit));
  manager.last_sign = std::chrono::steady_clock::now();
}

void notify_alive() {
  if (!manager.is_watching) return;
  const SteadyTime now = std::chrono::steady_clock::now();
  if (now - manager.last_sign < manager.watchdog / 4) return;
  manager.last_sign = now;
  send_to_manager("WATCHDOG=1");
}

void notify_stopping() { send_to_manager("STOPPING=1"); }

Services find_services(const std::string& data_folder, const std::string& root) {
  std::error_code unreadable;
  if (!std::filesystem::exists(std::filesystem::path(root) / kUnit, unreadable)) {
    return Services::kNone;
  }
  return data_folder == kServiceFolder ? Services::kOfThisFolder : Services::kOther;
}

}  // namespace hearth::cli
