// Cluster announcements on a network, by DNS-SD (_hearth._tcp) and Avahi's programs. They are
// unauthenticated: a person compares them, and they only tell which key to ask for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "cli/process/children.h"

namespace hearth::cli {

struct FoundCluster {
  std::string name;     // printable ASCII, not verified
  std::string address;  // "host:port" that joining machines dial
  PublicKey key;        // that the machine there claims to hold
  friend bool operator==(const FoundCluster&, const FoundCluster&) = default;
};

// Parses the output of `avahi-browse --parsable --resolve`; any bytes. Skips other lines and
// duplicates; at most limits::kFoundClusters.
std::vector<FoundCluster> parse_announcements(std::string_view text);
// Asks the network, for a second or two. kUnsupported, with what to do instead, where Avahi's
// program is missing or its daemon does not run.
Result<std::vector<FoundCluster>> discover_clusters();
// The process that announces a cluster while it runs; nothing where Avahi is not installed.
std::optional<ChildSpec> announcement(const FoundCluster& cluster);

}  // namespace hearth::cli
