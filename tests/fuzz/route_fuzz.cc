// Any text as a route. What is accepted is printed and read again as the same.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "proto/link/route.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)describe_route(text);
  const auto route = parse_route(text);
  if (!route.ok()) {
    INVARIANT(!route.error().message.empty(), "a refusal says why");
    return 0;
  }
  const auto again = parse_route(route->text());
  INVARIANT(again.ok() && again->kind == route->kind && again->address == route->address &&
                again->ticket == route->ticket,
            "what is printed is read again");
  return 0;
}
