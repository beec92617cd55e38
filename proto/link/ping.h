// A ping measures the delay and the rate of a data link. The transport at the far end answers it.
// Payload of kPing: 4 bytes, little-endian, the number of bytes of the answer; then any. Of kPong:
// so many zeros.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"

namespace hearth {

struct Ping {
  std::uint32_t answer_bytes = 0;  // at most limits::kPingBytes
  std::uint32_t filling = 0;       // bytes behind them; in all at most limits::kPingBytes
};

Bytes encode(const Ping& ping);
Result<Ping> decode_ping(ByteSpan payload);

}  // namespace hearth
