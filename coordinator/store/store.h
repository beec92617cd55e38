// Store: one of the four seams. The permanent data of a cluster: join tokens, members and API keys.
// It stores only rows; credentials.h has their rules.
//
// Any thread; every call is one transaction, on the disk when it returns, and several processes may
// have the same store open. kIo, with the next step, when the disk fails; kUnavailable when the
// database is away.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "coordinator/audit_outcome.h"
#include "coordinator/store/lease.h"
#include "proto/roster.h"

namespace hearth::coordinator {

// Roles: proto/roster.h, without the coordinator's, because no node joins as coordinator.
struct TokenRecord {
  std::string id;
  Hash256 secret_hash;
  Role role = Role::kWorker;
  std::int64_t created = 0;  // unix seconds, as all times here
  std::int64_t expires = 0;  // invalid from this second on
  std::uint32_t uses_left = 1;
  bool revoked = false;
  std::string owner = {};  // of the machines that join with it; empty: unknown
  bool newcomer = false;   // nodes that join with it are not vouched for (ledger/PROTOCOL.md, 5)
};

struct NodeRecord {
  PublicKey key;     // unique
  std::string name;  // unique among those not revoked
  Role role = Role::kWorker;
  std::int64_t enrolled = 0;
  bool revoked = false;
  std::string owner = {};  // of the machine; empty: unknown
  bool newcomer = false;   // it joined without being vouched for
};

struct NewKey {
  std::string name;                 // of printable ASCII, unique among those not revoked; or empty
  std::vector<std::string> models;  // models that it may use; empty: all
  bool admin = false;
  std::uint32_t requests_per_minute = 0;  // 0: any number
  std::vector<std::string> trust = {};    // default of RequestPolicy::trust; empty: any
  // The account that pays for its requests; nothing: its node's, or its own
  // (coordinator/membership/accounts.h).
  std::optional<PublicKey> account = {};
  // The minimum for its requests.
  Verify verify = Verify::kNone;
  ledger::Level min_level = ledger::Level::kNewcomer;
};

struct ApiKey : NewKey {  // a key without a name has its id as its name
  std::string id;
  Hash256 secret_hash;
  std::int64_t created = 0;
  bool revoked = false;
  std::optional<PublicKey> node = {};  // its node; the key is revoked with the node
};

// A node that asks for a person's approval.
struct WaitingNode {
  PublicKey key;
  std::string name;
  std::string from;  // the host from which it dials
  std::int64_t since = 0;
  std::int64_t seen = 0;  // the last request
};

// The admission of a node.
struct Admission {
  NodeRecord node;
  std::string token;          // the join token to use, at node.enrolled; empty: a person's approval
  std::optional<ApiKey> key;  // for a node that uses the API
};

class Store {
 public:
  virtual ~Store() = default;

  // The key of all secret_hash fields: random, made with the store, never disclosed.
  virtual const Hash256& secret_key() const = 0;

  // kInvalidInput when the id exists, or no node can join with that role.
  virtual Status add_token(const TokenRecord& token) = 0;
  virtual Result<std::optional<TokenRecord>> find_token(std::string_view id) = 0;
  virtual Result<std::vector<TokenRecord>> tokens() = 0;  // oldest first, as the other lists
  // Whether any join token is valid at that time.
  virtual Result<bool> any_token(std::int64_t now) = 0;
  // False when no join token has this id, or it is already revoked.
  virtual Result<bool> revoke_token(std::string_view id) = 0;

  // Counts the join token's use and adds the rows in one transaction, so that a crash costs no use.
  // Removes the node from the waiting list. kRefused when the join token is revoked, expired or
  // used up; of two processes that take the last use, exactly one gets it. kInvalidInput when the
  // node's key exists, or an unrevoked node has its name; likewise for the API key.
  virtual Status admit(const Admission& admission) = 0;
  virtual Result<std::optional<NodeRecord>> find_node(const PublicKey& key) = 0;
  virtual Result<std::vector<NodeRecord>> nodes() = 0;
  virtual Result<bool> revoke_node(const PublicKey& key) = 0;  // and its API key

  // The highest number that a roster may have, recorded before it is signed. A signed roster with a
  // higher number proves that this store is an older copy. Nothing: an older version made the
  // store.
  virtual Result<std::optional<std::uint64_t>> roster_number() = 0;
  virtual Status note_roster(std::uint64_t number) = 0;
  // Makes an older copy agree with a roster of that number: revokes missing nodes as revoke_node()
  // does, adds unknown nodes, and invalidates all join tokens.
  virtual Status restore(std::uint64_t number, const std::vector<PublicKey>& out,
                         const std::vector<NodeRecord>& in) = 0;

  virtual Status put_waiting(const WaitingNode& node) = 0;  // replaces one with the same key
  virtual Result<std::vector<WaitingNode>> waiting() = 0;
  virtual Status forget_waiting(std::int64_t seen_before) = 0;

  // The hash of each key's machine in its last session (proof/machine_history.h).
  using Machines = std::vector<std::pair<PublicKey, Hash256>>;
  virtual Result<Machines> machines() = 0;
  virtual Status put_machines(const Machines& machines) = 0;  // replaces rows with the same key

  // kInvalidInput when the id exists, or an unrevoked key has its name.
  virtual Status add_key(const ApiKey& key) = 0;
  // Replaces the earlier key of key.node, which becomes invalid. kRefused when key.node is not a
  // member, or is revoked.
  virtual Status replace_key(const ApiKey& key) = 0;
  virtual Result<std::optional<ApiKey>> find_key(std::string_view id) = 0;
  virtual Result<std::vector<ApiKey>> keys() = 0;
  virtual Result<bool> revoke_key(std::string_view id_or_name) = 0;
};

// The store of a folder, which exists. By default SQLite in its file hearth.db: WAL, a disk flush
// at every commit, mode 0600. Created when missing, and upgraded when an older version made it.
// Refused, with the next step: a file that other users may read or write, a damaged file, a file
// that is not a store (kInvalidInput), or one of a newer version (kVersion).
//
// Or a database of PostgreSQL, where the folder's file store.url names one: kUnavailable while it
// cannot be reached.
Result<std::shared_ptr<Store>> open_store(const std::string& folder);

// The same for a server. In PostgreSQL, reads never wait, and a write is kUnavailable while the
// database is away. `term`: the lease under which the server leads (lease.h); of no use for
// SQLite. kRefused when it is not in force. `on_lost`: called once, on any thread, when the store
// is no longer this server's; it then stores nothing more.
Result<std::shared_ptr<Store>> open_server_store(const std::string& folder, const LeaseTerm& term,
                                                 std::function<void(const Error&)> on_lost);

// Whether the folder has a store, which opening would create.
bool has_store(const std::string& folder);

// From now on, the folder's store is the PostgreSQL database of this URL. kRefused for a folder
// whose store is hearth.db: migrate_store() brings its rows along. Errors: as open_store().
Status use_store_url(const std::string& folder, const std::string& url);
// kInvalidInput for a text that is not such a URL.
Status check_store_url(const std::string& url);

struct Migrated {
  std::string to;  // without a password
  std::size_t nodes = 0;
  std::size_t keys = 0;
  std::size_t tokens = 0;
  std::size_t requests = 0;
  std::string left;  // where the rows remain, as a copy that is not used any more
};
// Brings all rows of the folder's store into an empty PostgreSQL database or, with an empty `url`,
// from there into hearth.db. No server of the folder may run. After an error the store is where it
// was.
Result<Migrated> migrate_store(const std::string& folder, const std::string& url);

}  // namespace hearth::coordinator
