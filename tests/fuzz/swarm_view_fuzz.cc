// Any bytes as the state of a swarm, as a foreign server might answer: what is shown
// of it never steers a terminal.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "cli/watch/watch.h"
#include "coordinator/client/swarm_view.h"

namespace hearth::cli {
namespace {

void check(const Lines& lines) {
  for (const std::string& line : lines) {
    for (const char c : line) {
      const auto byte = static_cast<unsigned char>(c);
      INVARIANT(byte >= ' ' && byte != 0x7F, "a control character is shown");
    }
  }
}

}  // namespace
}  // namespace hearth::cli

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth::cli;
  const auto view = hearth::client::read_swarm_view({reinterpret_cast<const char*>(data), size});
  if (!view.ok()) {
    INVARIANT(!view.error().message.empty(), "a refusal says why");
    return 0;
  }
  check(status_lines(*view));
  check(top_lines(*view, "http://127.0.0.1:11500", "14:03:22"));
  return 0;
}
