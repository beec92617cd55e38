#include "ledger/verdict.h"

namespace hearth::ledger {

Verdict verdict_of(const Judged& judged) {
  if (judged.plea == Plea::kContested) return Verdict::kFraud;
  const bool is_sound = judged.weights_whole && judged.self_test_passed;
  return judged.same_again && is_sound ? Verdict::kFraud : Verdict::kFault;
}

}  // namespace hearth::ledger
