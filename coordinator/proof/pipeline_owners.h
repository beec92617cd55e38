// Whose machines the stages of pipelines are and what they stand for: who may audit whom
// (ledger/PROTOCOL.md, 4). Pure functions, any thread.
#pragma once

#include <string>
#include <vector>

#include "coordinator/proof/receipt_desk.h"
#include "ledger/books.h"

namespace hearth::coordinator {

bool same_cut(const ReceiptPipeline& a, const ReceiptPipeline& b);
bool share_a_node(const ReceiptPipeline& a, const ReceiptPipeline& b);

// Of a member as the log says, which never changes; of who is none yet as it will.
Hash256 owner_of(const ledger::Books& books, const ReceiptPipeline::Stage& stage);

// Whether some owner has a stage in both; or two stages of one.
bool share_an_owner(const ledger::Books& books, const ReceiptPipeline& a, const ReceiptPipeline& b);
bool has_an_owner_twice(const ledger::Books& books, const ReceiptPipeline& pipeline);

// Whether no stage is below this level. Whom the log does not name yet begins where those begin
// that the cluster vouches for.
bool is_at_level(const ledger::Books& books, const ReceiptPipeline& pipeline, ledger::Level least);

// Whether all stages are of these nodes, by their names; of any where none is named.
bool is_within(const ReceiptPipeline& pipeline, const std::vector<std::string>& trust);

}  // namespace hearth::coordinator
