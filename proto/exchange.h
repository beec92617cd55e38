// What one rank of a group sends to another in one exchange of a step (kernels/CANONICAL.md, 13).
// The bytes have the size that both ranks know; their contents are checked where they are used.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"

namespace hearth {

struct ExchangePart {
  Epoch epoch;
  std::uint64_t number = 0;  // of the exchange, from 0 in each epoch
  ByteSpan bytes;            // of the payload; may be empty
};

Bytes encode(const ExchangePart& part);
Result<ExchangePart> decode_exchange_part(ByteSpan payload);

}  // namespace hearth
