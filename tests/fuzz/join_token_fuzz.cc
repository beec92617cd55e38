// Any text as a join token. What is accepted is printed and read again as the same.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "proto/join_token.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth;
  const auto token = parse_join_token({reinterpret_cast<const char*>(data), size});
  if (!token.ok()) {
    INVARIANT(!token.error().message.empty(), "a refusal says why");
    return 0;
  }
  const auto again = parse_join_token(token->text());
  INVARIANT(again.ok() && *again == *token, "what is printed is read again");
  return 0;
}
