#include "cli/serve/evidence_folder.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <set>
#include <utility>

#include "base/private_file.h"
#include "ledger/dispute/evidence.h"

namespace hearth::cli {

namespace {

bool is_whole(ByteSpan evidence, const std::string& name) {
  return blake2b(evidence).hex() == name && as_text(evidence).starts_with(ledger::kVerdictEvidence);
}

Status store_verdict(ledger::LogFolder& log, const Hash256& hash, ByteSpan evidence) {
  const std::string folder(ledger::kEvidenceFolder);
  const ledger::LogFolder::File file{folder + hash.hex(), evidence};
  TRY_VOID(log.write({&file, 1}));
  TRY_VOID(log.sync_names(folder));
  return log.sync_names("");
}

Result<std::vector<Bytes>> stored_verdicts(ledger::LogFolder& log) {
  const std::string folder(ledger::kEvidenceFolder);
  std::vector<Bytes> kept;
  const auto names = log.list(folder);
  if (!names && names.error().code == ErrorCode::kNotFound) return kept;
  if (!names) return names.error();
  for (const std::string& name : *names) {
    TRY(Bytes evidence, log.read(folder + name, ledger::kEvidenceBytes));
    if (is_whole(evidence, name)) kept.push_back(std::move(evidence));
  }
  return kept;
}

}  // namespace

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
    if (evidence && is_whole(*evidence, name)) kept.push_back(*std::move(evidence));
  }
  return kept;
}

Evidence evidence_in(const std::string& folder, std::shared_ptr<ledger::LogFolder> stored) {
  if (stored == nullptr) {
    return {std::bind_front(keep_verdict, folder), std::bind_front(kept_verdicts, folder)};
  }
  Evidence out;
  out.keep = [stored, folder](const Hash256& hash, ByteSpan evidence) -> Status {
    TRY_VOID(store_verdict(*stored, hash, evidence));
    return keep_verdict(folder, hash, evidence);
  };
  out.kept = [stored]() -> std::vector<Bytes> {
    auto found = stored_verdicts(*stored);
    if (found.ok()) return *std::move(found);
    spdlog::error("cannot read the evidence of verdicts: {}", found.error().message);
    return {};
  };
  return out;
}

}  // namespace hearth::cli
