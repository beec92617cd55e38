// The evidence of a verdict (PROTOCOL.md, 4): lines of a name and a value, in a file beside the log
// under its BLAKE2b. It keeps the request's tokens up to the end of the disputed window, how they
// were sampled, its salt and receipts, and what the auditor sealed and opened: a reader with
// the model file computes the window again and comes to the same ruling. It discloses the prompt as
// far as that, and is kept for the cluster's user alone.
//
// Any bytes may be parsed. Pure functions, any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ledger/books.h"
#include "ledger/dispute/verdict.h"
#include "ledger/receipt.h"
#include "ledger/statements.h"

namespace hearth::ledger {

inline constexpr std::string_view kVerdictEvidence = "hearth verdict evidence v1\n";
inline constexpr std::size_t kEvidenceBytes = std::size_t{64} << 20;
inline constexpr std::string_view kEvidenceFolder = "disputes/";  // of the log

struct VerdictEvidence {
  PublicKey cluster;
  std::uint64_t entry = 0;      // of the log: the receipt in dispute
  WindowPlace place;            // of that receipt
  std::vector<Bytes> receipts;  // of the request up to that window, by window, then by stage
  RefereeCase claimed;          // up to the end of that window; its split is the receipts' own
  SealEntry seal;               // the auditor's
  Hash256 auditor_root;         // that it opened, with its salt
  Hash256 auditor_salt;
  // Where the ruling rests on it: the answer that the auditing pipeline came to, and the roots that
  // its stages claimed for it.
  std::optional<std::vector<TokenId>> auditor_answer = {};
  WindowRoots auditor_windows = {};
  Hash256 truth;  // Ruling::truth
  PublicKey guilty;
  std::optional<bool> same_again = {};  // nothing: its pipeline could not be asked
  std::optional<Answer> answer = {};    // of the accused
  std::string damage = {};              // in its words, one line
  Verdict verdict = Verdict::kFault;
};

Bytes write_evidence(const VerdictEvidence& evidence);
// kInvalidInput names the line. Signatures are checked by check_evidence().
Result<VerdictEvidence> parse_evidence(ByteSpan bytes);

// What a repetition needs beside the model.
struct CheckedEvidence {
  std::vector<Receipt> receipts;
  DisputedRoots roots;
  RefereeCase claimed;
  std::optional<RefereeCase> audited;  // where the auditor's own tokens are to be computed
};
// Checks that receipts, seal and answer are signed, that the receipts commit to these tokens, and
// that the verdict follows from ruling and answer. kInvalidInput names the contradiction.
Result<CheckedEvidence> check_evidence(const VerdictEvidence& evidence);
// Whether the recomputation gives this verdict's ruling. kInvalidInput names the other result.
Status check_ruling(const VerdictEvidence& evidence, const CheckedEvidence& checked,
                    const RefereeFinding& finding, const RefereeFinding* audited);

// For a coordinator that was ended before a verdict was in its log.
//
// The verdict that this is the evidence of, where it finds one of the two sides of a dispute guilty
// that is open in these books. Any bytes.
std::optional<VerdictEntry> verdict_in(ByteSpan evidence, const Books& books);
// For a dispute that is open in these books. Gives the same bytes at every call.
Bytes unjudged_evidence(std::uint64_t entry, const Books& books);

}  // namespace hearth::ledger
