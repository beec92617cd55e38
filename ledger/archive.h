// Archive: a folder, perhaps on another disk, that holds old entry bundles of a log under the names
// that they have in the log. The log's hashes stay where they are, so the log is verified as
// before, and a reader that needs an archived entry finds its bundle in the archive. The log's file
// `archive` says which entries are there and where:
//
//   hearth archive v1
//   entries 51200
//   folder /mnt/disk/ledger
//
// That file proves nothing: a bundle is verified by its hashes in any folder. Copying the
// archive's `tile` folder over the log's and removing the file undoes it. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ledger/folder.h"

namespace hearth::ledger {

struct ArchiveNote {
  std::uint64_t entries = 0;  // the log's first, in whole bundles
  std::string folder;         // an absolute path
};
// Nothing where nothing is archived. kInvalidInput when the file is not as above.
Result<std::optional<ArchiveNote>> read_archive_note(LogFolder& log);

// A log's folder that reads archived bundles from their archive. `archive`: where that is now;
// empty: where the log's file says. kUnavailable from read() where a bundle is archived and the
// archive cannot be read.
std::unique_ptr<LogFolder> with_archive(std::unique_ptr<LogFolder> log, std::string archive = {});
// with_archive() of open_log_folder().
Result<std::unique_ptr<LogFolder>> open_archived_log(const std::string& path, LogAccess access,
                                                     std::string archive = {});

struct Archived {
  std::uint64_t entries = 0;  // that are in the archive now
  std::uint64_t moved = 0;    // bundles
  std::uint64_t bytes = 0;    // of these
  std::uint64_t left = 0;     // entries that stay in the log
};
// Moves the bundles of a ledger whose entries are all at least `age_seconds` older than its latest
// one into `archive`, an absolute path, and names it in the log as the place of all that is
// archived. The log is verified whole first, with what was archived before, which must be in
// `archive` already: kInvalidInput names the fault. A server may append to the log meanwhile. After
// a crash a bundle is in the log, in the archive or in both; the same call then completes it.
Result<Archived> archive_bundles(LogFolder& log, LogFolder& archive, const std::string& path,
                                 std::int64_t age_seconds);

}  // namespace hearth::ledger
