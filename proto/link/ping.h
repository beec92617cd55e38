// A ping travels on a data link and is answered by the transport at its far end: how long the way
// takes, and how fast it is. Payload of kPing: 4 bytes, little-endian, the number of bytes of the
// answer; then any. Of kPong: so many zeros.
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
