// The result of a kernel launch, as a Status.
#pragma once

#include <string>

#include "base/result.h"
#include "kernels/cuda/lost_card.h"

namespace hearth::kernels::cuda {

inline Status launched(const char* kernel, const char* error) {
  if (error == nullptr) return ok_status();
  return LostCard::heard(
      Error::of(ErrorCode::kIo, "the card refused to run ", kernel, ": ", error));
}

}  // namespace hearth::kernels::cuda
