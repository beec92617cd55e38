#include "cli/doctor/findings.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/limits.h"
#include "cli/terminal/progress.h"
#include "coordinator/client/swarm_view.h"
#include "coordinator/http/wire/refusal.h"

namespace hearth::cli {
namespace {

// Tokens and log lines tolerate seconds; expiry and evidence do not tolerate minutes.
constexpr double kClockWarns = 2.0;
constexpr double kClockFails = 60.0;
constexpr std::uint64_t kDiskWarns = 10'000'000'000;
constexpr std::uint64_t kDiskFails = 1'000'000'000;
constexpr std::uint64_t kFilesLeft = 64;  // of a process, beside its connections
constexpr std::uint64_t kFilesWanted = limits::kHttpConnections + limits::kHttpProbeConnections +
                                       coordinator::http::Refusals::kMax + limits::kConnections +
                                       kFilesLeft;
constexpr int kCudaNoDevice = 100;
constexpr int kCudaDriverMismatch = 803;

Finding ok(std::string check, std::string text) {
  return {std::move(check), Health::kOk, std::move(text), ""};
}
Finding warning(std::string check, std::string text, std::string mend) {
  return {std::move(check), Health::kWarning, std::move(text), std::move(mend)};
}
Finding failed(std::string check, std::string text, std::string mend) {
  return {std::move(check), Health::kFailed, std::move(text), std::move(mend)};
}
Finding skipped(std::string check, std::string text) {
  return {std::move(check), Health::kSkipped, std::move(text), ""};
}

std::string seconds_text(double seconds) { return fmt::format("{:.1f} s", std::fabs(seconds)); }

Finding judge_source(const ClockFacts::Source& source, const std::string& mend) {
  if (!source.error.empty()) {
    return warning("clock", source.name + " did not send its time: " + source.error, "");
  }
  const double least = std::max(0.0, std::fabs(source.offset_seconds) - source.uncertainty_seconds);
  if (least == 0.0) {
    return ok("clock", "as " + source.name + "'s, to " + seconds_text(source.uncertainty_seconds));
  }
  const std::string text = "this clock is " + seconds_text(source.offset_seconds) +
                           (source.offset_seconds > 0.0 ? " behind " : " ahead of ") + source.name +
                           "'s";
  if (least > kClockFails) return failed("clock", text, mend);
  if (least > kClockWarns) return warning("clock", text, mend);
  return ok("clock", text);
}

std::string install_driver(const std::string& distribution) {
  if (distribution == "ubuntu") return "sudo ubuntu-drivers install && sudo reboot";
  if (distribution == "debian") return "sudo apt install nvidia-driver && sudo reboot";
  if (distribution == "fedora") return "sudo dnf install akmod-nvidia && sudo reboot";
  if (distribution == "arch") return "sudo pacman -S nvidia && sudo reboot";
  return "";
}

std::string cuda_text(std::uint32_t cuda) {
  if (cuda == 0) return "";
  return message_of(", CUDA ", cuda / 1000, ".", cuda % 1000 / 10);
}

// The line that opens a port, for each firewall that Linux machines commonly run.
std::string open_port_lines(std::uint16_t port) {
  const std::string text = std::to_string(port);
  return "sudo ufw allow " + text + "/tcp\n" + "sudo firewall-cmd --permanent --add-port=" + text +
         "/tcp && sudo firewall-cmd --reload\n" +
         "sudo nft insert rule inet filter input tcp dport " + text + " accept";
}

}  // namespace

const char* health_name(Health health) {
  switch (health) {
    case Health::kOk: return "ok";
    case Health::kWarning: return "warning";
    case Health::kFailed: return "failed";
    case Health::kSkipped: return "skipped";
  }
  return "unknown";
}

std::vector<Finding> judge_clock(const ClockFacts& clock, bool wsl) {
  const std::string mend = wsl ? "sudo hwclock -s" : "sudo timedatectl set-ntp true";
  std::vector<Finding> findings;
  for (const ClockFacts::Source& source : clock.sources) {
    findings.push_back(judge_source(source, mend));
  }
  if (!clock.kept) {
    findings.push_back(
        skipped("clock", "the kernel does not say whether this clock is synchronized"));
  } else if (*clock.kept) {
    findings.push_back(ok("clock", "the kernel says that this clock is synchronized"));
  } else {
    findings.push_back(
        warning("clock", "the kernel says that this clock is not synchronized", mend));
  }
  return findings;
}

std::vector<Finding> judge_reach(const ReachFacts& reach) {
  if (!reach.skipped.empty()) return {skipped("reach", reach.skipped)};
  if (!reach.seen_host.empty()) {
    return {
        ok("reach", "a router translates this worker's address " + reach.address + " to " +
                        reach.seen_host +
                        ": nodes outside cannot dial it. They dial a port of the router, if "
                        "it forwards one (hearth map-port asks it); else this worker opens links "
                        "to them, both sides open one at once (punched), or a relay forwards it. "
                        "hearth status shows each")};
  }
  if (reach.error.empty()) {
    return {
        ok("reach", fmt::format("the coordinator reaches this machine's worker at {}, in {:.1f} ms",
                                reach.address, reach.milliseconds))};
  }
  const std::size_t colon = reach.address.rfind(':');
  const auto port = static_cast<std::uint16_t>(
      colon == std::string::npos ? 0 : std::atoi(reach.address.c_str() + colon + 1));
  return {failed("reach",
                 "the coordinator cannot connect to this machine's worker at " + reach.address +
                     ": " + reach.error +
                     ". The worker serves over links that it opens or that the coordinator relays, "
                     "which may be slower. If a firewall runs here, its line below opens the port",
                 open_port_lines(port))};
}

std::vector<Finding> judge_ports(const ServerFacts& server) {
  std::vector<Finding> findings;
  const std::string port = std::to_string(server.api_port);
  const auto taken = [&] {
    return warning("ports", "port " + port + " is used by a program that is not this server",
                   "ss -ltnp 'sport = :" + port + "'");
  };
  if (!server.file.empty() && !server.alive) {
    findings.push_back(warning("ports",
                               "the server of " + server.file + " (process " +
                                   std::to_string(server.pid) +
                                   ") ended without removing this file",
                               "rm " + shell_quoted(server.file)));
  }
  if (server.file.empty() || !server.alive) {
    findings.push_back(
        server.api_port_taken ? taken() : ok("ports", "port " + port + " is free for a server"));
    return findings;
  }
  for (const ServerFacts::Port& each : server.ports) {
    const std::string text = each.name + " port " + std::to_string(each.port);
    if (!each.listening || each.answers == false) {
      findings.push_back(failed("ports",
                                text + (each.listening ? " refuses connections from this machine"
                                                       : " is not open, although the server runs"),
                                "kill " + std::to_string(server.pid)));
      continue;
    }
    findings.push_back(ok(
        "ports",
        text + (each.answers ? " answers here and" : "") +
            (each.beyond_loopback ? " listens for other machines; a firewall may still block them"
                                  : " listens for this machine only")));
  }
  return findings;
}

std::vector<Finding> judge_coordinator(const CoordinatorFacts& coordinator,
                                       const std::string& our_version) {
  const std::string at = "the server at " + coordinator.address;
  if (!coordinator.named && !coordinator.member.empty()) {
    return {skipped("coordinator", "the coordinator of this machine's cluster is at " +
                                       coordinator.member +
                                       "; its API shows the state of the swarm to an admin (hearth "
                                       "doctor --host HOST --api-key hk1...)")};
  }
  if (!coordinator.named)
    return {skipped("coordinator", "no --host is given, and no server runs on this machine")};
  if (!coordinator.asked) return {skipped("coordinator", at + " is not asked (--offline)")};
  if (!coordinator.error.empty()) {
    return {failed("coordinator", at + " is not reachable: " + coordinator.error,
                   "hearth serve --model MODEL")};
  }
  if (!coordinator.refused.empty()) {
    return {warning("coordinator",
                    at + " answers, but refuses to show its state: " + coordinator.refused,
                    "hearth doctor --api-key hk1...")};
  }
  std::vector<Finding> findings;
  if (coordinator.version != our_version) {
    findings.push_back(warning("coordinator",
                               at + " has version " + coordinator.version + ", this program " +
                                   our_version + "; install the same version on both",
                               ""));
  } else {
    findings.push_back(
        ok("coordinator", at + " answers and has this program's version, " + our_version));
  }
  if (!coordinator.ready) {
    findings.push_back(warning("coordinator", coordinator.missing, "hearth status"));
  }
  if (coordinator.ledger_ahead_seconds > client::kLedgerAheadSeconds) {
    findings.push_back(
        warning("coordinator",
                "the ledger's time is " + std::to_string(coordinator.ledger_ahead_seconds) +
                    " s ahead of the server's clock: the clock is wrong, or was "
                    "ahead when the ledger was written. Receipts use the ledger's time",
                "timedatectl"));
  }
  if (const auto& store = coordinator.store) {
    const std::string text = client::store_text(*store);
    findings.push_back(store->away.empty() ? ok("store", text) : warning("store", text, ""));
  }
  return findings;
}

std::vector<Finding> judge_driver(const DriverFacts& driver, bool wsl) {
  const bool loaded = !driver.kernel_module.empty() || wsl;  // of WSL, Windows has the driver
  if (driver.library && loaded && driver.init == 0) {
    const std::string module = wsl ? "of Windows" : driver.kernel_module;
    return {ok("driver", "NVIDIA's " + module + cuda_text(driver.cuda))};
  }
  if (driver.kernel_module.empty() && driver.cards == 0) {
    return {ok("driver", "there is no NVIDIA GPU; the CPU computes")};
  }
  if (driver.kernel_module.empty()) {
    return {warning("driver",
                    "there is an NVIDIA GPU without NVIDIA's driver: the CPU computes instead",
                    install_driver(driver.distribution))};
  }
  if (!driver.library) {
    return {warning("driver",
                    "NVIDIA's driver " + driver.kernel_module +
                        " has no libcuda.so.1: the CPU computes instead",
                    driver.distribution == "debian" ? "sudo apt install libcuda1"
                                                    : install_driver(driver.distribution))};
  }
  if (driver.init == kCudaDriverMismatch) {
    return {failed(
        "driver",
        "NVIDIA's library has another version than the loaded driver, " + driver.kernel_module,
        "sudo reboot")};
  }
  if (driver.init == kCudaNoDevice) {
    return {warning("driver", "NVIDIA's driver " + driver.kernel_module + " finds no GPU",
                    "nvidia-smi")};
  }
  return {failed("driver",
                 "NVIDIA's driver " + driver.kernel_module + " does not start: error code " +
                     std::to_string(driver.init.value_or(-1)),
                 "nvidia-smi")};
}

std::vector<Finding> judge_wsl(const WslFacts& wsl, std::uint16_t api_port) {
  if (wsl.version == 0) return {};
  if (wsl.version == 1) {
    return {failed("wsl", "this is WSL 1, which has no Linux kernel; Hearth needs WSL 2",
                   "wsl.exe --set-version \"$WSL_DISTRO_NAME\" 2")};
  }
  if (!wsl.mirrored) {
    return {warning(
        "wsl",
        "WSL 2 is behind Windows' NAT: other machines cannot reach it. Set networkingMode=mirrored "
        "under [wsl2] in .wslconfig of your Windows user",
        "printf '[wsl2]\\nnetworkingMode=mirrored\\n' >> \"$(wslpath \"$(powershell.exe -NoProfile "
        "-Command '$env:USERPROFILE' | tr -d '\\r')\")/.wslconfig\" && wsl.exe --shutdown")};
  }
  return {warning("wsl",
                  "WSL 2 uses Windows' network: Windows' firewall must allow the port (in "
                  "PowerShell as administrator)",
                  "New-NetFirewallHyperVRule -Name Hearth -DisplayName Hearth -Direction Inbound "
                  "-VMCreatorId '{40E0AC32-46A5-438A-A0B2-2B479E8F2E90}' -Protocol TCP "
                  "-Action Allow -LocalPorts " +
                      std::to_string(api_port))};
}

std::vector<Finding> judge_disk(const DiskFacts& disk) {
  const std::string elsewhere = "export HEARTH_MODELS=/a/folder/with/room";
  const std::string folder = "the model folder " + disk.folder;
  if (!disk.error.empty()) {
    return {failed("disk", folder + ": " + disk.error, "mkdir -p " + shell_quoted(disk.folder))};
  }
  if (!disk.writable) {
    return {failed("disk", folder + " cannot be written by this user",
                   "sudo chown -R \"$(id -u)\" " + shell_quoted(disk.folder))};
  }
  if (disk.counts_files && disk.free_files == 0) {
    return {failed("disk", "the file system of " + folder + " has no free inodes", elsewhere)};
  }
  const std::string text = format_bytes(disk.free_bytes) + " free in " + folder;
  if (disk.free_bytes < kDiskFails) return {failed("disk", text, elsewhere)};
  if (disk.free_bytes < kDiskWarns) {
    return {warning("disk", text + "; large models need tens of GB", elsewhere)};
  }
  return {ok("disk", text)};
}

std::vector<Finding> judge_permissions(const std::string& folder,
                                       const std::vector<FileFacts>& files) {
  if (files.empty()) {
    return {ok("permissions", "the data folder " + folder + " does not exist yet")};
  }
  std::vector<Finding> findings;
  for (const FileFacts& file : files) {
    const std::string what = (file.folder ? "the folder " : "") + file.path;
    if (!file.ours) {
      findings.push_back(failed("permissions", what + " belongs to another user",
                                "sudo chown \"$(id -u)\" " + shell_quoted(file.path)));
    } else if ((file.mode & 077U) != 0) {
      findings.push_back(failed(
          "permissions", fmt::format("{} is open to other users (mode {:04o})", what, file.mode),
          std::string(file.folder ? "chmod 700 " : "chmod 600 ") + shell_quoted(file.path)));
    }
  }
  if (findings.empty()) {
    findings.push_back(ok("permissions", "the data folder " + folder + " and " +
                                             std::to_string(files.size() - 1) +
                                             " secret files in it are readable by this user only"));
  }
  return findings;
}

std::vector<Finding> judge_limits(const LimitFacts& limits) {
  const std::string text = std::to_string(limits.files_soft) + " open files";
  Finding files = ok("limits", text);
  if (limits.files_soft < kFilesWanted) {
    files = warning(
        "limits",
        text + "; a server with all its connections needs " + std::to_string(kFilesWanted),
        limits.files_hard >= kFilesWanted
            ? "ulimit -n " + std::to_string(std::min<std::uint64_t>(limits.files_hard, 4096))
            : "echo \"$USER - nofile 4096\" | sudo tee /etc/security/limits.d/hearth.conf");
  }
  return {files};
}

std::vector<Finding> judge(const MachineFacts& machine, const std::string& our_version) {
  const bool wsl = machine.wsl.version != 0;
  std::vector<Finding> all;
  for (const std::vector<Finding>& some :
       {judge_coordinator(machine.coordinator, our_version), judge_clock(machine.clock, wsl),
        judge_ports(machine.server), judge_reach(machine.reach),
        judge_wsl(machine.wsl, machine.server.api_port), judge_driver(machine.driver, wsl),
        judge_disk(machine.disk), judge_permissions(machine.data_folder, machine.files),
        judge_limits(machine.limits)}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::string shell_quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
           c == '.' || c == '-' || c == '_' || c == '+' || c == ':' || c == '@';
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace hearth::cli
