// The salts of an answer (PROTOCOL.md, 2). The client has the answer's salt. The stages of each
// choice have a salt derived from it. Pure functions, any thread.
#pragma once

#include "base/crypto.h"
#include "ledger/receipt.h"

namespace hearth::ledger {

Hash256 choice_salt(const Hash256& answer_salt, const RequestId& request);

}  // namespace hearth::ledger
