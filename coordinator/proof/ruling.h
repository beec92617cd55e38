// Who of the two sides of a dispute is false, by what a referee computed (ledger/PROTOCOL.md, 4).
// One is called false only where what came in at its stage is what the referee has there too: a lie
// further up may have made an honest stage a party. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/proof/audit_case.h"
#include "coordinator/proof/referee.h"

namespace hearth::coordinator {

struct Ruling {
  enum class False : std::uint8_t { kNobody, kWorker, kAuditor };
  False who = False::kNobody;  // of the two; of both, the worker, whose answer was given away
  std::string why;             // it is nobody
  bool wants_audited =
      false;              // it is not the worker: what the auditor's tokens give is to be known
  bool is_alone = false;  // the referee agrees with neither
  Hash256 truth;          // that should have gone out
};

// What the worker's pipeline claimed.
RefereeCase claimed_case(const AuditCase& request);
// What the auditor's pipeline came to when it generated.
RefereeCase audited_case(const AuditCase& request, const AuditCase::Run& generated);

// Whether all that its receipts say is what the referee computed.
bool is_right(const AuditCase& request, const RefereeFinding& claimed);

// What a referee says of each window, from the first on, up to and including the first that he has
// otherwise: as an auditor. kInvalidInput when he has not computed all of them.
Result<AuditCase::Findings> findings_of(const AuditCase& request, const RefereeFinding& claimed);

// `finding` disagrees, and is of one of these runs; `fed` as of AuditCase::judge(). `audited` is
// the referee's of audited_case(), null before it is wanted. kInvalidInput when a finding is not of
// this request.
Result<Ruling> rule(const AuditCase& request, const AuditCase::Finding& finding,
                    const AuditCase::Run& generated, const AuditCase::Run* fed,
                    const RefereeFinding& claimed, const RefereeFinding* audited);

}  // namespace hearth::coordinator
