#include "cli/terminal/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

#include "cli/terminal/exit_codes.h"

namespace hearth::cli {
namespace {

std::atomic<int> pending{0};
std::atomic<void (*)()> forced_end{nullptr};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<void (*)()>::is_always_lock_free,
              "used inside a signal handler");

void on_interrupt(int) {
  if (pending.fetch_add(1) == 0) return;
  if (void (*const restore)() = forced_end.load(); restore != nullptr) restore();
  _exit(kExitInterrupted);
}

}  // namespace

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;  // without SA_RESTART: a waiting read returns
  sigaction(SIGINT, &action, nullptr);
}
bool interrupted() { return pending.load() > 0; }
void clear_interrupt() { pending.store(0); }
void on_forced_end(void (*restore)()) { forced_end.store(restore); }

}  // namespace hearth::cli
