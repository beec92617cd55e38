#include "cli/serve/evidence_folder.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include "base/private_file.h"
#include "cli/ledger/audit_evidence.h"
#include "coordinator/proof/kept_verdict.h"
#include "ledger/dispute.h"

namespace hearth::cli {
namespace {

// Longer files are disputes', which are not read here.
std::optional<Bytes> read_named(const std::string& folder, const std::string& name) {
  auto bytes = read_private_file(folder + "/" + name, kEvidenceBytes);
  if (!bytes || blake2b(*bytes).hex() != name) return std::nullopt;
  return *std::move(bytes);
}

bool is_whole(const Bytes& evidence, const std::set<std::string>& names) {
  const std::string_view text = as_text(evidence);
  if (!text.starts_with(coordinator::kVerdictEvidence)) return false;
  const auto at = text.find("\n" + std::string(ledger::kEvidenceDispute));
  if (at == std::string_view::npos) return true;
  const std::string_view rest = text.substr(at + 1 + ledger::kEvidenceDispute.size());
  return names.contains(std::string(rest.substr(0, rest.find('\n'))));
}

}  // namespace

Status keep_verdict(const std::string& folder, const Hash256& hash, ByteSpan evidence) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  // What a dispute's file discloses is its cluster's.
  if (!failed) std::filesystem::permissions(folder, std::filesystem::perms::owner_all, failed);
  if (failed) return Error{ErrorCode::kUnavailable, folder + ": " + failed.message()};
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
    auto evidence = read_named(folder, name);
    if (evidence && is_whole(*evidence, names)) kept.push_back(*std::move(evidence));
  }
  return kept;
}

}  // namespace hearth::cli
