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
#include <vector>

#include "base/crypto.h"
#include "base/result.h"
#include "proto/roster.h"

namespace hearth::coordinator {

// Roles: proto/roster.h, without the coordinator's, which nobody joins as.
struct TokenRecord {
  std::string id;
  Hash256 secret_hash;
  Role role = Role::kWorker;
  std::int64_t created = 0;  // unix seconds, as all times here
  std::int64_t expires = 0;  // from this second on it is worthless
  std::uint32_t uses_left = 1;
  bool revoked = false;
};

struct NodeRecord {
  PublicKey key;     // unique
  std::string name;  // unique among those not revoked
  Role role = Role::kWorker;
  std::int64_t enrolled = 0;
  bool revoked = false;
};

struct ApiKey {
  std::string id;
  Hash256 secret_hash;
  std::string name;                 // unique among those not revoked
  std::vector<std::string> models;  // that it may use; empty: all
  std::vector<std::string> trust;   // nodes for requests that name none; empty: any
  bool admin = false;
  std::uint32_t requests_per_minute = 0;  // 0: any number
  std::int64_t created = 0;
  bool revoked = false;
};

class Store {
 public:
  virtual ~Store() = default;

  // The key of all secret_hash fields: random, made with the store, never leaves it.
  virtual const Hash256& secret_key() const = 0;

  // kInvalidInput when the id is there.
  virtual Status add_token(const TokenRecord& token) = 0;
  virtual Result<std::optional<TokenRecord>> find_token(std::string_view id) = 0;
  // Takes one use of a token that is neither revoked nor expired. False when none was left; of two
  // that ask for the last one, in whatever process, exactly one hears true.
  virtual Result<bool> take_token_use(std::string_view id, std::int64_t now) = 0;
  virtual Result<std::vector<TokenRecord>> tokens() = 0;  // oldest first, as the other lists
  // False when there is none with this id that was not revoked before.
  virtual Result<bool> revoke_token(std::string_view id) = 0;

  // kInvalidInput when the key, or the name of one that is not revoked, is there.
  virtual Status add_node(const NodeRecord& node) = 0;
  virtual Result<std::optional<NodeRecord>> find_node(const PublicKey& key) = 0;
  virtual Result<std::vector<NodeRecord>> nodes() = 0;
  virtual Result<bool> revoke_node(const PublicKey& key) = 0;

  // kInvalidInput when the id, or the name of one that is not revoked, is there.
  virtual Status add_key(const ApiKey& key) = 0;
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
