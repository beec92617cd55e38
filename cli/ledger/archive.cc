#include "cli/ledger/archive.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/ids.h"
#include "cli/ledger/audit.h"
#include "cli/process/paths.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/print_line.h"
#include "coordinator/store/stored_log.h"
#include "ledger/archive.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kDaySeconds = 24 * 3'600;

// The log would not accept files of an archive in its own folder.
Result<std::string> archive_path(const std::string& given, const std::string& log) {
  std::error_code failed;
  const fs::path path = fs::weakly_canonical(fs::absolute(given), failed);
  const fs::path inside = failed ? fs::path() : fs::weakly_canonical(log, failed);
  if (failed) return Error::of(ErrorCode::kIo, given, ": ", failed.message());
  const bool is_inside =
      std::mismatch(inside.begin(), inside.end(), path.begin(), path.end()).first == inside.end();
  REQUIRE(!is_inside, given, " is in the log's own folder ", log, "; give one outside of it");
  return path.string();
}

Result<ledger::Archived> archive(const ArchiveOptions& options, const std::string& log_path,
                                 std::string& path) {
  TRY(const bool is_stored, coordinator::has_stored_log(data_folder(options.folder)));
  REQUIRE(!is_stored,
          "the log is in the store in PostgreSQL, and only a log on a disk is archived; make room "
          "on the database's disk");
  TRY(path, archive_path(options.to, log_path));
  TRY(const auto log, ledger::open_log_folder(log_path, ledger::LogAccess::kRead));
  TRY(const auto to, ledger::open_log_folder(path, ledger::LogAccess::kCreate));
  return ledger::archive_bundles(*log, *to, path, options.older_than_days * kDaySeconds);
}

}  // namespace

int run_archive(const ArchiveOptions& options) {
  const std::string log_path = log_folder(data_folder(options.folder));
  std::string path;
  const auto done = archive(options, log_path, path);
  if (!done) return fail({done.error().code, log_path + ": " + done.error().message});
  if (options.json) {
    print_escaped({{"archive", path},
                   {"archived_entries", done->entries},
                   {"moved_bundles", done->moved},
                   {"moved_bytes", done->bytes},
                   {"entries_left", done->left}});
    return kExitDone;
  }
  if (done->moved == 0) {
    print_line("nothing to move: no further bundle of 256 entries is {} older than the log",
               counted(options.older_than_days, "day"));
  } else {
    print_line("moved {} of 256 entries, {} bytes, to {}", counted(done->moved, "bundle"),
               done->bytes, escape_control(path));
  }
  if (done->entries > 0) {
    print_line("archived: entries 0 to {}, in {}; in the log: {} entries", done->entries - 1,
               escape_control(path), done->left);
  }
  return kExitDone;
}

}  // namespace hearth::cli
