// Where the store of a data folder is: in its file hearth.db, or in the PostgreSQL database that
// its file store.url names.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "coordinator/store/database.h"
#include "coordinator/store/lease.h"

namespace hearth::coordinator {

// A database of PostgreSQL, in libpq's form: postgresql://USER@HOST:PORT/DATABASE?sslmode=...
struct StoreUrl {
  std::string text;   // as given: it may hold a password, so it is never shown
  std::string shown;  // without the password and parameters
  // It is on another machine, and neither the URL nor PGSSLMODE says how TLS is used.
  bool needs_tls = false;
};

// kInvalidInput, with the right form. The error never repeats the text.
Result<StoreUrl> parse_store_url(const std::string& text);

std::string store_file(const std::string& folder);  // hearth.db

// The folder's database; nothing: its store is hearth.db.
Result<std::optional<StoreUrl>> read_store_url(const std::string& folder);
// From now on, the folder's store is that database; nothing: hearth.db.
Status write_store_url(const std::string& folder, const std::optional<StoreUrl>& url);

// One connection to the store of a folder, for a command (no `term`), or for the journal of the
// coordinator that leads in that term. Errors: see open_store().
Result<std::unique_ptr<Database>> open_database(const std::string& folder, Database::Flush flush,
                                                const LeaseTerm& term = {});

}  // namespace hearth::coordinator
