// The verdict of a dispute (ledger/PROTOCOL.md, 4), from what is known about the party whose root
// differs from the referee's. The coordinator and the simulation of the economy call the same
// function. Pure functions, any thread.
#pragma once

#include "ledger/answer.h"
#include "ledger/entry.h"

namespace hearth::ledger {

struct Judged {
  Plea plea = Plea::kNone;
  // The accused's self-check: its weights hash to the model's, and its kernels still pass their
  // self-test. Both are true when it does not answer.
  bool weights_whole = true;
  bool self_test_passed = true;
  // The window was sent to the same node once more, as an ordinary request, and gave the same wrong
  // root.
  bool same_again = false;
};

// Fraud: the accused contested and lost, or the mismatch reproduced although nothing is damaged.
// Everything else is a fault: a soft error does not reproduce, a damaged weight is found by
// hashing, and a missing answer proves nothing worse.
Verdict verdict_of(const Judged& judged);

}  // namespace hearth::ledger
