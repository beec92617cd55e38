#include "cli/doctor/probes.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/number.h"
#include "cli/home/member.h"
#include "cli/home/own_server.h"
#include "cli/home/server_file.h"
#include "cli/process/paths.h"
#include "cli/terminal/interrupt.h"
#include "proto/address.h"

namespace hearth::cli {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;

constexpr std::size_t kTextBytes = std::size_t{4} << 20;  // of a file
constexpr std::size_t kEntries = 4096;                    // of a folder
constexpr auto kPatience = std::chrono::seconds(5);       // for an answer
constexpr auto kConnectWait = std::chrono::seconds(1);

// Empty when the file does not exist or cannot be read.
std::string read_fact(const std::string& path) {
  const auto text = read_text(path, kTextBytes);
  return text.ok() ? *text : "";
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (found.size() == kEntries) break;
    found.push_back(it->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string first_line(const std::string& path) {
  const std::string text = read_fact(path);
  return text.substr(0, text.find('\n'));
}

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// --- clock ---

std::optional<bool> kept_by_kernel() {
  timex state{};  // modes 0: only asks
  const int answer = adjtimex(&state);
  if (answer < 0) return std::nullopt;
  return answer != TIME_ERROR && (static_cast<unsigned>(state.status) & STA_UNSYNC) == 0;
}

ClockFacts::Source ask_clock(client::HttpClient& http, const std::string& name,
                             const std::string& url) {
  client::HttpClient::Options options;
  options.timeout = kPatience;
  const double before = unix_now();
  const auto reply = http.head(url, options);
  if (!reply.ok()) return {name, reply.error().message, 0.0, 0.0};
  return clock_of(name, *reply, before, unix_now());
}

ClockFacts probe_clock(const DoctorOptions& options, const CoordinatorFacts& coordinator) {
  ClockFacts facts;
  facts.kept = kept_by_kernel();
  if (options.offline) return facts;
  client::HttpClient http(interrupted);
  if (coordinator.named && coordinator.error.empty()) {
    facts.sources.push_back(ask_clock(http, "the server", options.api_base + "/livez"));
  }
  for (const std::string& url : options.clocks) facts.sources.push_back(ask_clock(http, url, url));
  return facts;
}

// --- network ---

std::vector<Listener> probe_listeners() {
  std::vector<Listener> all = read_listeners(read_fact("/proc/net/tcp"));
  const std::vector<Listener> v6 = read_listeners(read_fact("/proc/net/tcp6"));
  all.insert(all.end(), v6.begin(), v6.end());
  return all;
}

bool connects(const Address& address) {
  boost::system::error_code failed;
  const auto host = asio::ip::make_address(address.host, failed);
  if (failed) return false;
  asio::io_context io;
  asio::ip::tcp::socket socket(io);
  failed = asio::error::timed_out;
  socket.async_connect({host, address.port}, [&](const auto& error) { failed = error; });
  io.run_for(kConnectWait);
  return !failed;
}

ServerFacts::Port probe_port(const std::string& name, std::string text, bool offline,
                             const std::vector<Listener>& listeners) {
  ServerFacts::Port port;
  port.name = name;
  if (text.starts_with("http://")) text.erase(0, 7);
  const auto address = parse_address(text);
  if (!address.ok()) return port;
  port.port = address->port;
  for (const Listener& each : listeners) {
    if (each.port != port.port) continue;
    port.listening = true;
    port.beyond_loopback = port.beyond_loopback || !each.loopback;
  }
  if (!offline) port.answers = connects(*address);
  return port;
}

ServerFacts probe_server(const DoctorOptions& options) {
  const std::vector<Listener> listeners = probe_listeners();
  ServerFacts facts;
  facts.api_port = options.api_port;
  facts.api_port_taken = std::any_of(listeners.begin(), listeners.end(), [&](const Listener& each) {
    return each.port == options.api_port;
  });
  const auto running = read_server_file("");
  if (!running.ok()) return facts;
  facts.file = (data_dir() / "serve.json").string();
  facts.pid = running->pid;
  // The number of the process alone proves nothing: after a reboot it may be another process's.
  struct stat lock {};
  facts.alive = stat((data_dir() / "serve.lock").c_str(), &lock) == 0 &&
                holds_lock(read_fact("/proc/locks"), running->pid, lock.st_ino);
  if (!facts.alive) return facts;
  for (const auto& [name, text] :
       {std::pair("api", running->api), {"control", running->control}, {"data", running->data}}) {
    facts.ports.push_back(probe_port(name, text, options.offline, listeners));
  }
  return facts;
}

CoordinatorFacts probe_coordinator(const DoctorOptions& options, const ServerFacts& server) {
  CoordinatorFacts facts;
  facts.address = options.api_base;
  facts.named = options.server_named || server.alive;
  facts.asked = !options.offline;
  if (const auto member = read_member_file(""); member.ok() && *member) {
    facts.member = (*member)->coordinators.front();
  }
  if (!facts.named || !facts.asked) return facts;
  client::HttpClient http(interrupted);
  const auto answer = fetch_swarm(http, options.api_base, options.api_key);
  if (!answer.ok()) {
    const bool there = answer.error().code == ErrorCode::kRefused;
    (there ? facts.refused : facts.error) = answer.error().message;
    return facts;
  }
  facts.version = answer->view.version;
  facts.ready = answer->view.ready;
  facts.missing = answer->view.missing;
  facts.ledger_ahead_seconds = answer->view.ledger_ahead_seconds;
  facts.store = answer->view.store;
  return facts;
}

// --- driver ---

std::uint32_t nvidia_cards() {
  constexpr std::uint32_t kNvidia = 0x10de;
  constexpr std::uint32_t kDisplay = 0x03;
  std::uint32_t cards = 0;
  for (const fs::path& device : entries_of("/sys/bus/pci/devices")) {
    const auto value = [&](const char* file) {
      const std::string text = first_line((device / file).string());
      return text.starts_with("0x") ? parse_number<std::uint32_t>(text.substr(2), 16).value_or(0)
                                    : 0U;
    };
    if (value("vendor") == kNvidia && value("class") >> 16U == kDisplay) ++cards;
  }
  return cards;
}

DriverFacts probe_driver(bool wsl) {
  DriverFacts facts;
  facts.cards = nvidia_cards();
  facts.kernel_module = nvidia_module_version(read_fact("/proc/driver/nvidia/version"));
  facts.distribution = value_of(read_fact("/etc/os-release"), "ID");
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return facts;
  facts.library = true;
  const auto version = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDriverGetVersion"));
  int cuda = 0;
  if (version != nullptr && version(&cuda) == 0 && cuda > 0) {
    facts.cuda = static_cast<std::uint32_t>(cuda);
  }
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
  if (init != nullptr && (wsl || !facts.kernel_module.empty())) facts.init = init(0);
  return facts;  // the library stays loaded, because it does not work after it was unloaded
}

// --- disk, files, limits ---

DiskFacts probe_disk() {
  DiskFacts facts;
  facts.folder = models_dir().string();
  // The folder does not exist yet: probes the folder in which it would be created.
  std::error_code error;
  fs::path folder = fs::absolute(facts.folder, error);
  while (!fs::exists(folder, error) && folder.has_parent_path() && folder != folder.parent_path()) {
    folder = folder.parent_path();
  }
  struct statvfs state {};
  if (statvfs(folder.c_str(), &state) != 0) {
    facts.error = std::strerror(errno);
    return facts;
  }
  facts.writable = access(folder.c_str(), W_OK | X_OK) == 0;
  facts.free_bytes = std::uint64_t{state.f_bavail} * state.f_frsize;
  facts.counts_files = state.f_files > 0;
  facts.free_files = state.f_favail;
  return facts;
}

bool is_secret(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".key") || name.ends_with(".token") || name == "roster" ||
         name.starts_with("roster.evidence-") || name.starts_with("hearth.db") ||
         name == "store.url";
}

void add_file(const fs::path& path, std::vector<FileFacts>& files) {
  struct stat state {};
  if (lstat(path.c_str(), &state) != 0) return;
  const bool folder = S_ISDIR(state.st_mode);
  if (!folder && !(S_ISREG(state.st_mode) && is_secret(path))) return;
  files.push_back({path.string(), state.st_mode & 07777U, folder, state.st_uid == geteuid()});
}

// The data folder first, then what is secret in it, at most one folder deep.
std::vector<FileFacts> probe_files(const fs::path& folder) {
  std::vector<FileFacts> files;
  add_file(folder, files);
  if (files.empty()) return files;
  for (const fs::path& path : entries_of(folder)) {
    std::error_code error;
    if (fs::is_directory(fs::symlink_status(path, error))) {
      for (const fs::path& below : entries_of(path)) {
        if (!fs::is_directory(fs::symlink_status(below, error))) add_file(below, files);
      }
    } else {
      add_file(path, files);
    }
  }
  return files;
}

LimitFacts probe_limits() {
  LimitFacts facts;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    facts.files_soft = limit.rlim_cur;
    facts.files_hard = limit.rlim_max;
  }
  return facts;
}

// --- the cluster ---

ReachFacts probe_reach(bool offline) {
  ReachFacts facts;
  if (offline) {
    facts.skipped = "the coordinator is not asked (--offline)";
    return facts;
  }
  const auto own = own_inquirer("");
  const auto reached = own.ok() ? node::reach(*own) : own.error();
  if (!reached.ok()) {
    facts.skipped = reached.error().message;
    return facts;
  }
  facts.address = reached->address;
  facts.error = reached->error;
  facts.milliseconds = reached->milliseconds;
  return facts;
}

}  // namespace

std::vector<Listener> read_listeners(std::string_view table) {
  constexpr std::string_view kListening = "0A";
  std::vector<Listener> found;
  while (!table.empty()) {
    std::string_view line = table.substr(0, table.find('\n'));
    table.remove_prefix(std::min(table.size(), line.size() + 1));
    std::array<std::string_view, 4> words;  // slot, local, remote, state
    for (std::string_view& word : words) {
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      word = line.substr(0, line.find(' '));
      line.remove_prefix(word.size());
    }
    const std::size_t colon = words[1].find(':');
    if (words[3] != kListening || colon == std::string_view::npos) continue;
    const std::string_view host = words[1].substr(0, colon);
    const auto port = parse_number<std::uint16_t>(words[1].substr(colon + 1), 16);
    if (port.value_or(0) == 0) continue;
    // Words of the machine's byte order: 127.0.0.1 is 0100007F.
    const bool v4 = host.size() == 8 && host.ends_with("7F");
    const bool v6 =
        host == "00000000000000000000000001000000" ||
        (host.size() == 32 && host.starts_with("0000000000000000FFFF0000") && host.ends_with("7F"));
    found.push_back({*port, v4 || v6});
  }
  return found;
}

std::string nvidia_module_version(std::string_view text) {
  // NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024
  text = text.substr(0, text.find('\n'));
  for (std::size_t at = text.find(' '); at != std::string_view::npos; at = text.find(' ', at + 1)) {
    const std::string_view word = text.substr(at + 1, text.find(' ', at + 1) - at - 1);
    const bool version = !word.empty() && word[0] >= '0' && word[0] <= '9' &&
                         word.find('.') != std::string_view::npos &&
                         word.find_first_not_of("0123456789.") == std::string_view::npos;
    if (version) return std::string(word);
  }
  return "";
}

std::uint32_t wsl_version(std::string_view release) {
  // "5.15.153.1-microsoft-standard-WSL2", and of the first "4.4.0-19041-Microsoft"
  if (release.find("microsoft") != std::string_view::npos) return 2;
  return release.find("Microsoft") != std::string_view::npos ? 1 : 0;
}

std::string value_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with(key) || line.substr(key.size(), 1) != "=") continue;
    line.remove_prefix(key.size() + 1);
    if (line.size() >= 2 && line.front() == '"' && line.back() == '"') {
      line = line.substr(1, line.size() - 2);
    }
    return std::string(line);
  }
  return "";
}

ClockFacts::Source clock_of(const std::string& name, const client::HttpReply& reply, double before,
                            double after) {
  ClockFacts::Source source;
  source.name = name;
  const auto theirs = client::date_of(reply);
  if (!theirs) {
    source.error = "its answer has no Date header";
    return source;
  }
  source.offset_seconds = static_cast<double>(*theirs) + 0.5 - (before + after) / 2.0;
  source.uncertainty_seconds = 0.5 + (after - before) / 2.0;
  return source;
}

MachineFacts probe_machine(const DoctorOptions& options) {
  MachineFacts facts;
  facts.wsl.version = wsl_version(read_fact("/proc/sys/kernel/osrelease"));
  std::error_code error;
  facts.wsl.mirrored = fs::exists("/sys/class/net/loopback0", error);
  facts.server = probe_server(options);
  facts.coordinator = probe_coordinator(options, facts.server);
  facts.clock = probe_clock(options, facts.coordinator);
  facts.driver = probe_driver(facts.wsl.version != 0);
  facts.disk = probe_disk();
  facts.data_folder = data_dir().string();
  facts.files = probe_files(data_dir());
  facts.limits = probe_limits();
  facts.reach = probe_reach(options.offline);
  return facts;
}

}  // namespace hearth::cli
