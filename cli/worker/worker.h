// hearth worker: the process of one stage. Keeps connecting to the coordinator and serves layers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/spec.h"
#include "node/machine/availability.h"

namespace hearth::cli {

struct WorkerOptions {
  std::string model;  // file or pulled name; the coordinator must hold the same. May be empty, and
                      // is one place to look at, on a machine that has joined a cluster
  std::vector<std::string> model_folders;  // to look for the model's file, beside the usual ones
  bool offline = false;                    // fetch only from nodes of the cluster
  std::uint32_t connections = 4;           // at once, to fetch layers
  std::uint32_t stall_seconds = 10;        // without a byte, then a source is asked again
  bool json = false;                       // what is held and fetched, on stdout
  std::string coordinator;                 // its control address; empty: as data_dir says
  std::string data_dir;                    // empty: cli/process/paths.h
  std::string name;                        // unique in the swarm; empty: cli/home/member.h
  std::string listen;                      // data links; empty: cli/home/member.h
  std::uint32_t threads = 0;               // 0: all cores
  bool pin = false;                        // each thread on a cpu of its own, where there is one
  std::uint64_t kv_budget_bytes = 0;       // 0: kv_budget_or_default()
  std::uint64_t memory_bytes = 0;          // of everything; 0: what the machine has available
  std::string device = "auto";             // cli/worker/device.h
  std::string emulate;  // in place of a device: open_emulated_device() of cli/worker/emulation.h
  std::string shape;    // in place of a model: write_shape(), which takes both
  std::string quant;
  // File or pulled name of a model with the same vocabulary. It drafts tokens while this worker is
  // the first stage; empty: none.
  std::string draft;
  // The conditions that pause it automatically (node/machine/availability.h).
  bool no_pause_on_game = false;
  bool no_pause_on_battery = false;
  std::uint64_t pause_above = node::Triggers().foreign_memory;
  std::string hours;                 // empty: the whole day
  std::uint32_t relay_megabits = 0;  // a second, that it forwards for others; 0: it is no relay
  bool no_port_mapping = false;      // asks no router for an outside port
  std::string log_level = "info";
  bool no_log_file = false;  // but stderr alone: cli/process/process_log.h
};

// Until SIGINT or SIGTERM (0), until it is drained (0), or until the coordinator refuses it for
// good (kExitRefused), assigns it more than its memory holds (kExitNoCapacity), or its card is lost
// (kExitDevice). Does not start (kExitVerification) where the kernels or the card fail their
// self-test.
int run_worker(const WorkerOptions& options);
// KV memory of a worker on processors that is given none.
inline constexpr std::uint64_t kKvBytes = 512 << 20;
// What a worker is given, or the default. On a GPU that is more than any has: KV takes what weights
// and buffers leave.
std::uint64_t kv_budget_or_default(std::uint64_t given, bool on_gpu);
// Checks that a stage of these layers gets one KV page, and one state where sequences keep them;
// the error names the flag and the least budget.
Status check_kv_budget(std::uint64_t bytes, const model::ModelSpec& spec, LayerRange layers);

}  // namespace hearth::cli
