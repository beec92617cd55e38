// Away: a worker's owner, or an admin, takes the worker out of placement for now. The worker
// reports it, and every status shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hearth {

namespace control::v1 {
class Away;
}

struct Away {
  // True: the worker serves its pipelines until other nodes replace it or the sequences end. False:
  // it stops at once, and the owner has the memory at the next step.
  bool drain = false;
  std::int64_t until = 0;  // seconds since 1970; 0: until a later order
  std::string why;         // a few words
  friend bool operator==(const Away&, const Away&) = default;
};

// The `why` of an admin's order. Every other text counts as the owner's.
inline constexpr const char* kAwayByAdmin = "an admin of the cluster";

void write_away(const Away& away, control::v1::Away& message);
// A negative `until` becomes 0. `why` is cut to limits::kReasonBytes and to the bytes that a
// terminal shows.
Away read_away(const control::v1::Away& message);

// The same for an optional field of a message.
template <typename Message>
std::optional<Away> away_of(const Message& message) {
  if (!message.has_away()) return std::nullopt;
  return read_away(message.away());
}

}  // namespace hearth
