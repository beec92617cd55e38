// The newest signed manifest of a cluster's model (model/gguf/manifest.h) in a store that several
// coordinators share: whichever leads numbers the next one. With SQLite, a data folder's own file
// is enough. Any thread.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "coordinator/store/lease.h"

namespace hearth::coordinator {

// No bytes before the first one.
Result<Bytes> read_stored_manifest(const std::string& folder);
// kRefused when `term` is not in force.
Status write_stored_manifest(const std::string& folder, const LeaseTerm& term, ByteSpan manifest);

// For hearth store migrate: of the data folder, whose file is of no use while the store has it.
class PostgresDatabase;
Status import_manifest_of_folder(PostgresDatabase& db, const std::string& folder);
Status export_stored_manifest(PostgresDatabase& db, const std::string& folder);

}  // namespace hearth::coordinator
