// The ledger's log in the store. In PostgreSQL its files (ledger/folder.h) are rows of the table
// ledger_files, so that whichever coordinator leads continues the one log; a write or a rename is
// one transaction under the epoch of its lease. With SQLite, the log is the folder `ledger`.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "coordinator/store/lease.h"
#include "ledger/folder.h"

namespace hearth::coordinator {

// The log of a data folder whose store is in PostgreSQL, for the coordinator that leads in that
// term: kRefused from every write once there is another one. While the database is away, a write
// waits until it is back, or `stops` is true. A log that the data folder has still in its folder
// `ledger` is brought into the store first.
Result<std::unique_ptr<ledger::LogFolder>> open_stored_log(
    const std::string& folder, const LeaseTerm& term,
    std::shared_ptr<const std::atomic<bool>> stops);

// For reading: from the store, where it has the log; else from `path`, as
// ledger::open_archived_log().
Result<std::unique_ptr<ledger::LogFolder>> open_log_to_read(const std::string& folder,
                                                            const std::string& path,
                                                            const std::string& archive = {});
// Whether the store of that data folder has the log.
Result<bool> has_stored_log(const std::string& folder);

// Refuses a folder whose folder `ledger` has a log that the store's does not continue, as
// open_stored_log() would when this coordinator is to lead.
Status check_log_on_disk(const std::string& folder);

// For hearth store migrate. The copy of the data folder's log in the store is whole on return, and
// the one on the disk stays in use until it is retired.
class PostgresDatabase;
Status import_log_of_folder(PostgresDatabase& db, const std::string& folder);
Status retire_log_on_disk(const std::string& folder);
// Brings the log of the store into the data folder's folder `ledger`, where there is one.
Status export_stored_log(PostgresDatabase& db, const std::string& folder);

}  // namespace hearth::coordinator
