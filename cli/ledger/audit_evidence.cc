#include "cli/ledger/audit_evidence.h"

#include "ledger/dispute/evidence.h"

namespace hearth::cli {

Result<std::set<std::string>> check_evidence(
    ledger::LogFolder& folder, const std::map<std::uint64_t, ledger::VerdictEntry>& verdicts) {
  std::set<std::string> files;
  for (const auto& [index, verdict] : verdicts) {
    const std::string at = "the verdict at entry " + std::to_string(index);
    const std::string name = kEvidenceFolder + verdict.evidence.hex();
    const auto bytes = folder.read(name, ledger::kEvidenceBytes);
    REQUIRE(bytes, name + ": the evidence of " + at + " cannot be read: " + bytes.error().message);
    REQUIRE(blake2b(*bytes) == verdict.evidence, name + ": not the evidence that " + at + " names");
    files.insert(name);
  }
  return files;
}

}  // namespace hearth::cli
