// That a worker's machine is its owner's for now: what the worker says of it, and everybody shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hearth {

namespace control::v1 {
class Away;
}

struct Away {
  // What is served goes on until others take it over or it is over. Else nothing is served: the
  // memory is the owner's at the next step.
  bool drain = false;
  std::int64_t until = 0;  // seconds since 1970; 0: until somebody says otherwise
  std::string why;         // a few words
  friend bool operator==(const Away&, const Away&) = default;
};

// `why` of an order that an admin of the cluster gave. Every other one is the owner's.
inline constexpr const char* kAwayByAdmin = "an admin of the cluster";

void write_away(const Away& away, control::v1::Away& message);
// A moment before 1970 becomes none; of the words at most limits::kReasonBytes stay, and of
// those the ones that a terminal shows.
Away read_away(const control::v1::Away& message);

// Of an optional field of a message.
template <typename Message>
std::optional<Away> away_of(const Message& message) {
  if (!message.has_away()) return std::nullopt;
  return read_away(message.away());
}

}  // namespace hearth
