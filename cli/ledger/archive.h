// hearth ledger archive: moves old entry bundles of a ledger's log to another folder, where every
// reader of the log finds them.
#pragma once

#include <cstdint>
#include <string>

namespace hearth::cli {

struct ArchiveOptions {
  std::string to;                      // the archive; made where its parent folder is there
  std::string folder;                  // as AuditOptions; empty: this machine's
  std::uint32_t older_than_days = 30;  // than the log's latest entry
  bool json = false;
};
int run_archive(const ArchiveOptions& options);

}  // namespace hearth::cli
