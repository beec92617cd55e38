#include "coordinator/http/generation/event_id.h"

#include <spdlog/fmt/fmt.h>

#include "base/limits.h"
#include "base/number.h"

namespace hearth::coordinator::http {
namespace {

constexpr std::size_t kAnswerDigits = 16;

}  // namespace

std::string event_id_text(const EventId& id) {
  return fmt::format("{:016x}-{}{}", id.answer, fmt::join(id.told, "."), id.usage ? "u" : "");
}

std::optional<EventId> parse_event_id(std::string_view text) {
  if (text.size() > limits::kLastEventIdBytes || text.size() <= kAnswerDigits) return std::nullopt;
  const auto answer = parse_number<std::uint64_t>(text.substr(0, kAnswerDigits), 16);
  if (!answer || text[kAnswerDigits] != '-') return std::nullopt;
  EventId id;
  id.answer = *answer;
  std::string_view rest = text.substr(kAnswerDigits + 1);
  if (rest.ends_with('u')) {
    id.usage = true;
    rest.remove_suffix(1);
  }
  for (bool more = true; more;) {
    const std::size_t dot = rest.find('.');
    const auto told = parse_number<std::uint32_t>(rest.substr(0, dot));
    if (!told || id.told.size() == limits::kHttpSequences) return std::nullopt;
    id.told.push_back(*told);
    more = dot != std::string_view::npos;
    if (more) rest.remove_prefix(dot + 1);
  }
  // Each number has one spelling: no capital digits, no leading zeros.
  if (event_id_text(id) != text) return std::nullopt;
  return id;
}

}  // namespace hearth::coordinator::http
