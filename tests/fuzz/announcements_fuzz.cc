// Any bytes as what a network's strangers announce: names that end up on a terminal are printable,
// and addresses can be dialled.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/limits.h"
#include "cli/home/announcements.h"
#include "proto/address.h"
#include "proto/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;
  const auto found = cli::parse_announcements({reinterpret_cast<const char*>(data), size});
  INVARIANT(found.size() <= limits::kFoundClusters, "strangers decide how long the list is");
  for (const cli::FoundCluster& cluster : found) {
    INVARIANT(check_node_name(cluster.name).ok(), "a name that no node could have");
    INVARIANT(parse_address(cluster.address).ok(), "an address that cannot be dialled");
  }
  return 0;
}
