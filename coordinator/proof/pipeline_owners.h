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
bool share_a_node(const ReceiptPipeline& a, const ReceiptPipeline& b);

// Of a member as the log says, which never changes; of a key that is not a member yet, as it will.
Hash256 owner_of(const ledger::Books& books, const ReceiptPipeline::Stage& stage);

// Whether some owner has a stage in both; or two stages of one.
bool share_an_owner(const ledger::Books& books, const ReceiptPipeline& a, const ReceiptPipeline& b);
bool has_an_owner_twice(const ledger::Books& books, const ReceiptPipeline& pipeline);

// Whether no stage is below this level. Whom the log does not name yet begins where those begin
// that the cluster vouches for.
bool is_at_level(const ledger::Books& books, const ReceiptPipeline& pipeline, ledger::Level least);

// Whether all stages are of these nodes, by their names; of any where none is named.
bool is_within(const ReceiptPipeline& pipeline, const std::vector<std::string>& trust);

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
