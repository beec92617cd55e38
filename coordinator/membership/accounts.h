// Accounts: whose credit a request spends (ledger/PROTOCOL.md, 5), and what people call accounts.
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

// The account that it was made for; else of the node that it was given to; else, of an admin's,
// `own`: the coordinator's machine's; else one of its own. `secret`: Store::secret_key(). Such an
// account is a public key whose secret only the store
// has: it discloses neither the API key, its name or its id, nor whether two are of one store.
PublicKey account_of(const ApiKey& key, const Hash256& secret, const PublicKey& own);

// Before the 64 digits of a node's key: the owner of requests that a member sends over its own
// link, in the place of an API key's id, which has no colon.
inline constexpr std::string_view kMemberOwner = "node:";

class Accounts {
 public:
  // `own`: of this machine's users, who show no key.
  Accounts(std::shared_ptr<Store> store, std::shared_ptr<RosterBook> roster, const PublicKey& own)
      : store_(std::move(store)), roster_(std::move(roster)), own_(own) {}

  const PublicKey& own() const { return own_; }
  // Of requests that came with this API key, by its id, or of this member, by kMemberOwner and its
  // key; empty: with none. kNotFound: it was never
  // there.
  Result<PublicKey> of_key(std::string_view id) const;
  // What find() takes for this account, of requests that came with this API key: its name, where
  // there is one that means it; else the digits.
  std::string name_of(std::string_view key, const PublicKey& account) const;
  // A node's name, an API key's name or id, or 64 hex digits. kNotFound for others; kInvalidInput
  // for a name of two.
  Result<PublicKey> find(std::string_view name) const;

 private:
  const std::shared_ptr<Store> store_;
  const std::shared_ptr<RosterBook> roster_;
  const PublicKey own_;
};

}  // namespace hearth::coordinator
