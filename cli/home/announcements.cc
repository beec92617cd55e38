#include "cli/home/announcements.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/hex.h"
#include "base/limits.h"
#include "proto/address.h"
#include "proto/frame.h"

namespace hearth::cli {
namespace {

constexpr const char* kBrowse =
    "PATH=/usr/bin:/bin:/usr/local/bin timeout 5 avahi-browse --parsable --resolve --terminate "
    "_hearth._tcp 2>/dev/null";
constexpr const char* kPublish = "/usr/bin/avahi-publish-service";
constexpr std::size_t kAnswerBytes = 256 * 1024;
constexpr int kNotInstalled = 127;
constexpr std::size_t kNameField = 3;
constexpr std::size_t kTextField = 9;

Error not_here(const std::string& why) {
  return Error::of(ErrorCode::kUnsupported, "cannot list the clusters on this network: ", why,
                   "; or give the coordinator's address (hearth join "
                   "192.168.1.20:11501) or a join token (hearth join TOKEN)");
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "\032" is the byte 32, "\." a dot.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 3);
    if (digits.size() == 3 && std::all_of(digits.begin(), digits.end(), is_digit)) {
      const int byte = (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');
      out += static_cast<char>(byte);
      i += 3;
    } else {
      out += text[++i];
    }
  }
  return out;
}

// The value of key=... among quoted words.
std::string_view attribute(std::string_view words, std::string_view key) {
  const std::string begin = "\"" + std::string(key) + "=";
  const std::size_t at = words.find(begin);
  if (at == std::string_view::npos) return {};
  words.remove_prefix(at + begin.size());
  return words.substr(0, words.find('"'));
}

std::optional<FoundCluster> parse_line(std::string_view line) {
  if (!line.starts_with("=;")) return std::nullopt;
  std::vector<std::string_view> fields;
  while (fields.size() < kTextField) {
    const std::size_t end = line.find(';');
    if (end == std::string_view::npos) return std::nullopt;
    fields.push_back(line.substr(0, end));
    line.remove_prefix(end + 1);
  }
  FoundCluster found;
  found.name = unescaped(fields[kNameField]);
  const auto bytes = from_hex(attribute(line, "key"));
  const auto key = bytes ? PublicKey::parse(*bytes) : PublicKey::parse({});
  const auto address = parse_address(attribute(line, "at"));
  if (!check_node_name(found.name).ok() || !key.ok() || !address.ok()) return std::nullopt;
  found.key = *key;
  found.address = address->text();
  return found;
}

}  // namespace

std::vector<FoundCluster> parse_announcements(std::string_view text) {
  std::vector<FoundCluster> all;
  while (!text.empty() && all.size() < limits::kFoundClusters) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto found = parse_line(line);
    // A machine receives its own announcement on every interface.
    if (found && std::find(all.begin(), all.end(), *found) == all.end()) all.push_back(*found);
  }
  return all;
}

Result<std::vector<FoundCluster>> discover_clusters() {
  std::FILE* pipe = ::popen(kBrowse, "re");
  if (pipe == nullptr) return not_here("starting a program failed");
  std::string text;
  std::array<char, 4096> piece{};
  // The rest of a longer answer is read as well; otherwise the program would wait for ever.
  while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), pipe)) {
    if (text.size() < kAnswerBytes) text.append(piece.data(), got);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return parse_announcements(text);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotInstalled) {
    return not_here("avahi-browse is missing (sudo apt install avahi-daemon avahi-utils)");
  }
  return not_here("the Avahi daemon does not run (sudo systemctl start avahi-daemon)");
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
