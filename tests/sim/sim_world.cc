#include "tests/sim/sim_world.h"

#include <cstdio>

namespace hearth::sim {

void SimWorld::at(TimePoint when, std::function<void()> what) {
  queue_.push({when < now_ ? now_ : when, next_order_++, std::move(what)});
}

void SimWorld::run_until(TimePoint end) {
  while (!queue_.empty() && queue_.top().when <= end) {
    const Event event = queue_.top();
    queue_.pop();
    now_ = event.when;
    event.what();
  }
  now_ = end;
}

void SimWorld::trace(const std::string& line) {
  // FNV-1a over the time and the text.
  const std::string whole = std::to_string(now_.count()) + " " + line;
  for (const char c : whole) {
    trace_hash_ = (trace_hash_ ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  }
  if (print_) std::printf("%10.3f ms  %s\n", static_cast<double>(now_.count()) / 1e6, line.c_str());
}

}  // namespace hearth::sim
