// PortMapping: keeps an outside port of the home's router for the data links of a worker that the
// coordinator sees behind a router. Each request is a process of its own (`hearth map-port`), which
// has bounds on memory and time.
//
// Threads: start() and outside_port() on any thread. The processes run beside them, one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/worker_thread.h"

namespace hearth::cli {

class PortMapping {
 public:
  // `port`: of this machine, above 0. `gateway`: as of ask_router().
  explicit PortMapping(std::uint16_t port, std::string gateway = {});

  // Asks the router, and again before its answer ends, or later where it gives none. Idempotent.
  void start();
  // 0: the router forwards none.
  std::uint16_t outside_port() const { return outside_.load(std::memory_order_relaxed); }

 private:
  void ask();
  // The output of the process; empty: it failed, or was ended because it took too long.
  std::string run_process();

  const std::uint16_t port_;
  const std::string gateway_;
  std::atomic<bool> started_{false};
  std::atomic<std::uint16_t> outside_{0};
  bool told_ = false;  // that the router gives no port
  WorkerThread thread_;
};

}  // namespace hearth::cli
