// The facts of this machine for cli/doctor/findings.h. Nothing is changed by looking; what cannot
// be read is left out. Only coordinator and clocks are dialled, and neither with `offline`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/findings.h"
#include "cli/http_client.h"

namespace hearth::cli {

struct DoctorOptions {
  std::string api_base;
  bool server_named = false;        // by the user; else it is where a server would be
  std::string api_key;              // empty: none
  std::vector<std::string> clocks;  // URLs whose Date is compared
  std::uint16_t api_port = 0;       // that a server on this machine would take
  bool offline = false;             // dial nothing
  bool json = false;
};

MachineFacts probe_machine(const DoctorOptions& options);

// An address that a program waits at.
struct Listener {
  std::uint16_t port = 0;
  bool loopback = false;
};
// Of /proc/net/tcp and /proc/net/tcp6; lines that are none are left out.
std::vector<Listener> read_listeners(std::string_view table);

// Whether the process holds a lock on the file of that number. Of /proc/locks, which only looks: a
// lock that was tried could stop a server that starts just then.
bool holds_lock(std::string_view locks, std::int64_t pid, std::uint64_t inode);

// "535.183.01" of /proc/driver/nvidia/version; empty when it is not there.
std::string nvidia_module_version(std::string_view text);

// 0: no WSL. Of /proc/sys/kernel/osrelease.
std::uint32_t wsl_version(std::string_view release);

// The value of a line KEY=VALUE, without quotes; empty: none. Of /etc/os-release.
std::string value_of(std::string_view text, std::string_view key);

// How the clock of an answer stands to ours, which was `before` when the request left and `after`
// when the answer was there (seconds since 1970). A Date has whole seconds.
ClockFacts::Source clock_of(const std::string& name, const HttpReply& reply, double before,
                            double after);

}  // namespace hearth::cli
