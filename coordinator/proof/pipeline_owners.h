// The owners of pipelines' stages, which decide which pipelines may audit each other
// (ledger/PROTOCOL.md, 4). Pure functions, any thread.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "coordinator/proof/audit_case.h"
#include "coordinator/proof/receipt_collector.h"
#include "ledger/books.h"

namespace hearth::coordinator {

bool same_cut(const ReceiptPipeline& a, const ReceiptPipeline& b);

// Among the pipelines that may recompute the request, the one whose node the draw names for the
// first wanted window. Newcomers get checks without a draw (`is_check`). They get drawn windows
// only when no other node can audit them, because their agreement does not count for the worker.
struct AuditorChoice {
  std::shared_ptr<const ReceiptPipeline> pipeline;  // null: no pipeline may
  bool owners_only = false;                         // the owners exclude all possible pipelines
};
AuditorChoice choose_auditor(const ledger::Books& books,
                             const std::map<Epoch, std::shared_ptr<const ReceiptPipeline>>& all,
                             const AuditCase& request, const std::set<Epoch>& tried, bool is_check);

}  // namespace hearth::coordinator
