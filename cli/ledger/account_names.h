// Names of the accounts in a server's data folder, and its ledger.
#pragma once

#include <map>
#include <string>

#include "base/crypto.h"
#include "base/result.h"
#include "ledger/books.h"

namespace hearth::cli {

inline constexpr const char* kKeyMark = " (API key)";  // behind the name of one

// Names of nodes, and names of API keys (with kKeyMark) for accounts that do not belong to a node.
// Empty when the folder has neither, or they cannot be read.
std::map<PublicKey, std::string> account_names(const std::string& folder, const PublicKey& cluster);

// The account of a node's name or of 64 hex digits. kNotFound for anything else.
Result<PublicKey> node_account(const std::string& folder, const std::string& node);

// Folds the folder's log without checking signatures again, because its own server checked them.
// Without a log, a fold of no entries.
Result<ledger::Books> read_books(const std::string& folder);

}  // namespace hearth::cli
