// Measuring: measures the speed of this machine once, on a thread of its own so that heartbeats go
// on, and never while the worker is paused.
//
// Threads: everything on the owner's thread but the measurement.
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
  // On its own thread; gives up soon, with kCancelled, once `cancelled` says so.
  using Measure = std::function<Result<Measured>(const std::function<bool()>& cancelled)>;
  using Done = std::function<void(const Measured&)>;
  // Runs a function on the owner's thread, later; never after the destructor.
  using Post = std::function<void(std::function<void()>)>;

  Measuring(Measure measure, Post post);
  ~Measuring();  // waits for what is under way to give up
  Measuring(const Measuring&) = delete;
  Measuring& operator=(const Measuring&) = delete;

  // `done` comes on the owner's thread, at once where it is known. It takes the place of an earlier
  // one that has heard nothing, and hears nothing itself where measuring fails.
  void ask(Done done);
  // Away, what is under way is given up; it begins anew afterwards.
  void set_away(bool away);
  // Something is measured now, and in memory.
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
