// Lines that are redrawn repeatedly, in place on a terminal and below one another elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace hearth::cli {

using Lines = std::vector<std::string>;

struct WatchOptions {
  double interval_seconds = 1.0;
  std::uint64_t count = 0;  // pictures, then the end; 0: until the user ends it
  bool plain = false;       // one below the other even on a terminal, and errors on stderr alone
};

// Draws pictures until the end; returns the exit code. The first picture must succeed. When a later
// one gets no answer, the last good picture stays with the error below it.
int watch(const WatchOptions& options, const std::function<Result<Lines>()>& picture);
// The bytes that draw the lines on a terminal of that size over what stands there.
std::string screen_bytes(const Lines& lines, std::size_t columns, std::size_t rows);

}  // namespace hearth::cli
