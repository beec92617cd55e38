// The evidence of a ledger's verdicts, which lies beside its log: that each is there and is the one
// that the log names, and that the dispute's file which it names shows whom the verdict names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "ledger/entry.h"
#include "ledger/folder.h"
#include "ledger/note.h"

namespace hearth::cli {

inline constexpr char kEvidenceFolder[] = "disputes/";
inline constexpr std::size_t kEvidenceBytes = std::size_t{1} << 20;  // of the lines of one verdict

struct Evidence {
  std::set<std::string> files;  // by their names in the log's folder
  std::size_t disputes = 0;     // files of games, each played again
};

// `verdicts`: by their entries. kInvalidInput names the file and the verdict.
Result<Evidence> check_evidence(ledger::LogFolder& folder, const ledger::Checkpoint& checkpoint,
                                const std::map<std::uint64_t, ledger::VerdictEntry>& verdicts);

}  // namespace hearth::cli
