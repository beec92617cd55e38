#include "cli/ledger/account_names.h"

#include <filesystem>

#include "base/hex.h"
#include "cli/home/cluster_file.h"
#include "cli/home/identity.h"
#include "coordinator/membership/accounts.h"
#include "coordinator/store/store.h"
#include "coordinator/store/stored_log.h"
#include "ledger/scan.h"

namespace hearth::cli {
namespace {

std::map<PublicKey, std::string> node_names(const std::string& folder, const PublicKey& cluster) {
  std::map<PublicKey, std::string> names;
  const auto file = RosterFile::open(folder, cluster);
  const auto roster = file ? (*file)->book()->roster() : nullptr;
  if (roster == nullptr) return names;
  for (const RosterEntry& one : roster->entries) names[one.key] = one.name;
  return names;
}

}  // namespace

std::map<PublicKey, std::string> account_names(const std::string& folder,
                                               const PublicKey& cluster) {
  std::map<PublicKey, std::string> names = node_names(folder, cluster);
  names[cluster] = "(referee)";  // the coordinator audits under the log's own key
  // Opening would make one.
  if (!coordinator::has_store(folder)) return names;
  const auto store = coordinator::open_store(folder);
  const auto nodes = store ? (*store)->nodes() : store.error();
  if (nodes) {  // includes former members: the log names them for ever
    for (const coordinator::NodeRecord& node : *nodes) {
      names.emplace(node.key, node.name + (node.revoked ? " (removed)" : ""));
    }
  }
  const auto keys = store ? (*store)->keys() : store.error();
  if (!keys) return names;
  for (const coordinator::ApiKey& key : *keys) {
    // Admins' keys use the coordinator's account, which has its name from the roster.
    if (key.admin || key.node || key.account) continue;
    names.emplace(coordinator::account_of(key, (*store)->secret_key(), {}), key.name + kKeyMark);
  }
  return names;
}

Result<PublicKey> node_account(const std::string& folder, const std::string& node) {
  if (node.size() == 2 * PublicKey::kBytes) {
    if (const auto bytes = from_hex(node)) return PublicKey::parse(*bytes);
  }
  TRY_VOID(need_cluster(folder));
  TRY(const ServerIdentity identity, ServerIdentity::open(folder));
  for (const auto& [key, name] : node_names(folder, identity.cluster.public_key())) {
    if (name == node) return key;
  }
  return Error::of(ErrorCode::kNotFound, "the cluster has no node '", node,
                   "'; hearth status lists the nodes");
}

Result<ledger::Books> read_books(const std::string& folder) {
  ledger::Books books({}, ledger::EntrySignatures::kTrusted);
  const std::string path = folder + "/ledger";
  TRY(const bool is_stored, coordinator::has_stored_log(folder));
  if (!is_stored && !std::filesystem::exists(path + "/checkpoint")) return books;
  TRY(const auto log, coordinator::open_log_to_read(folder, path));
  TRY_VOID(ledger::scan_log(*log, {},
                            [&books](std::uint64_t /*index*/, ByteSpan entry, const Hash256& leaf) {
                              return books.apply(entry, leaf);
                            }));
  return books;
}

}  // namespace hearth::cli
