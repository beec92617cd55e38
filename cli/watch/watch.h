// hearth status, top, ps, ls, show, ping, logs, pause, resume and drain: show the swarm and this
// machine, and give orders to its workers. The result is the exit code. Data folders: empty means
// the default of cli/process/paths.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/terminal/screen.h"
#include "coordinator/client/swarm_view.h"

namespace hearth::cli {

struct StatusOptions {
  std::string host;      // as given; empty: this machine's server
  std::string api_base;  // by host
  std::string api_key;   // empty: none
  bool json = false;
  double wait_seconds = 0.0;  // until a prompt would be answered; 0: do not wait
  bool watch = false;         // again and again
  double interval_seconds = 1.0;
  std::uint64_t count = 0;  // pictures, then the end; 0: until q or Ctrl-C
};
Result<int> run_status(const StatusOptions& options);  // nodes and the layers they hold
Result<int> run_top(const StatusOptions& options);     // the working swarm, redrawn repeatedly
Result<int> run_ps(const StatusOptions& options);      // models being served
Result<int> run_ls(bool json);                         // models on this disk
Result<int> run_show(const std::string& model, bool json);

// The nodes with their layers and, while the swarm is not ready, the reason and what to add.
Lines status_lines(const client::SwarmView& view);
// The working nodes. `time`: the text to show.
Lines top_lines(const client::SwarmView& view, const std::string& api_base,
                const std::string& time);

struct PingOptions {
  std::string node;
  std::uint32_t count = 4;
  double interval_seconds = 1.0;  // between two probes
  bool no_rate = false;           // no bulk after them
  std::string data_dir;
  bool json = false;
};
// Measures round trips and throughput to a node, over links like those that carry activations.
// kExitUnreachable when no probe is answered.
Result<int> run_ping(const PingOptions& options);

struct LogsOptions {
  std::string node;  // a worker that has a file of its own; empty: the server, or the only one
  std::string data_dir;
  std::uint32_t lines = 0;  // so many lines from the end
  bool follow = false;      // continue with new lines, also after a rotation, until Ctrl-C
};
// The program that shows the end of a log file of this machine, and its arguments. kNotFound,
// naming the workers that have files, when the node has none.
Result<std::vector<std::string>> logs_command(const LogsOptions& options);
// Replaces this process by that program; returns only when it fails.
Result<int> run_logs(const LogsOptions& options);

struct PauseOptions {
  std::uint32_t seconds = 0;  // 0: until hearth resume
  std::string data_dir;
  // The name of a worker anywhere in the cluster, to which the server sends the order of an admin;
  // empty: the workers of this machine, as their owner.
  std::string node;
  std::string api_base;  // with a node
  std::string api_key;   // empty: none
};
// Here, both wait until the workers have freed their memory; else kTimeout.
Result<int> run_pause(const PauseOptions& options);
Result<int> run_drain(const PauseOptions& options);  // until what they serve is elsewhere or over
Result<int> run_resume(const PauseOptions& options);
// The order pause, drain or resume to options.node.
Result<int> order_node(const PauseOptions& options, const std::string& word);

}  // namespace hearth::cli
