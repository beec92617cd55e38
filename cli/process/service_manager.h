// Messages of a server or a worker to the service manager that started it, in systemd's sd_notify
// protocol (man sd_notify): it has started, its main thread runs, it stops. Without a service
// manager (NOTIFY_SOCKET is not set), nothing is sent. Main thread only. And the services that the
// package installs (deploy/system).
#pragma once

#include <string>

namespace hearth::cli {

// Reads NOTIFY_SOCKET and WATCHDOG_USEC and removes them from the environment, so that child
// processes send nothing. Called before there are other threads.
void find_service_manager();

// The process has started. Only the first call sends.
void notify_started();

// The service manager may end the process if, from now on, notify_alive() sends nothing for the
// time of WATCHDOG_USEC; with `off`, it waits again without a limit, as before the first call.
enum class Watchdog { kOff, kOn };
void set_watchdog(Watchdog state);

// Sends a sign of life when a quarter of the watchdog's time has passed since the last one.
void notify_alive();

void notify_stopping();

// Whether the package's services are installed on this machine, and whether this data folder is
// theirs. `root`: the folder of the system, for tests.
enum class Services { kNone, kOther, kOfThisFolder };
Services find_services(const std::string& data_folder, const std::string& root = "/");

}  // namespace hearth::cli
