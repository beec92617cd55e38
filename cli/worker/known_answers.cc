#include "cli/worker/known_answers.h"

#include "cli/terminal/exit_codes.h"
#include "kernels/kernels.h"
#include "kernels/self_test.h"

namespace hearth::cli {

int check_known_answers() {
  const auto kernels = kernels::select_kernels();
  if (!kernels) return fail(kernels.error());
  const Status tested = kernels::require_known_answers(**kernels);
  if (tested) return kExitDone;
  fail(tested.error());
  return kExitVerification;
}

}  // namespace hearth::cli
