// What clusters announce of themselves on a network, by DNS-SD (_hearth._tcp). It is the word of
// strangers: shown, compared by a person, and believed in nothing but which key to ask for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"

namespace hearth::cli {

struct FoundCluster {
  std::string name;     // printable ASCII, anybody's choice
  std::string address;  // "host:port" that joiners dial
  PublicKey key;        // that the machine there claims to hold
  friend bool operator==(const FoundCluster&, const FoundCluster&) = default;
};

// Of `avahi-browse --parsable --resolve`; any bytes. Lines that announce no cluster as ours do are
// left out, the same one is there once, and at most limits::kFoundClusters are.
std::vector<FoundCluster> parse_announcements(std::string_view text);

}  // namespace hearth::cli
