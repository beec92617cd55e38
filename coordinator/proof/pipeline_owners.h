// Whose machines the stages of pipelines are and what they stand for: who may audit whom
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

// Of the pipelines that may compute the request again, the one whose node the draw names for the
// first window that is wanted. Newcomers are asked for what no draw wants (`is_check`); for what
// one does, only where no other node can do it, since what they agree to discharges no worker.
struct AuditorChoice {
  std::shared_ptr<const ReceiptPipeline> pipeline;  // null: none may
  bool owners_only = false;                         // some could, but for their owners
};
AuditorChoice choose_auditor(const ledger::Books& books,
                             const std::map<Epoch, std::shared_ptr<const ReceiptPipeline>>& all,
                             const AuditCase& request, const std::set<Epoch>& tried, bool is_check);

}  // namespace hearth::coordinator
