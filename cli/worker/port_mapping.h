// PortMapping: keeps an outside port of the home's router for the data links of a worker that the
// coordinator sees behind a router. Each request is a process of its own (`hearth map-port`), which
// has bounds on memory and time.
//
// Threads: want() on one thread, outside_port() on any. The processes run beside them, one at a
// time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "base/worker_thread.h"

namespace hearth::cli {

class PortMapping {
 public:
  // `port`: of this machine, above 0.
  explicit PortMapping(std::uint16_t port);

  // Of each new session with the coordinator. True: asks the router now, because the machine may be
  // in another network, and again before its answer ends, or later where it gives no port. False:
  // asks no more.
  void want(bool wanted);
  // 0: the router forwards none.
  std::uint16_t outside_port() const { return outside_.load(std::memory_order_relaxed); }

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  void ask(std::uint64_t round);
  // The output of the process; empty: it failed, or was ended because it took too long.
  std::string run_process();

  const std::uint16_t port_;
  std::atomic<std::uint64_t> round_{0};  // of want(); 0 and even numbers: nothing is wanted
  std::atomic<std::uint16_t> outside_{0};
  SteadyTime until_{};  // the router forwards the port
  bool told_ = false;   // that it gives none
  WorkerThread thread_;
};

}  // namespace hearth::cli
