// What a running server and this machine's disk have: status, ps, ls, show.
#pragma once

#include <cstdint>
#include <string>

namespace hearth::cli {

struct StatusOptions {
  std::string api_base;
  std::string api_key;  // empty: none
  bool json = false;
  double wait_seconds = 0.0;  // until a prompt would be answered; 0: do not wait
  bool watch = false;         // again and again
  double interval_seconds = 1.0;
  std::uint64_t count = 0;  // pictures, then the end; 0: until q or Ctrl-C
};

int run_status(const StatusOptions& options);  // nodes and the layers they hold
int run_ps(const StatusOptions& options);      // models being served
int run_ls(bool json);                         // models on this disk
int run_show(const std::string& model, bool json);

}  // namespace hearth::cli
