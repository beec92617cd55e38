// Gathers the facts of this machine for cli/doctor/findings.h, without changing anything. What
// cannot be read is omitted. Only the coordinator and clocks are contacted, and neither with
// `offline`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/findings.h"
#include "coordinator/client/http_client.h"

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

// An address on which a program listens.
struct Listener {
  std::uint16_t port = 0;
  bool loopback = false;
};
// Parses /proc/net/tcp and /proc/net/tcp6; other lines are skipped.
std::vector<Listener> read_listeners(std::string_view table);

// "535.183.01" of /proc/driver/nvidia/version; empty when it is not there.
std::string nvidia_module_version(std::string_view text);

// 0: no WSL. Of /proc/sys/kernel/osrelease.
std::uint32_t wsl_version(std::string_view release);

// The value of a line KEY=VALUE, without quotes; empty: none. Of /etc/os-release.
std::string value_of(std::string_view text, std::string_view key);

// Compares the clock of an answer with ours, which was `before` when the request left and `after`
// when the answer arrived (unix seconds). A Date has whole seconds.
ClockFacts::Source clock_of(const std::string& name, const client::HttpReply& reply, double before,
                            double after);

}  // namespace hearth::cli
