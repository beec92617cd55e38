// The program, on a machine with one emulated card. HEARTH_EMULATED_MEMORY is its memory in bytes,
// HEARTH_EMULATED_CAPABILITY the major number of its compute capability.
// SIGUSR2 loses the card at its next operation, SIGRTMIN changes a bit of its newest memory there.
#include <pthread.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cli/command_line.h"
#include "tests/emulated/emulated_runtime.h"

namespace {

// Before any other thread starts, so that none of them is asked.
void take_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  sigaddset(&set, SIGRTMIN);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread([set] {
    for (int signal = 0; sigwait(&set, &signal) == 0;) {
      if (signal == SIGUSR2) {
        hearth::emulated::fail_soon();
      } else {
        hearth::emulated::flip_bit_soon();
      }
    }
  }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  if (const char* bytes = std::getenv("HEARTH_EMULATED_MEMORY")) {
    hearth::emulated::set_memory(std::stoull(bytes));
  }
  if (const char* major = std::getenv("HEARTH_EMULATED_CAPABILITY")) {
    hearth::emulated::set_capability(static_cast<std::uint32_t>(std::stoul(major)), 0);
  }
  take_signals();
  hearth::cli::CommandLine line(hearth::cli::add_all_verbs);
  return line.run(std::vector<std::string>(argv + 1, argv + argc));
}
