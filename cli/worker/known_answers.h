// The self-test of the kernels, which a verb that computes runs before it reads a model.
#pragma once

namespace hearth::cli {

// kExitDone when the selected kernels give the known answers. Otherwise kExitVerification, because
// a retry cannot help, and an error on stderr that names the kernel and the instruction set.
// kExitFailed when HEARTH_ISA names kernels that this CPU cannot run.
int check_known_answers();

}  // namespace hearth::cli
