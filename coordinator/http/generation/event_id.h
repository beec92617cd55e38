// EventId: the id of an event of a resumable stream: which answer it belongs to, and how many
// tokens its client has seen: "3f2a9c0d1b7e4455-18". It counts tokens and not events, since another
// process may split the same text into other events. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::coordinator::http {

struct EventId {
  std::uint64_t answer = 0;  // a hash of owner, request and model
  // A number a choice, written with dots between: 0 before anything, 1 + t after the role and the
  // text of t tokens, one more after its end.
  std::vector<std::uint32_t> told;
  bool usage = false;  // so is the chunk with the usage; written as a "u" at the end
  friend bool operator==(const EventId&, const EventId&) = default;
};

std::string event_id_text(const EventId& id);
// Nothing for any text that event_id_text() does not write, or with more than
// limits::kHttpSequences numbers.
std::optional<EventId> parse_event_id(std::string_view text);

}  // namespace hearth::coordinator::http
