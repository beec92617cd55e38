#include "kernels/defect.h"

namespace hearth::kernels {

Defect planted_defect() { return kDefect; }

}  // namespace hearth::kernels
