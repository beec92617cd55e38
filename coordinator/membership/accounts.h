// Accounts: the account that pays for a request (ledger/PROTOCOL.md, 5), and the names of accounts.
// Any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/crypto.h"
#include "base/result.h"
#include "coordinator/store/store.h"
#include "proto/roster.h"

namespace hearth::coordinator {

// The account of an API key: the one that it was made for; else its node's; else, for an admin's
// key, `own` (the coordinator's machine's); else an account of its own. `secret`:
// Store::secret_key(). An own account is a public key derived with the store's secret. It discloses
// neither the API key, its name or id, nor whether two accounts belong to one store.
PublicKey account_of(const ApiKey& key, const Hash256& secret, const PublicKey& own);

// Prefix of the owner of requests that a member sends over its own link, before the 64 digits of
// its key. An API key's id has no colon.
inline constexpr std::string_view kMemberOwner = "node:";

class Accounts {
 public:
  // `own`: the account of this machine's users, who need no key.
  Accounts(std::shared_ptr<Store> store, std::shared_ptr<RosterBook> roster, const PublicKey& own)
      : store_(std::move(store)), roster_(std::move(roster)), own_(own) {}

  const PublicKey& own() const { return own_; }
  // The account of requests with this API key's id, revoked or not, or of this member (kMemberOwner
  // and its key); own() for an empty `id`, of requests without a key. kNotFound: there never was
  // such a key.
  Result<PublicKey> of_key(std::string_view id) const;
  // A text that find() accepts for this account, of requests with this API key: its unambiguous
  // name if it has one, else the digits.
  std::string name_of(std::string_view key, const PublicKey& account) const;
  // A node's name, an API key's name or id, or 64 hex digits. kNotFound for others; kInvalidInput
  // for an ambiguous name.
  Result<PublicKey> find(std::string_view name) const;

 private:
  const std::shared_ptr<Store> store_;
  const std::shared_ptr<RosterBook> roster_;
  const PublicKey own_;
};

}  // namespace hearth::coordinator
