// hearth-measure hashes: prints the canonical hashes of one fixed run. Stdout is equal on every
// machine, so that diff compares two of them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "cli/command/verbs.h"

namespace hearth::cli {

struct HashesOptions {
  std::string model;          // file or pulled name
  std::string prompt;         // text; empty: `tokens` fixed token ids
  std::uint32_t tokens = 64;  // of the prompt
  std::uint32_t generate = 16;
  std::uint32_t stages = 0;    // 0: one a layer, so that every boundary is hashed
  std::uint32_t threads = 0;   // 0: all cores
  std::string device = "cpu";  // cli/worker/device.h
  bool each = false;           // every hash, not only one digest a boundary
  bool json = false;
};

int run_hashes(const HashesOptions& options);
void add_hashes(CLI::App& app, Action& action);

}  // namespace hearth::cli
