// Measuring: measures the speed of this machine once, on a thread of its own so that heartbeats go
// on, and never while the worker is paused.
//
// Threads: everything on the main thread except the measurement.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "base/result.h"
#include "node/stage_options.h"

namespace hearth::node {

class Measuring {
 public:
  // Called on its own thread; ends soon with kCancelled once `cancelled` returns true.
  using Measure = std::function<Result<Measured>(const std::function<bool()>& cancelled)>;
  using Done = std::function<void(const Measured&)>;
  // Runs a function on the main thread, later; never after the destructor.
  using Post = std::function<void(std::function<void()>)>;

  Measuring(Measure measure, Post post);
  ~Measuring();  // cancels a measurement and waits for it
  Measuring(const Measuring&) = delete;
  Measuring& operator=(const Measuring&) = delete;

  // Calls `done` on the main thread, at once when the result is known. A later `done` replaces one
  // that still waits. When measuring fails, `done` is never called.
  void ask(Done done);
  // Away cancels a measurement under way, which begins again afterwards.
  void set_away(bool away);
  // Whether a measurement runs now and holds memory.
  bool works() const { return works_; }

 private:
  void begin();
  void end(Result<Measured> measured);

  const Measure measure_;
  const Post post_;
  std::optional<Measured> measured_;
  Done done_;
  bool away_ = false;
  bool works_ = false;
  std::atomic<bool> cancelled_{false};
  std::thread thread_;
};

}  // namespace hearth::node
