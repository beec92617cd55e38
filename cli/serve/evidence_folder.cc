#include "cli/serve/evidence_folder.h"

#include <filesystem>
#include <set>

#include "base/private_file.h"
#include "ledger/dispute/evidence.h"

namespace hearth::cli {

Status keep_verdict(const std::string& folder, const Hash256& hash, ByteSpan evidence) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  // Evidence contains the tokens of a request, so only the cluster's user may read it.
  if (!failed) std::filesystem::permissions(folder, std::filesystem::perms::owner_all, failed);
  if (failed) return Error::of(ErrorCode::kUnavailable, folder, ": ", failed.message());
  return write_private_file(folder + "/" + hash.hex(), evidence);
}

std::vector<Bytes> kept_verdicts(const std::string& folder) {
  std::set<std::string> names;
  std::error_code failed;
  for (const auto& one : std::filesystem::directory_iterator(folder, failed)) {
    names.insert(one.path().filename().string());
  }
  std::vector<Bytes> kept;
  for (const std::string& name : names) {
    auto evidence = read_private_file(folder + "/" + name, ledger::kEvidenceBytes);
    const bool whole = evidence && blake2b(*evidence).hex() == name &&
                       as_text(*evidence).starts_with(ledger::kVerdictEvidence);
    if (whole) kept.push_back(*std::move(evidence));
  }
  return kept;
}

}  // namespace hearth::cli
