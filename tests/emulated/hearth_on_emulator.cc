// The program, on a machine with HEARTH_EMULATED_CARDS emulated cards, or one. Of each,
// HEARTH_EMULATED_MEMORY is the memory in bytes, HEARTH_EMULATED_CAPABILITY the major number of its
// compute capability. HEARTH_EMULATED_DRIVER_FAULT is the error of a driver that does not work.
// SIGUSR2 loses the card at its next operation, SIGRTMIN changes a bit of its newest memory there,
// SIGRTMIN+1 has the log say how much of its memory is used.
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cli/command/command_line.h"
#include "tests/emulated/emulated_runtime.h"

namespace {

// Before any other thread starts, so that none of them is asked.
void take_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  sigaddset(&set, SIGRTMIN);
  sigaddset(&set, SIGRTMIN + 1);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread([set] {
    for (int signal = 0; sigwait(&set, &signal) == 0;) {
      if (signal == SIGUSR2) {
        hearth::emulated::fail_soon();
      } else if (signal == SIGRTMIN + 1) {
        std::fprintf(stderr, "emulated card of %d: %llu bytes used\n", static_cast<int>(getpid()),
                     static_cast<unsigned long long>(hearth::emulated::memory_used()));
      } else {
        hearth::emulated::flip_bit_soon();
      }
    }
  }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  if (const char* cards = std::getenv("HEARTH_EMULATED_CARDS")) {
    hearth::emulated::set_count(static_cast<std::uint32_t>(std::stoul(cards)));
  }
  if (const char* bytes = std::getenv("HEARTH_EMULATED_MEMORY")) {
    hearth::emulated::set_memory(std::stoull(bytes));
  }
  if (const char* major = std::getenv("HEARTH_EMULATED_CAPABILITY")) {
    hearth::emulated::set_capability(static_cast<std::uint32_t>(std::stoul(major)), 0);
  }
  if (const char* words = std::getenv("HEARTH_EMULATED_DRIVER_FAULT")) {
    hearth::emulated::set_driver_fault(words);
  }
  take_signals();
  hearth::cli::CommandLine line(hearth::cli::add_all_verbs);
  return line.run(std::vector<std::string>(argv + 1, argv + argc));
}
