// Any bytes as a Last-Event-ID: what is taken is what this program writes, and nothing else.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/limits.h"
#include "coordinator/http/generation/event_id.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hearth::coordinator::http;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto id = parse_event_id(text);
  if (!id) return 0;
  INVARIANT(!id->told.empty() && id->told.size() <= hearth::limits::kHttpSequences,
            "a number a choice");
  INVARIANT(event_id_text(*id) == text, "one spelling");
  return 0;
}
