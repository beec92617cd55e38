// A course of execution with a stack of its own that changes places with others of one host thread.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>

namespace hearth::emulated {

class Fiber {
 public:
  Fiber() = default;  // the host thread's own, once it has changed to another
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next change to it calls `entry`, which must not return, on that stack.
  void begin(std::byte* stack, std::size_t bytes, void (*entry)());
  // Of the one that runs: goes on at `to`, and returns when somebody changes back.
  void change(Fiber& to);

 private:
  ucontext_t context_;
  jmp_buf at_;
  bool begins_ = false;
};

}  // namespace hearth::emulated
