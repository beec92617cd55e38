// Store: one of the four seams. What a cluster must not forget: who may join, who has joined, and
// who may use the API. Rows only; what they mean is in credentials.h.
//
// Any thread; every call is one transaction, on the disk when it returns, and several processes may
// have the same store open. kIo when the disk refuses, with what to do.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "coordinator/audit_outcome.h"
#include "proto/roster.h"

namespace hearth::coordinator {

// Roles: proto/roster.h, without the coordinator's, which no node joins as.
struct TokenRecord {
  std::string id;
  Hash256 secret_hash;
  Role role = Role::kWorker;
  std::int64_t created = 0;  // unix seconds, as all times here
  std::int64_t expires = 0;  // from this second on it is worthless
  std::uint32_t uses_left = 1;
  bool revoked = false;
  std::string owner = {};  // of the machines that join with it; empty: unknown
  bool newcomer = false;   // who comes with it is not vouched for (ledger/PROTOCOL.md, 5)
};

struct NodeRecord {
  PublicKey key;     // unique
  std::string name;  // unique among those not revoked
  Role role = Role::kWorker;
  std::int64_t enrolled = 0;
  bool revoked = false;
  std::string owner = {};  // of the machine; empty: unknown
  bool newcomer = false;   // it came in without being vouched for
};

struct NewKey {
  std::string name;                 // of printable ASCII, unique among those not revoked; or empty
  std::vector<std::string> models;  // that it may use; empty: all
  bool admin = false;
  std::uint32_t requests_per_minute = 0;  // 0: any number
  std::vector<std::string> trust = {};    // nodes for requests that name none; empty: any
  // Whose credit its requests spend; nothing: its node's, or its own
  // (coordinator/membership/accounts.h).
  std::optional<PublicKey> account = {};
  // The least that its requests get, whatever they say.
  Verify verify = Verify::kNone;
  ledger::Level min_level = ledger::Level::kNewcomer;
};

struct ApiKey : NewKey {  // a key without a name has its id as its name
  std::string id;
  Hash256 secret_hash;
  std::int64_t created = 0;
  bool revoked = false;
  std::optional<PublicKey> node = {};  // that it was given to; it is revoked with it
};

// A node that asks a person to let it in.
struct WaitingNode {
  PublicKey key;
  std::string name;
  std::string from;  // the host that it dials from
  std::int64_t since = 0;
  std::int64_t seen = 0;  // the last time
};

// How a node comes in.
struct Admission {
  NodeRecord node;
  std::string token;          // whose use it takes, at node.enrolled; empty: a person's word
  std::optional<ApiKey> key;  // of one that asks the API
};

class Store {
 public:
  virtual ~Store() = default;

  // The key of all secret_hash fields: random, made with the store, never leaves it.
  virtual const Hash256& secret_key() const = 0;

  // kInvalidInput when the id is there, or no node joins with that role.
  virtual Status add_token(const TokenRecord& token) = 0;
  virtual Result<std::optional<TokenRecord>> find_token(std::string_view id) = 0;
  virtual Result<std::vector<TokenRecord>> tokens() = 0;  // oldest first, as the other lists
  // Whether one at least is good at that moment.
  virtual Result<bool> any_token(std::int64_t now) = 0;
  // False when no token has this id, or it was revoked before.
  virtual Result<bool> revoke_token(std::string_view id) = 0;

  // Takes the use and adds the rows, all of it or nothing, so that a crash costs no token.
  // Who waited does so no more. kRefused when the token is revoked, expired, or has no use left: of
  // two that ask for the last one, in whatever process, exactly one gets it. kInvalidInput when the
  // node's key, or the name of one that is not revoked, is there; likewise of the API key.
  virtual Status admit(const Admission& admission) = 0;
  virtual Result<std::optional<NodeRecord>> find_node(const PublicKey& key) = 0;
  virtual Result<std::vector<NodeRecord>> nodes() = 0;
  virtual Result<bool> revoke_node(const PublicKey& key) = 0;  // and the API key it was given

  // The greatest number that a roster may have been signed under, noted before it is: a signed one
  // of a greater number says that this store is an older copy. Nothing: an older version made it.
  virtual Result<std::optional<std::uint64_t>> roster_number() = 0;
  virtual Status note_roster(std::uint64_t number) = 0;
  // Makes an older copy agree with a roster of that number: nodes that it has no more are revoked
  // as by revoke_node(), those that the copy does not know are added, and no token is good any
  // more.
  virtual Status restore(std::uint64_t number, const std::vector<PublicKey>& out,
                         const std::vector<NodeRecord>& in) = 0;

  virtual Status put_waiting(const WaitingNode& node) = 0;  // instead of one with the same key
  virtual Result<std::vector<WaitingNode>> waiting() = 0;
  virtual Status forget_waiting(std::int64_t seen_before) = 0;

  // The hash of what the machine of each key was in its last session (proof/machine_history.h).
  using Machines = std::vector<std::pair<PublicKey, Hash256>>;
  virtual Result<Machines> machines() = 0;
  virtual Status put_machines(const Machines& machines) = 0;  // in place of rows with the same key

  // kInvalidInput when the id, or the name of one that is not revoked, is there.
  virtual Status add_key(const ApiKey& key) = 0;
  // Instead of the one that key.node was given before, which is lost. kRefused when
  // key.node is not a member, or a revoked one.
  virtual Status replace_key(const ApiKey& key) = 0;
  virtual Result<std::optional<ApiKey>> find_key(std::string_view id) = 0;
  virtual Result<std::vector<ApiKey>> keys() = 0;
  virtual Result<bool> revoke_key(std::string_view id_or_name) = 0;
};

// SQLite in one file, hearth.db in a folder that exists: WAL, a disk flush at every commit, mode
// 0600. Made when it is missing, brought up to date when an older version made it. Refused with
// what to do: a file that others may read or write, that is damaged, that a newer version made, or
// that is no such store (kInvalidInput; kVersion for the newer one).
Result<std::shared_ptr<Store>> open_store(const std::string& folder);

}  // namespace hearth::coordinator
