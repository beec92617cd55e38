#include "cli/home/discovery.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>

#include "proto/address.h"

namespace hearth::cli {
namespace {

constexpr const char* kBrowse =
    "PATH=/usr/bin:/bin:/usr/local/bin timeout 5 avahi-browse --parsable --resolve --terminate "
    "_hearth._tcp 2>/dev/null";
constexpr const char* kPublish = "/usr/bin/avahi-publish-service";
constexpr std::size_t kAnswerBytes = 256 * 1024;
constexpr int kNotInstalled = 127;

Error not_here(const std::string& why) {
  return {ErrorCode::kUnsupported,
          "clusters of this network cannot be listed: " + why +
              "; or name the machine that answers requests (hearth join 192.168.1.20:11501), "
              "or take a token from it (hearth join TOKEN)"};
}

}  // namespace

Result<std::vector<FoundCluster>> discover_clusters() {
  std::FILE* pipe = ::popen(kBrowse, "re");
  if (pipe == nullptr) return not_here("no program can be started");
  std::string text;
  std::array<char, 4096> piece{};
  // The rest of a longer answer is read as well, or the program would wait for ever.
  while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), pipe)) {
    if (text.size() < kAnswerBytes) text.append(piece.data(), got);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return parse_announcements(text);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotInstalled) {
    return not_here("avahi-browse is missing (sudo apt install avahi-daemon avahi-utils)");
  }
  return not_here("no Avahi daemon runs (sudo systemctl start avahi-daemon)");
}

std::optional<ChildSpec> announcement(const FoundCluster& cluster) {
  const auto address = parse_address(cluster.address);
  if (!address.ok() || ::access(kPublish, X_OK) != 0) return std::nullopt;
  // --no-fail: it waits for a daemon that is not there yet. "--": the name is the user's.
  return ChildSpec{"announcement",
                   {"--no-fail", "--", cluster.name, "_hearth._tcp", std::to_string(address->port),
                    "key=" + cluster.key.hex(), "at=" + cluster.address},
                   kPublish};
}

}  // namespace hearth::cli
