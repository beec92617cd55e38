// kernels/float_order.h under other flags: HEARTH_FAULT_OF names the function of this build.
#include "kernels/float_order.h"

namespace hearth::kernels {

const char* HEARTH_FAULT_OF();
const char* HEARTH_FAULT_OF() { return float_order_fault(); }

}  // namespace hearth::kernels
