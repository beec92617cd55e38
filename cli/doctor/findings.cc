#include "cli/doctor/findings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/limits.h"
#include "cli/terminal/progress.h"
#include "coordinator/http/wire/refusal.h"

namespace hearth::cli {
namespace {

// Tokens and log lines tolerate seconds; expiry and evidence do not tolerate minutes.
constexpr double kClockWarns = 2.0;
constexpr double kClockFails = 60.0;
constexpr std::uint32_t kMtuLeast = 1280;  // of IPv6 (RFC 8200, 5)
constexpr std::uint32_t kMtuUsual = 1500;
constexpr std::uint32_t kMtuProbed = 9000;  // cli/doctor/path_mtu.h looks no further
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

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::fabs(seconds));
  return text;
}

Finding judge_source(const ClockFacts::Source& source, const std::string& mend) {
  if (!source.error.empty()) {
    return warning("clock", source.name + " does not tell the time: " + source.error, "");
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
  return ", CUDA " + std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10);
}

std::string open_port(const std::string& firewall, std::uint16_t port) {
  const std::string text = std::to_string(port);
  if (firewall == "ufw") return "sudo ufw allow " + text + "/tcp";
  if (firewall == "firewalld") {
    return "sudo firewall-cmd --permanent --add-port=" + text +
           "/tcp && sudo firewall-cmd --reload";
  }
  if (firewall == "nftables") {
    return "sudo nft insert rule inet filter input tcp dport " + text + " accept";
  }
  return "sudo iptables -I INPUT -p tcp --dport " + text + " -j ACCEPT";
}

std::string open_port(const NftChain& chain, std::uint16_t port) {
  // The tables of iptables, where that is nft's front end, are kept and saved by it.
  if (chain == NftChain{"ip", "filter", "INPUT"}) return open_port("iptables", port);
  return "sudo nft insert rule " + chain.family + " " + shell_quoted(chain.table) + " " +
         shell_quoted(chain.name) + " tcp dport " + std::to_string(port) + " accept";
}

// What keeps others from a port, as far as a firewall's rules say so.
struct Closed {
  std::string why;
  std::string mend;
};
std::optional<Closed> closed_by(const FirewallFacts::Active& firewall, std::uint16_t port) {
  if (firewall.nft) {
    const auto chain = firewall.nft->closes(port);
    if (!chain) return std::nullopt;
    return Closed{"drops in " + chain->family + " " + chain->table + " " + chain->name +
                      " what others send to",
                  open_port(*chain, port)};
  }
  if (firewall.rules && names_number(*firewall.rules, port)) return std::nullopt;
  return Closed{firewall.rules ? "has no rule for" : "may not let others reach",
                open_port(firewall.name, port)};
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
        skipped("clock", "the kernel does not say whether this clock is kept right"));
  } else if (*clock.kept) {
    findings.push_back(ok("clock", "kept right, as the kernel knows"));
  } else {
    findings.push_back(
        warning("clock", "nothing keeps this clock right, as the kernel knows", mend));
  }
  return findings;
}

std::vector<Finding> judge_mtu(const std::vector<InterfaceFacts>& interfaces) {
  std::vector<Finding> findings;
  std::string fine;
  for (const InterfaceFacts& each : interfaces) {
    const std::string text = each.name + " has an MTU of " + std::to_string(each.mtu);
    const std::string mend =
        "sudo ip link set dev " + shell_quoted(each.name) + " mtu " + std::to_string(kMtuUsual);
    if (each.mtu < kMtuLeast) {
      findings.push_back(failed(
          "mtu", text + "; under " + std::to_string(kMtuLeast) + " IPv6 does not work", mend));
    } else if (each.physical && each.mtu < kMtuUsual) {
      findings.push_back(
          warning("mtu", text + "; a network's is " + std::to_string(kMtuUsual), mend));
    } else if (each.physical && each.mtu > kMtuUsual) {
      findings.push_back(ok("mtu", text + "; whatever it is linked to must take as much"));
    } else {
      fine += (fine.empty() ? "" : ", ") + each.name + " " + std::to_string(each.mtu);
    }
  }
  if (!fine.empty()) findings.push_back(ok("mtu", fine));
  if (interfaces.empty()) findings.push_back(ok("mtu", "no network but loopback"));
  return findings;
}

std::vector<Finding> judge_reach(const ReachFacts& reach, const FirewallFacts& firewall) {
  if (!reach.skipped.empty()) return {skipped("reach", reach.skipped)};
  if (reach.error.empty()) {
    char took[32];
    std::snprintf(took, sizeof took, "%.1f ms", reach.milliseconds);
    return {ok("reach", "the coordinator reaches this machine's worker at " + reach.address +
                            ", in " + took)};
  }
  const std::size_t colon = reach.address.rfind(':');
  const auto port = static_cast<std::uint16_t>(
      colon == std::string::npos ? 0 : std::atoi(reach.address.c_str() + colon + 1));
  std::string guilty;
  std::string mend = open_port("iptables", port);
  for (const FirewallFacts::Active& active : firewall.active) {
    const auto closed = closed_by(active, port);
    // Of rules that are only known as text, a number in them proves nothing.
    if (!closed && active.nft) continue;
    guilty = active.name;
    mend = closed ? closed->mend : open_port(active.name, port);
    break;
  }
  return {failed("reach",
                 "the coordinator does not reach this machine's worker at " + reach.address + ": " +
                     reach.error +
                     (guilty.empty() ? "; a firewall on the way, or here, lets nobody in"
                                     : "; " + guilty + " here lets nobody in"),
                 mend)};
}

std::vector<Finding> judge_paths(const std::vector<PathFacts>& paths) {
  std::vector<Finding> findings;
  for (const PathFacts& path : paths) {
    const std::string way = "the way to " + path.node + " (" + path.host + ")";
    const std::string sends = path.interface + " sends up to " + std::to_string(path.mtu);
    if (path.carried == 0) {
      findings.push_back(
          skipped("path mtu", way + ": nothing there answers, so it cannot be measured"));
    } else if (path.carried >= std::min(path.mtu, kMtuProbed)) {
      findings.push_back(ok("path mtu", way + " takes packets of " + std::to_string(path.carried) +
                                            " bytes, as " + path.interface + " sends them"));
    } else if (path.told) {
      findings.push_back(ok("path mtu", way + " takes packets of " + std::to_string(path.carried) +
                                            " bytes, and says so; " + sends));
    } else {
      findings.push_back(failed("path mtu",
                                way + " takes packets of " + std::to_string(path.carried) +
                                    " bytes at most and drops larger ones without a word; " + sends,
                                "sudo ip link set dev " + shell_quoted(path.interface) + " mtu " +
                                    std::to_string(path.carried)));
    }
  }
  return findings;
}

std::vector<Finding> judge_ports(const ServerFacts& server) {
  std::vector<Finding> findings;
  const std::string port = std::to_string(server.api_port);
  const auto taken = [&] {
    return warning("ports", "port " + port + " is taken by a program that is not this server",
                   "ss -ltnp 'sport = :" + port + "'");
  };
  if (!server.file.empty() && !server.alive) {
    findings.push_back(warning("ports",
                               "the server of " + server.file + " (process " +
                                   std::to_string(server.pid) + ") has ended without a farewell",
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
                                text + (each.listening ? " takes no connection from this machine"
                                                       : " is not open, although the server runs"),
                                "kill " + std::to_string(server.pid)));
      continue;
    }
    findings.push_back(ok(
        "ports",
        text + (each.beyond_loopback ? " is open to other machines" : " is open to this machine") +
            (each.answers ? " and answers" : "")));
  }
  return findings;
}

std::vector<Finding> judge_coordinator(const CoordinatorFacts& coordinator,
                                       const std::string& our_version) {
  const std::string at = "the server at " + coordinator.address;
  if (!coordinator.named && !coordinator.member.empty()) {
    return {skipped("coordinator",
                    "the coordinator of this machine's cluster is at " + coordinator.member +
                        "; how its swarm is, its API says to an admin (hearth doctor --host HOST "
                        "--api-key hk1...)")};
  }
  if (!coordinator.named) return {skipped("coordinator", "no server is named, and none runs here")};
  if (!coordinator.asked) return {skipped("coordinator", at + " is not asked (--offline)")};
  if (!coordinator.error.empty()) {
    return {failed("coordinator", at + " is not reached: " + coordinator.error,
                   "hearth serve --model MODEL")};
  }
  if (!coordinator.refused.empty()) {
    return {warning("coordinator", at + " answers, but not how it is: " + coordinator.refused,
                    "hearth doctor --api-key hk1...")};
  }
  std::vector<Finding> findings;
  if (coordinator.version != our_version) {
    findings.push_back(warning("coordinator",
                               at + " has version " + coordinator.version + ", this program " +
                                   our_version + "; put the same one on both",
                               ""));
  } else {
    findings.push_back(ok("coordinator", at + " answers; its version is ours, " + our_version));
  }
  if (!coordinator.ready) {
    findings.push_back(warning("coordinator", coordinator.missing, "hearth status"));
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
    return {ok("driver", "no NVIDIA card is seen; the processor computes")};
  }
  if (driver.kernel_module.empty()) {
    return {warning("driver",
                    "an NVIDIA card without NVIDIA's driver: the processor computes instead",
                    install_driver(driver.distribution))};
  }
  if (!driver.library) {
    return {warning("driver",
                    "NVIDIA's driver " + driver.kernel_module +
                        " without its library libcuda.so.1: the processor computes instead",
                    driver.distribution == "debian" ? "sudo apt install libcuda1"
                                                    : install_driver(driver.distribution))};
  }
  if (driver.init == kCudaDriverMismatch) {
    return {failed(
        "driver",
        "NVIDIA's library is of another version than the driver that runs, " + driver.kernel_module,
        "sudo reboot")};
  }
  if (driver.init == kCudaNoDevice) {
    return {warning("driver", "NVIDIA's driver " + driver.kernel_module + " sees no card",
                    "nvidia-smi")};
  }
  return {failed("driver",
                 "NVIDIA's driver " + driver.kernel_module + " does not start: code " +
                     std::to_string(driver.init.value_or(-1)),
                 "nvidia-smi")};
}

std::vector<Finding> judge_wsl(const WslFacts& wsl, std::uint16_t api_port) {
  if (wsl.version == 0) return {};
  if (wsl.version == 1) {
    return {failed("wsl", "WSL 1 is no Linux kernel: Hearth needs WSL 2",
                   "wsl.exe --set-version \"$WSL_DISTRO_NAME\" 2")};
  }
  if (!wsl.mirrored) {
    return {warning(
        "wsl",
        "WSL 2 behind Windows' NAT: other machines cannot reach it. In .wslconfig of your Windows "
        "user: [wsl2] and networkingMode=mirrored",
        "printf '[wsl2]\\nnetworkingMode=mirrored\\n' >> \"$(wslpath \"$(powershell.exe -NoProfile "
        "-Command '$env:USERPROFILE' | tr -d '\\r')\")/.wslconfig\" && wsl.exe --shutdown")};
  }
  return {warning("wsl",
                  "WSL 2 with Windows' own network: Windows' firewall has to let others in (in "
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
    return {failed("disk", "the file system of " + folder + " takes no more files", elsewhere)};
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
    return {ok("permissions", "the data folder " + folder + " is not made yet")};
  }
  std::vector<Finding> findings;
  for (const FileFacts& file : files) {
    const std::string what = (file.folder ? "the folder " : "") + file.path;
    if (!file.ours) {
      findings.push_back(failed("permissions", what + " belongs to another user",
                                "sudo chown \"$(id -u)\" " + shell_quoted(file.path)));
    } else if ((file.mode & 077U) != 0) {
      char mode[16];
      std::snprintf(mode, sizeof mode, "%04o", file.mode);
      findings.push_back(
          failed("permissions", what + " is open to other users (mode " + mode + ")",
                 std::string(file.folder ? "chmod 700 " : "chmod 600 ") + shell_quoted(file.path)));
    }
  }
  if (findings.empty()) {
    findings.push_back(ok("permissions", "the data folder " + folder + " and " +
                                             std::to_string(files.size() - 1) +
                                             " secret files in it are this user's alone"));
  }
  return findings;
}

std::vector<Finding> judge_limits(const LimitFacts& limits) {
  const std::string text = std::to_string(limits.files_soft) + " open files";
  Finding files = ok("limits", text);
  if (limits.files_soft < kFilesWanted) {
    files = warning(
        "limits", text + "; all connections of a server take " + std::to_string(kFilesWanted),
        limits.files_hard >= kFilesWanted
            ? "ulimit -n " + std::to_string(std::min<std::uint64_t>(limits.files_hard, 4096))
            : "echo \"$USER - nofile 4096\" | sudo tee /etc/security/limits.d/hearth.conf");
  }
  const bool any = limits.locked_bytes == ~std::uint64_t{0};
  return {files, ok("limits", (any ? "any amount" : format_bytes(limits.locked_bytes)) +
                                  " of locked memory; Hearth locks none")};
}

std::vector<Finding> judge_firewall(const FirewallFacts& firewall, const ServerFacts& server) {
  if (firewall.active.empty()) {
    return {ok("firewall", firewall.all_seen ? "none lets in less than all"
                                             : "none is seen; some show themselves to root alone")};
  }
  std::vector<Finding> findings;
  for (const FirewallFacts::Active& active : firewall.active) {
    bool said = false;
    for (const ServerFacts::Port& port : server.ports) {
      if (!server.alive || !port.beyond_loopback) continue;
      const auto closed = closed_by(active, port.port);
      if (!closed) continue;
      said = true;
      findings.push_back(warning("firewall",
                                 active.name + " is active and " + closed->why + " the " +
                                     port.name + " port " + std::to_string(port.port),
                                 closed->mend));
    }
    if (!said) {
      findings.push_back(
          ok("firewall", active.name + " is active; nothing of Hearth waits behind it"));
    }
  }
  return findings;
}

std::vector<Finding> judge(const MachineFacts& machine, const std::string& our_version) {
  const bool wsl = machine.wsl.version != 0;
  std::vector<Finding> all;
  for (const std::vector<Finding>& some :
       {judge_coordinator(machine.coordinator, our_version), judge_clock(machine.clock, wsl),
        judge_ports(machine.server), judge_firewall(machine.firewall, machine.server),
        judge_reach(machine.reach, machine.firewall), judge_mtu(machine.interfaces),
        judge_paths(machine.paths), judge_wsl(machine.wsl, machine.server.api_port),
        judge_driver(machine.driver, wsl), judge_disk(machine.disk),
        judge_permissions(machine.data_folder, machine.files), judge_limits(machine.limits)}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

bool ufw_enabled(const std::string& ufw_conf) {
  return ufw_conf.starts_with("ENABLED=yes") || ufw_conf.find("\nENABLED=yes") != std::string::npos;
}

bool nft_drops_input(const std::string& ruleset) {
  // type filter hook input priority filter; policy drop;
  for (std::size_t at = ruleset.find("hook input"); at != std::string::npos;
       at = ruleset.find("hook input", at + 1)) {
    const std::string line = ruleset.substr(at, ruleset.find('\n', at) - at);
    if (line.find("policy drop") != std::string::npos) return true;
  }
  return false;
}

bool iptables_drops_input(const std::string& rules) {
  return rules.find("-P INPUT DROP") != std::string::npos ||
         rules.find("-A INPUT -j DROP") != std::string::npos ||
         rules.find("-A INPUT -j REJECT") != std::string::npos;
}

bool names_number(const std::string& text, std::uint64_t number) {
  const auto digit = [&](std::size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
  };
  const std::string word = std::to_string(number);
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    if ((at == 0 || !digit(at - 1)) && !digit(at + word.size())) return true;
  }
  return false;
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
