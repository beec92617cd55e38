// Where it is on, longjmp refuses to go to another stack.
#undef _FORTIFY_SOURCE

#include "tests/emulated/fiber.h"

namespace hearth::emulated {

void Fiber::begin(std::byte* stack, std::size_t bytes, void (*entry)()) {
  ::getcontext(&context_);
  context_.uc_stack.ss_sp = stack;
  context_.uc_stack.ss_size = bytes;
  context_.uc_link = nullptr;
  ::makecontext(&context_, entry, 0);
  begins_ = true;
}

#if defined(__SANITIZE_ADDRESS__)
// The address sanitizer follows this one alone from stack to stack.
void Fiber::change(Fiber& to) { ::swapcontext(&context_, &to.context_); }
#else
// swapcontext asks the kernel for the signal mask each time, which costs more than most of what a
// fiber does between two changes.
void Fiber::change(Fiber& to) {
  if (::_setjmp(at_) != 0) return;
  if (!to.begins_) ::_longjmp(to.at_, 1);
  to.begins_ = false;
  ::setcontext(&to.context_);
}
#endif

}  // namespace hearth::emulated
