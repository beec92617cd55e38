#include <string>

#include "kernels/float_order.h"
#include "kernels/kernels.h"

namespace hearth::kernels {

// Tests the mode by computing, not by reading a control register: this works on any processor,
// however a library has changed the mode.
Status check_float_environment() {
  volatile float smallest_normal = 0x1p-126F;
  volatile float subnormal = 0x1p-130F;
  volatile float half = 0.5F;
  volatile float scale = 0x1p10F;
  volatile float one = 1.0F;
  volatile float below_half_step = 0x1p-25F;
  volatile float above_half_step = 0x1.8p-24F;

  const volatile float kept = smallest_normal * half;
  const volatile float read = subnormal * scale;
  if (kept != 0x1p-127F || read != 0x1p-120F) {
    return Error{ErrorCode::kNumeric,
                 "the processor flushes subnormal numbers to zero on this thread; the canonical "
                 "function keeps them"};
  }
  const volatile float up = one + below_half_step;
  const volatile float down = -one - below_half_step;
  const volatile float nearest = one + above_half_step;
  if (up != 1.0F || down != -1.0F || nearest != 0x1.000002p0F) {
    return Error{ErrorCode::kNumeric,
                 "the processor does not round to nearest on this thread; the canonical function "
                 "does"};
  }
  if (const char* fault = float_order_fault(); fault != nullptr) {
    return Error{
        ErrorCode::kNumeric,
        std::string("this program was built with other float arithmetic than the canonical "
                    "function's: ") +
            fault};
  }
  return ok_status();
}

}  // namespace hearth::kernels
