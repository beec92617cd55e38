// pause(): some tens of nanoseconds of a loop that waits for another processor. It leaves that
// processor, and a second thread of this one, more of the memory and the units that both share.
#pragma once

namespace hearth {

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace hearth
