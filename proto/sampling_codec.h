// Sampling parameters back from the bytes that encode() (step.h) gives, by which receipts name
// them.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"
#include "proto/step.h"

namespace hearth {

// kInvalidInput names the field and its limit; bytes left over are refused.
Result<SamplingParams> decode_sampling(ByteSpan bytes, std::uint32_t vocabulary);

}  // namespace hearth
