// What the coordinator asks its referee of an audited request, and what it reads from the answer
// (ledger/PROTOCOL.md, 4). Pure functions, any thread.
#pragma once

#include <functional>

#include "coordinator/proof/audit_case.h"
#include "ledger/dispute/recompute.h"
#include "ledger/dispute/verdict.h"

namespace hearth::coordinator {

// Computes a request again with all of the model. `done` comes once, on any thread. kUnavailable:
// there is no referee now. kTimeout: not in time.
using Referee = std::function<void(ledger::RefereeCase,
                                   std::function<void(Result<ledger::RefereeFinding>)> done)>;

// What the worker's pipeline claimed.
ledger::RefereeCase claimed_case(const AuditCase& request);
// What the auditor's pipeline came to when it generated.
ledger::RefereeCase audited_case(const AuditCase& request, const AuditCase::Run& generated);

// What its receipts and its auditor say. `finding` disagrees, and is of one of these runs; `fed` as
// of AuditCase::judge(). kInvalidInput when the finding is not of this request.
Result<ledger::DisputedRoots> disputed_roots(const AuditCase& request,
                                             const AuditCase::Finding& finding,
                                             const AuditCase::Run& generated,
                                             const AuditCase::Run* fed);

// Whether all that its receipts say is what the referee computed.
bool is_right(const AuditCase& request, const ledger::RefereeFinding& claimed);

// What a referee says of each window, from the first on, up to and including the first that he has
// otherwise: as an auditor. kInvalidInput when he has not computed exactly the request's windows.
Result<AuditCase::Findings> findings_of(const AuditCase& request,
                                        const ledger::RefereeFinding& claimed);

}  // namespace hearth::coordinator
