// hearth-measure soak: the exactness property over many tokens.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/command/verbs.h"

namespace hearth::cli {

struct SoakFlags {
  std::vector<std::string> models;  // files or pulled names, besides the random ones
  std::uint64_t tokens = 1'000'000;
  std::uint64_t seed = 1;
  std::uint32_t workers = 0;   // 0: one a core
  std::string device = "cpu";  // cli/worker/device.h; of the crowds, while the processor runs alone
  bool json = false;
};

int run_soak(const SoakFlags& options);
void add_soak(CLI::App& app, Action& action);

}  // namespace hearth::cli
