// How a dispute ends (ledger/PROTOCOL.md, 4): what is known of one whose root is another one than
// that of a referee who computed the window with a copy of its own, and what follows from it. The
// coordinator and the simulation of the economy ask the same function. Pure functions, any thread.
#pragma once

#include "ledger/answer.h"
#include "ledger/entry.h"

namespace hearth::ledger {

struct Judged {
  Plea plea = Plea::kNone;
  // As the accused says: its weights, hashed again, are those of the model, and its kernels give
  // what they gave when it was started. Of who says nothing nobody knows a damage.
  bool weights_whole = true;
  bool self_test_passed = true;
  // The window was computed again there, as a request like any other, to the same wrong root.
  bool same_again = false;
};

// Fraud: contested, which is lost; or the deviation came again, though nothing there is damaged. A
// soft error does not come twice, and a bit of a weight that is stuck is found by hashing it: both
// are faults, and so is an answer that does not come.
Verdict verdict_of(const Judged& judged);

}  // namespace hearth::ledger
