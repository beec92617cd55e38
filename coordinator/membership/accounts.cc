#include "coordinator/membership/accounts.h"

#include "base/check.h"
#include "base/hex.h"

namespace hearth::coordinator {

PublicKey account_of(const ApiKey& key, const Hash256& secret, const PublicKey& own) {
  if (key.account) return *key.account;
  if (key.node) return *key.node;
  if (key.admin) return own;
  const Hash256 seed = keyed_blake2b(secret, as_bytes("account of API key " + key.id));
  const auto pair = SecretKey::from_seed(seed.bytes);
  INVARIANT(pair, "32 bytes are a seed");
  return pair->public_key();
}

Result<PublicKey> Accounts::of_key(std::string_view id) const {
  if (id.empty()) return own_;
  if (id.starts_with(kMemberOwner)) {
    const auto bytes = from_hex(id.substr(kMemberOwner.size()));
    REQUIRE(bytes.has_value(), "'", id, "' is not node: and the 64 hex digits of a key");
    TRY(const PublicKey node, PublicKey::parse(*bytes));
    const auto entry = roster_->find(node);
    return entry && entry->role == Role::kAdmin ? own_ : node;
  }
  TRY(const auto key, store_->find_key(id));
  if (!key) return Error::of(ErrorCode::kNotFound, "no API key has the id ", id);
  return account_of(*key, store_->secret_key(), own_);
}

std::string Accounts::name_of(std::string_view key, const PublicKey& account) const {
  if (key.starts_with(kMemberOwner)) {
    const auto entry = roster_->find(account);
    return entry ? entry->name : account.hex();
  }
  const auto found = store_->find_key(key);
  if (!found.ok() || !*found) return account.hex();
  const auto meant = find((*found)->name);
  const bool usable = meant.ok() && *meant == account &&
                      (*found)->name.find_first_of(" '\"\\$`") == std::string::npos;
  return usable ? (*found)->name : account.hex();
}

Result<PublicKey> Accounts::find(std::string_view name) const {
  if (name.size() == 2 * PublicKey::kBytes) {
    if (const auto bytes = from_hex(name)) return PublicKey::parse(*bytes);
  }
  std::optional<PublicKey> found;
  const auto roster = roster_->roster();
  if (const RosterEntry* node = roster ? roster->find(name) : nullptr) found = node->key;
  TRY(const auto keys, store_->keys());
  for (const ApiKey& key : keys) {
    if (key.revoked || (key.name != name && key.id != name)) continue;
    const PublicKey account = account_of(key, store_->secret_key(), own_);
    REQUIRE(!found || *found == account, "'", name,
            "' names a node and an API key with different accounts; give the account's 64 hex "
            "digits (hearth key list, hearth nodes)");
    found = account;
  }
  if (found) return *found;
  return Error::of(ErrorCode::kNotFound, "no account is named '", name,
                   "'; name one by a node's name (hearth status), an API key's name (hearth key "
                   "list) or its 64 hex digits");
}

}  // namespace hearth::coordinator
