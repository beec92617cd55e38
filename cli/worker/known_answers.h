// The self-test of the kernels, which a verb that computes runs before it reads a model.
#pragma once

namespace hearth::cli {

// kExitDone when the selected kernels give the known answers. Else an error on stderr that names
// the kernel and the instruction set, and kExitVerification, since a retry cannot help; kExitFailed
// when HEARTH_ISA names kernels that do not run here.
int check_known_answers();

}  // namespace hearth::cli
