// hearth run: one prompt, or a chat, through a swarm or in this process alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "proto/step.h"

namespace hearth::cli {

struct RunOptions {
  std::string model;                // a served model's name, or a file or pulled name with --local
  std::vector<std::string> prompt;  // joined by spaces; empty: stdin, or a chat on a terminal
  bool local = false;
  std::string api_base;  // http://127.0.0.1:11500
  std::string api_key;   // empty: none
  std::string system;
  bool raw = false;  // the prompt as it is, without the chat template
  bool ignore_eos = false;
  bool token_ids = false;    // print ids instead of text
  std::string hashes_file;   // JSON lines, one a stage and position
  std::string receipt_file;  // what `hearth verify` needs (saved_answer.h)
  bool verbose = false;
  bool json = false;

  std::uint32_t max_tokens = 0;  // 0: to the end of the context, at most 4096
  float temperature = 0.8F;
  std::uint32_t top_k = 40;
  float top_p = 0.95F;
  float min_p = 0.0F;
  float repetition_penalty = 1.0F;
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  std::optional<std::int64_t> seed;  // absent: a random one, printed with --verbose
  std::vector<std::string> stop;

  std::uint32_t stages = 1;        // --local: as many engines, one after the other
  std::uint32_t threads = 0;       // --local: 0 = all cores
  std::uint64_t memory_bytes = 0;  // --local: 0 = what the machine has available
  std::string device = "auto";     // --local: cli/worker/device.h
  double timeout_seconds = 0.0;
  bool no_resume = false;          // ends with its connection; the server keeps nothing of it
  std::vector<std::string> trust;  // nodes of which all stages must be; empty: the key's, or any
  std::string verify;              // none, spot, full; empty: the server's
  bool verify_strict = false;      // refused where nobody could verify it
  std::string min_level;           // of nodes that may see it; empty: the server's
  bool share = false;              // newcomers may compute it again
};

int run_run(RunOptions options);

// The words of --verbose, on stderr, with ollama's names.
struct RunFigures {
  double total_seconds = 0.0;
  double load_seconds = 0.0;
  std::uint32_t prompt_tokens = 0;
  double prompt_seconds = 0.0;
  std::uint32_t generated_tokens = 0;
  double generated_seconds = 0.0;
  std::uint64_t seed = 0;
  std::optional<std::int64_t> credits = {};  // that the answer costs
};
void print_figures(const RunFigures& figures);

}  // namespace hearth::cli
