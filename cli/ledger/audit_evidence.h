// The evidence of a verdict lies beside its ledger's log: each file is there and is the one that
// the log names. Whether a verdict is right, `hearth verify --re-execute` says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "ledger/entry.h"
#include "ledger/folder.h"

namespace hearth::cli {

inline constexpr char kEvidenceFolder[] = "disputes/";

// `verdicts`: by their entries. The files' names in the log's folder. kInvalidInput names the file
// and the verdict.
Result<std::set<std::string>> check_evidence(
    ledger::LogFolder& folder, const std::map<std::uint64_t, ledger::VerdictEntry>& verdicts);

}  // namespace hearth::cli
