// The end of a dispute (ledger/PROTOCOL.md, 4): which of its two sides is false by the referee's
// result, and the verdict for that side. The coordinator, `hearth verify --re-execute` and the
// simulation of the economy use the same functions. Pure functions, any thread.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "ledger/dispute/compare_windows.h"
#include "ledger/dispute/recompute.h"
#include "ledger/entry.h"
#include "ledger/statements.h"

namespace hearth::ledger {

// The roots of the two sides of a dispute.
struct DisputedRoots {
  WindowRoots claimed;  // of the receipts, up to the disputed window at least
  WindowPlace place;    // of the root in dispute
  Hash256 auditor;      // the auditor's root there
  // Roots that the stages of the auditing pipeline claimed for its own tokens. Nothing: its tokens
  // are the claimed ones.
  std::optional<WindowRoots> generated = {};
};

struct Ruling {
  enum class False : std::uint8_t { kNobody, kWorker, kAuditor };
  False who = False::kNobody;  // of both, the worker, whose answer was given away
  std::string why;             // with kNobody
  // The worker is right; whether the auditor is false depends on what its own tokens give.
  bool wants_audited = false;
  bool is_alone = false;  // the referee agrees with neither side
  Hash256 truth;          // the root that should have gone out at the place
};

// A side is false only if its input equals the referee's: otherwise a lie on an earlier stage may
// have made an honest stage a party. `request` and `finding` are for the claimed tokens of the
// worker's pipeline. `audited` is for the auditing pipeline's tokens; null until wants_audited.
// kInvalidInput when the finding has other windows than the receipts.
Result<Ruling> rule(const DisputedRoots& disputed, const RefereeCase& request,
                    const RefereeFinding& finding, const RefereeFinding* audited);

struct Judged {
  Plea plea = Plea::kNone;
  // By the accused's answer: its weights, hashed again, are those of the model, and its kernels
  // give what they gave when it was started. Without an answer no damage is known.
  bool weights_whole = true;
  bool self_test_passed = true;
  // The window was computed again there, as a request like any other, to the same wrong root.
  bool same_again = false;
};

// Fraud: the accused contests and loses, or the deviation recurs without damage. A soft error does
// not recur, and hashing finds a stuck bit of a weight: both are faults, and so is a missing
// answer.
Verdict verdict_of(const Judged& judged);
std::string_view verdict_name(Verdict verdict);  // "fault", "fraud", "unjudged"

}  // namespace hearth::ledger
