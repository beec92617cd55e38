// What people call the accounts of a server's data folder, and what its ledger says of them.
#pragma once

#include <map>
#include <string>

#include "base/crypto.h"
#include "base/result.h"
#include "ledger/books.h"

namespace hearth::cli {

inline constexpr const char* kKeyMark = " (API key)";  // behind the name of one

// Nodes by their names; API keys by theirs, with kKeyMark, where the account is no node's. Empty
// where the folder has neither, or they may not be read.
std::map<PublicKey, std::string> account_names(const std::string& folder, const PublicKey& cluster);

// Of a node's name, or 64 hex digits. kNotFound for others.
Result<PublicKey> node_account(const std::string& folder, const std::string& node);

// The fold of the folder's log, as its own server believes it: signatures are not checked again.
// Of no entries where there is no log yet.
Result<ledger::Books> read_books(const std::string& folder);

}  // namespace hearth::cli
