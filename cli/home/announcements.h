// Cluster announcements on a network, by DNS-SD (_hearth._tcp). They are unauthenticated: shown,
// compared by a person, and used only to learn which key to ask for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"

namespace hearth::cli {

struct FoundCluster {
  std::string name;     // printable ASCII, not verified
  std::string address;  // "host:port" that joiners dial
  PublicKey key;        // that the machine there claims to hold
  friend bool operator==(const FoundCluster&, const FoundCluster&) = default;
};

// Parses the output of `avahi-browse --parsable --resolve`; any bytes. Skips other lines and
// duplicates; at most limits::kFoundClusters.
std::vector<FoundCluster> parse_announcements(std::string_view text);

}  // namespace hearth::cli
