#include "proto/away.h"

#include <algorithm>

#include "base/limits.h"
#include "proto/control.pb.h"

namespace hearth {

void write_away(const Away& away, control::v1::Away& message) {
  message.set_drain(away.drain);
  message.set_until(away.until);
  message.set_why(away.why);
}

Away read_away(const control::v1::Away& message) {
  Away away;
  away.drain = message.drain();
  away.until = std::max<std::int64_t>(0, message.until());
  away.why = message.why().substr(0, limits::kReasonBytes);
  std::erase_if(away.why, [](char c) { return c < ' ' || c > '~'; });
  return away;
}

}  // namespace hearth
