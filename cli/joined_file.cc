#include "cli/joined_file.h"

#include <nlohmann/json.hpp>

#include "base/hex.h"
#include "base/limits.h"
#include "base/private_file.h"

namespace hearth::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;
using coordinator::NodeRecord;

// A key, two names, each of whose bytes may be escaped, and their words.
constexpr std::size_t kRecordBytes = 256 + 12 * limits::kNodeNameBytes;
constexpr std::size_t kFileBytes = limits::kRosterEntries * kRecordBytes;

std::string path_of(const std::string& folder) { return folder + "/joined.json"; }

}  // namespace

Status write_joined_file(const std::string& folder, coordinator::Store& store) {
  TRY(const auto nodes, store.nodes());
  OrderedJson all = OrderedJson::array();
  for (const NodeRecord& node : nodes) {
    if (node.revoked) continue;
    all.push_back({{"name", node.name},
                   {"key", node.key.hex()},
                   {"owner", node.owner},
                   {"newcomer", node.newcomer}});
  }
  const std::string text = all.dump(-1, ' ', true, OrderedJson::error_handler_t::replace) + "\n";
  return write_private_file(path_of(folder), as_bytes(text));
}

Result<std::vector<NodeRecord>> read_joined_file(const std::string& folder) {
  const auto bytes = read_private_file(path_of(folder), kFileBytes);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) return std::vector<NodeRecord>();
  if (!bytes) return bytes.error();
  std::vector<NodeRecord> nodes;
  try {
    for (const OrderedJson& one : OrderedJson::parse(as_text(*bytes))) {
      NodeRecord& node = nodes.emplace_back();
      const auto key = from_hex(one.at("key").get<std::string>());
      REQUIRE(key, path_of(folder) + ": a key is no hex digits");
      TRY(node.key, PublicKey::parse(*key));
      node.name = one.at("name").get<std::string>();
      node.owner = one.at("owner").get<std::string>();
      node.newcomer = one.at("newcomer").get<bool>();
    }
  } catch (const OrderedJson::exception& bad) {
    return Error::invalid(path_of(folder) + " is damaged: " + bad.what() +
                          "; remove it to go on without what it says of nodes");
  }
  return nodes;
}

}  // namespace hearth::cli
