// SimWorld: time, chance and the order of events of one simulated swarm. Everything that happens is
// an event in one queue, and everything random comes from one seed.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"

namespace hearth::sim {

class SimWorld final : public Clock {
 public:
  explicit SimWorld(std::uint64_t seed, bool print) : random_(seed), print_(print) {}

  TimePoint now() const override { return now_; }
  std::int64_t unix_seconds() const override {
    return 1'700'000'000 + now_.count() / 1'000'000'000;
  }
  Random& random() { return random_; }
  // Uniform in [low, high].
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + random_.next() % (high - low + 1);
  }
  bool chance(std::uint32_t percent) { return random_.next() % 100 < percent; }
  Duration microseconds(std::uint64_t low, std::uint64_t high) {
    return std::chrono::microseconds(between(low, high));
  }

  // Events of one moment happen in the order in which they were planned.
  void at(TimePoint when, std::function<void()> what);
  void after(Duration pause, std::function<void()> what) { at(now_ + pause, std::move(what)); }
  void run_until(TimePoint end);

  // Every line of the trace is part of its hash; printed when the seed is replayed by hand.
  void trace(const std::string& line);
  std::uint64_t trace_hash() const { return trace_hash_; }
  std::uint64_t events() const { return next_order_; }
  std::size_t pending() const { return queue_.size(); }

 private:
  struct Event {
    TimePoint when;
    std::uint64_t order;
    std::function<void()> what;
    bool operator>(const Event& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };

  SeededRandom random_;
  bool print_;
  TimePoint now_{};
  std::uint64_t next_order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  std::uint64_t trace_hash_ = 0xCBF29CE484222325ULL;
};

}  // namespace hearth::sim
