#include "proto/exchange.h"

namespace hearth {

Bytes encode(const ExchangePart& part) {
  Bytes out;
  out.reserve(sizeof(part.epoch.value) + sizeof(part.number) + part.bytes.size());
  ByteWriter writer(out);
  writer.write(part.epoch.value, part.number);
  writer.append(part.bytes);
  return out;
}

Result<ExchangePart> decode_exchange_part(ByteSpan payload) {
  ByteReader reader(payload);
  ExchangePart part;
  reader.read_into(part.epoch.value, part.number);
  REQUIRE(!reader.failed(), "the part of an exchange has ", payload.size(),
          " bytes, fewer than its header");
  part.bytes = reader.take(reader.remaining());
  return part;
}

}  // namespace hearth
