// The tables of a store, as steps from one version to the next, for SQLite and for PostgreSQL.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "coordinator/store/database.h"

namespace hearth::coordinator {

enum class Dialect : std::uint8_t { kSqlite, kPostgres };

// The version of a store that this program has written last; 0 is an empty database.
std::int64_t schema_version();

// Brings the tables from `version` to schema_version(), in the caller's transaction. A new store
// gets its secret. `name`: of the store, for errors: kVersion for a newer store.
Status upgrade_schema(Database& db, Dialect dialect, std::int64_t version, const std::string& name);

}  // namespace hearth::coordinator
