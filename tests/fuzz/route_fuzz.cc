// Any text as a route, and any bytes as the answer to a punch. What is accepted is printed and read
// again as the same.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "proto/link/rendezvous.h"
#include "proto/link/route.h"

namespace hearth {
namespace {

// No input proves the secret of an answer, so an address that is in one is put there.
void check_answer(ByteSpan bytes) {
  const Ticket secret;
  const auto answer = decode_punch_answer(secret, bytes);
  INVARIANT(answer.ok() || !answer.error().message.empty(), "a refusal says why");
  if (!bytes.empty()) {
    INVARIANT(punch_answer_bytes(bytes[0]) <= kPunchAnswerBytes, "an answer fits its buffer");
  }
  const auto address = parse_address(as_text(bytes));
  if (!address.ok() || address->text().size() > limits::kPunchAddressBytes) return;
  const auto again = decode_punch_answer(secret, encode_punch_answer(secret, *address));
  INVARIANT(again.ok() && *again == *address, "what is answered is read");
  for (const char* coordinator : {"203.0.113.1", "192.168.1.1", "127.0.0.1", "2001:db8::1"}) {
    const Status allowed = check_punch_address(*again, {coordinator, 1});
    INVARIANT(!allowed.ok() || again->port >= limits::kPunchPortLeast, "no service is dialled");
  }
}

}  // namespace
}  // namespace hearth

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_answer(as_bytes(text));
  (void)describe_route(text);
  const auto route = parse_route(text);
  if (!route.ok()) {
    INVARIANT(!route.error().message.empty(), "a refusal says why");
    return 0;
  }
  const auto again = parse_route(route->text());
  INVARIANT(again.ok() && again->kind == route->kind && again->address == route->address &&
                again->ticket == route->ticket && again->control_port == route->control_port,
            "what is printed is read again");
  return 0;
}
