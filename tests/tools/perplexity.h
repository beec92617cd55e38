// hearth-measure perplexity: how well a model predicts a text, by llama-perplexity's definition,
// and how far its distribution lies from that of another run.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "cli/command/verbs.h"

namespace hearth::cli {

struct PerplexityOptions {
  std::string model;          // file or pulled name
  std::string text;           // file
  std::uint32_t context = 0;  // 0: that of the base, else 512
  std::uint32_t chunks = 0;   // windows at most; 0: all
  std::uint32_t threads = 0;  // 0: all cores
  std::string kl_base;        // file to compare with; empty: none
  std::string save_base;      // file to write; empty: none
  bool json = false;
};

int run_perplexity(const PerplexityOptions& options);
void add_perplexity(CLI::App& app, Action& action);

}  // namespace hearth::cli
