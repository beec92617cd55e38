// A picture that is drawn again and again: in place on a terminal, one below the other elsewhere.
// One object at a time; what it changes of the terminal is put back by its destructor, and by a
// signal that ends the program.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace hearth::cli {

using Lines = std::vector<std::string>;

class Screen {
 public:
  // In place only where stdout is a terminal that can do it, and not when `plain`.
  explicit Screen(bool plain);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Lines without control characters.
  void draw(const Lines& lines);
  // False when the user has typed q or Ctrl-C by then.
  bool wait(std::chrono::milliseconds time);

 private:
  bool in_place_;
  bool keys_;
  bool drawn_ = false;
};

struct WatchOptions {
  double interval_seconds = 1.0;
  std::uint64_t count = 0;  // pictures, then the end; 0: until the user ends it
  bool plain = false;       // one below the other even on a terminal, and errors on stderr alone
};

// Draws pictures until the end; the exit code. The first one must succeed; of a later one that
// fails for want of an answer, the error stands below the last that did not.
int watch(const WatchOptions& options, const std::function<Result<Lines>()>& picture);

// The bytes that draw the lines on a terminal of that size over what stands there.
std::string screen_bytes(const Lines& lines, std::size_t columns, std::size_t rows);

}  // namespace hearth::cli
