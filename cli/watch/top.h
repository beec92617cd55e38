// hearth top: the swarm at work, drawn again every second.
#pragma once

#include <cstdint>
#include <string>

namespace hearth::cli {

struct TopOptions {
  std::string api_base;
  std::string api_key;  // empty: none
  bool json = false;    // the server's answers, one a line
  double interval_seconds = 1.0;
  std::uint64_t count = 0;  // pictures, then the end; 0: until q or Ctrl-C
};

int run_top(const TopOptions& options);

}  // namespace hearth::cli
