// What a verb that computes asks of this machine before it reads a model.
#pragma once

namespace hearth::cli {

// kExitDone when the selected kernels give the known answers. Else an error on stderr that names
// kernel and instruction set, and kExitVerification: another start gives the same; kExitFailed when
// HEARTH_ISA names kernels that do not run here.
int check_known_answers();

}  // namespace hearth::cli
