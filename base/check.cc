#include "base/check.h"

#include <execinfo.h>

#include <cstdio>
#include <cstdlib>

namespace hearth {

void invariant_failed(const char* file, int line, const char* condition, const char* message) {
  std::fprintf(stderr, "hearth: invariant broken at %s:%d: %s (%s)\n", file, line, condition,
               message);
  void* frames[64];
  const int count = backtrace(frames, 64);
  backtrace_symbols_fd(frames, count, 2);
  std::abort();
}

}  // namespace hearth
