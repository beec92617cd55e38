// The findings of hearth doctor. Facts are plain data from cli/doctor/probes.h, and each finding
// depends on them alone. A warning or failure ends with the command that fixes it, if there is one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/client/swarm_view.h"

namespace hearth::cli {

enum class Health { kOk, kWarning, kFailed, kSkipped };  // skipped: not looked at
const char* health_name(Health health);                  // "ok", "warning", "failed", "skipped"

struct Finding {
  std::string check;
  Health health = Health::kOk;
  std::string text;
  std::string mend;  // a command to paste; several lines are alternatives
};

// Another clock, known to `uncertainty_seconds`.
struct ClockFacts {
  struct Source {
    std::string name;
    std::string error;            // why it did not answer; empty: it answered
    double offset_seconds = 0.0;  // its time less ours
    double uncertainty_seconds = 0.0;
  };
  std::optional<bool> kept;  // whether this clock is synchronized, as the kernel says
  std::vector<Source> sources;
};
std::vector<Finding> judge_clock(const ClockFacts& clock, bool wsl);

// The server whose serve.json lies in the data folder, and the port that one would take.
struct ServerFacts {
  struct Port {
    std::string name;  // api, control, data
    std::uint16_t port = 0;
    bool listening = false;
    bool beyond_loopback = false;
    std::optional<bool> answers;  // a connection from this machine; not tried with --offline
  };
  std::string file;  // path of serve.json; empty: no such file
  std::int64_t pid = 0;
  bool alive = false;
  std::vector<Port> ports;
  std::uint16_t api_port = 0;  // that a server would take by default
  bool api_port_taken = false;
};
std::vector<Finding> judge_ports(const ServerFacts& server);

struct CoordinatorFacts {
  std::string address;
  bool named = false;   // by flag, variable, file or a running server
  std::string member;   // where the coordinator of this machine's cluster is; empty: in none
  bool asked = false;   // not with --offline
  std::string error;    // why it cannot be reached; empty: it can
  std::string refused;  // why it does not show its state; empty: it does
  std::string version;  // empty: not known
  bool ready = false;
  std::string missing;                    // why not ready
  std::int64_t ledger_ahead_seconds = 0;  // of the server's clock
  std::optional<client::SwarmView::Store> store;
};
std::vector<Finding> judge_coordinator(const CoordinatorFacts& coordinator,
                                       const std::string& our_version);

struct DriverFacts {
  std::uint32_t cards = 0;    // NVIDIA's on the PCI bus
  std::string kernel_module;  // its version; empty: not loaded
  bool library = false;       // libcuda.so.1 can be loaded
  std::uint32_t cuda = 0;     // 1000 * major + 10 * minor, that it supports
  std::optional<int> init;    // what cuInit answers; none where it was not asked
  std::string distribution;   // ID of /etc/os-release
};
std::vector<Finding> judge_driver(const DriverFacts& driver, bool wsl);

struct WslFacts {
  std::uint32_t version = 0;  // 0: no WSL
  bool mirrored = false;      // its network
};
std::vector<Finding> judge_wsl(const WslFacts& wsl, std::uint16_t api_port);

struct DiskFacts {
  std::string folder;  // of the models
  std::string error;   // why nothing is known; empty: the limit is known
  bool writable = false;
  std::uint64_t free_bytes = 0;
  std::uint64_t free_files = 0;
  bool counts_files = false;  // some file systems do not
};
std::vector<Finding> judge_disk(const DiskFacts& disk);

struct FileFacts {
  std::string path;
  std::uint32_t mode = 0;  // permission bits
  bool folder = false;
  bool ours = false;  // belongs to the user who asks
};
// The data folder and the files in it that are secret; none where it does not exist.
std::vector<Finding> judge_permissions(const std::string& folder,
                                       const std::vector<FileFacts>& files);

struct LimitFacts {
  std::uint64_t files_soft = 0;
  std::uint64_t files_hard = 0;
};
std::vector<Finding> judge_limits(const LimitFacts& limits);

// Whether the coordinator could dial this machine's worker back.
struct ReachFacts {
  std::string skipped;  // why the coordinator was not asked; empty: it was asked
  std::string address;  // of the worker's data links
  std::string error;    // why the coordinator cannot connect; empty: it can
  double milliseconds = 0.0;
};
std::vector<Finding> judge_reach(const ReachFacts& reach);

struct MachineFacts {
  ClockFacts clock;
  ServerFacts server;
  CoordinatorFacts coordinator;
  DriverFacts driver;
  WslFacts wsl;
  DiskFacts disk;
  std::string data_folder;
  std::vector<FileFacts> files;
  LimitFacts limits;
  ReachFacts reach;
};
std::vector<Finding> judge(const MachineFacts& machine, const std::string& our_version);

// Quoted as one word of a shell command.
std::string shell_quoted(const std::string& word);

}  // namespace hearth::cli
