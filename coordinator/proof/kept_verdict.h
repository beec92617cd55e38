// Evidence of verdicts (ledger/PROTOCOL.md, 4), lines of a name and a value, where a process was
// ended before its verdict was in the log: one whose evidence is on the disk is read again, and a
// dispute that has none gets evidence that nobody can judge it any more. Pure functions, any
// thread.
#pragma once

#include <optional>
#include <string_view>

#include "ledger/books.h"

namespace hearth::coordinator {

inline constexpr std::string_view kVerdictEvidence = "hearth verdict evidence v1\n";
std::string_view verdict_name(ledger::Verdict verdict);  // "fault", "fraud", "unjudged"

// The verdict that this is the evidence of, where it finds one of the two sides of a dispute guilty
// that is open in these books. Any bytes.
std::optional<ledger::VerdictEntry> verdict_in(ByteSpan evidence, const ledger::Books& books);

// For a dispute that is open in these books. The same bytes whenever it is asked for.
Bytes unjudged_evidence(std::uint64_t entry, const ledger::Books& books);

}  // namespace hearth::coordinator
