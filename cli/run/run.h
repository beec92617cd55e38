// hearth run: one prompt, or a chat, through a swarm or in this process alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "proto/step.h"

namespace hearth::cli {

// Without the seed, which each prompt sets, and the stop tokens, which the model sets. max_tokens
// 0: to the end of the context, at most 4096.
inline SamplingParams default_sampling() {
  SamplingParams sampling;
  sampling.temperature = 0.8F;
  sampling.top_k = 40;
  sampling.top_p = 0.95F;
  sampling.max_tokens = 0;
  return sampling;
}

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

  SamplingParams sampling = default_sampling();
  std::optional<std::int64_t> seed;  // absent: a random one, printed with --verbose
  std::vector<std::string> stop;

  std::uint32_t stages = 1;        // --local: as many engines, one after the other
  std::uint32_t threads = 0;       // --local: 0 = all cores
  std::uint64_t memory_bytes = 0;  // --local: 0 = all memory that is available
  std::string device = "auto";     // --local: cli/worker/device.h
  std::string chat_template;       // --local: a file; empty: the model's own
  double timeout_seconds = 0.0;
  bool no_speculation = false;  // no tokens are drafted
  std::string draft;            // --local: file or pulled name of a draft model; empty: none
  bool no_resume = false;  // the request ends with its connection; the server stores nothing of it
  std::vector<std::string> trust;  // the only nodes that may compute it; empty: the key's, or any
  std::string verify;              // none, spot, full; empty: the server's
  std::string min_level;           // of nodes that may see it; empty: the server's
  bool share = false;              // newcomers may compute it again
};

Result<int> run_run(RunOptions options);  // the exit code
// Writes a saved_answer.h file with mode 0600, because it holds the prompt, the answer and the salt
// of its receipts, which only the client may know. kNotFound when there is nothing to write.
Status write_receipt(const std::string& path, const std::string& saved);
// The sampling parameters that a chat can change, with the limits of the flags. Names are those of
// the flags and of ollama, '-' as '_': temp and temperature, n, predict and num_predict.
// "/set temperature 0.5": changes options; the error message when it cannot. An empty "stop"
// forgets the stop strings.
Status set_parameter(RunOptions& options, const std::string& name, const std::string& value);
// "temperature        0.8  (from 0 to 100)", one a parameter.
std::vector<std::string> parameter_lines(const RunOptions& options);
std::vector<std::string> parameter_names();

// The words of --verbose, on stderr, with ollama's names.
struct RunFigures {
  double total_seconds = 0.0;
  double load_seconds = 0.0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;  // of them, that no worker computed
  double prompt_seconds = 0.0;
  std::uint32_t generated_tokens = 0;
  double generated_seconds = 0.0;
  std::uint64_t seed = 0;
  std::optional<std::int64_t> credits = {};  // that the answer costs
  DraftCounts drafts{};
};
void print_figures(const RunFigures& figures);

}  // namespace hearth::cli
