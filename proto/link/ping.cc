#include "proto/link/ping.h"

#include "base/limits.h"

namespace hearth {

Bytes encode(const Ping& ping) {
  Bytes out;
  ByteWriter writer(out);
  writer.write(ping.answer_bytes);
  out.resize(out.size() + ping.filling);
  return out;
}

Result<Ping> decode_ping(ByteSpan payload) {
  ByteReader reader(payload);
  Ping ping;
  ping.answer_bytes = reader.read<std::uint32_t>();
  REQUIRE(!reader.failed(), "a ping of ", payload.size(), " bytes is too short");
  ping.filling = static_cast<std::uint32_t>(reader.remaining());
  REQUIRE(payload.size() <= limits::kPingBytes && ping.answer_bytes <= limits::kPingBytes,
          "a ping of ", payload.size(), " bytes asks for ", ping.answer_bytes,
          "; the limit of both is ", limits::kPingBytes);
  return ping;
}

}  // namespace hearth
