// hearth serve: the coordinator's process, with its API and, when asked, local workers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "coordinator/coordinator.h"
#include "placement/problem.h"

namespace hearth::cli {

struct ServeOptions {
  // Files, pulled names or folders. Of several models, machines that joined hold one at a time.
  std::vector<std::string> models;
  std::uint32_t loaded_models = 0;  // the most that are loaded at once; 0: what the memory holds
  std::string model_id;             // as clients name it; empty: from the file's name
  std::string chat_template;        // a file; empty: the model's own
  // Workers of this machine. A single one of a cluster has the machine's name.
  std::uint32_t local_workers = 1;
  // How layers are placed: for an objective, by measurements; in equal shares for this many stages;
  // or by hand. If nothing is given: for Objective::kAuto.
  std::uint32_t stages = 0;  // 0, with an objective: as many as are best
  std::optional<placement::Objective> optimise;
  std::vector<coordinator::HandStage> by_hand;
  std::uint32_t ranks = 1;              // of each stage; 0: as many as are best
  std::string host = "127.0.0.1";       // beyond loopback the API asks for keys (hearth key)
  std::vector<std::string> host_names;  // of this machine, beside its host name
  std::uint16_t port = 11'500;          // API; 0: any free one
  std::uint16_t control_port = 0;       // workers dial it; 0: any free one
  std::uint16_t data_port = 0;          // of the last stage's answers; 0: any free one
  std::string data_dir;                 // empty: cli/process/paths.h
  std::string store;                    // URL of PostgreSQL; empty: the data folder's store
  std::uint32_t worker_threads = 0;     // of each local worker; 0: every core
  bool pin = false;                     // likewise: cli/worker/worker.h
  std::uint64_t kv_budget_bytes = 0;    // likewise; 0: its default
  std::uint64_t memory_bytes = 0;       // likewise, of everything; 0: share what there is
  std::string device = "auto";          // likewise: worker_devices() in cli/worker/device.h
  // An emulation: shape and quant stand in place of models, and each local worker emulates one GPU
  // (cli/worker/emulation.h).
  std::string shape;
  std::string quant;
  std::string emulate;
  std::uint32_t batch_rows = 512;
  std::uint32_t itl_target_ms = 0;  // node/runner/prompt_pace.h; 0: its default
  // A second, that this process forwards for workers that cannot connect to each other; 0: nothing.
  std::uint32_t relay_megabits = limits::kOwnRelayMegabits;
  bool no_announce = false;      // of the cluster to this network: cli/home/announcements.h
  bool no_prefix_cache = false;  // no prompt is computed with what an earlier one left
  bool no_resume = false;        // of answers after a restart: no request is written to disk
  bool no_speculation = false;   // no tokens are drafted
  std::string draft;             // likewise, of each local worker: cli/worker/worker.h
  bool no_receipts = false;      // none are made of what is computed, and no ledger is kept
  coordinator::AuditMode audits = coordinator::AuditMode::kSpot;
  // The share of windows that this machine itself recomputes, in parts of a million; 0: none.
  std::int64_t referee_rate = ledger::Policy().coordinator_rate;
  // Defaults for requests that set neither: how they are verified, and which nodes may see them.
  coordinator::Verify verify = coordinator::Verify::kNone;
  ledger::Level min_level = ledger::Level::kNewcomer;
  std::string log_level = "info";
  bool detach = false;       // goes on in the background
  bool no_log_file = false;  // but stderr alone: cli/process/process_log.h
};

// Until SIGINT or SIGTERM; running streams then end with an error event.
int run_serve(const ServeOptions& given);

}  // namespace hearth::cli
