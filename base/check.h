// INVARIANT: reports a mistake of our own. Active in every build; prints a backtrace and aborts.
// No byte from a peer, a file or a client may reach one: input is checked with REQUIRE (result.h).
#pragma once

namespace hearth {

[[noreturn]] void invariant_failed(const char* file, int line, const char* condition,
                                   const char* message);

}  // namespace hearth

#define INVARIANT(condition, message)                                      \
  do {                                                                     \
    if (!(condition)) [[unlikely]]                                         \
      ::hearth::invariant_failed(__FILE__, __LINE__, #condition, message); \
  } while (0)
