// The salts of an answer (PROTOCOL.md, 2): its client has one, and the stages of each of its
// requests, which are its choices, have one that follows from it. Pure, any thread.
#pragma once

#include "base/crypto.h"
#include "ledger/receipt.h"

namespace hearth::ledger {

Hash256 choice_salt(const Hash256& answer_salt, const RequestId& request);

}  // namespace hearth::ledger
