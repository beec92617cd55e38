// One question, one streamed answer: through a swarm's API (swarm_answer.cc) or in this process
// (local_answer.cc). Both send every sampling parameter, so that both compute the same function.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/run/run.h"
#include "cli/verified.h"
#include "coordinator/http/server.h"
#include "model/chat_template.h"
#include "model/gguf/gguf.h"

namespace hearth::cli {

struct Question {
  std::vector<model::ChatMessage> messages;  // a chat; empty for a raw prompt
  std::string raw_prompt;
  std::uint64_t seed = 0;
};

struct HashLine {
  std::uint32_t step = 0;  // position in the sequence
  std::uint32_t stage = 0;
  std::uint32_t layer_begin = 0;
  std::uint32_t layer_end = 0;
  std::string in;
  std::string out;
};

struct Answer {
  std::string text;
  std::vector<TokenId> token_ids;
  std::string finish_reason;  // stop, length, or cancelled
  std::vector<HashLine> hashes;
  RunFigures figures;
  Verified verified;
  std::string receipt;  // its name, as the API's hearth.receipt; empty where it has none
  std::string saved;    // a saved_answer.h file; empty where the answer has no receipt
};

class Answerer {
 public:
  virtual ~Answerer() = default;
  // Calls on_text with each piece as it comes, which `verified` may take back; Ctrl-C ends the
  // answer with "cancelled" in finish_reason and what there is so far. kTimeout when
  // options.timeout_seconds have passed.
  virtual Result<Answer> ask(const RunOptions& options, const Question& question,
                             const std::function<void(std::string_view)>& on_text) = 0;
};

std::unique_ptr<Answerer> swarm_answerer();
// Loads the model; options.model, stages and threads are fixed from here on.
Result<std::unique_ptr<Answerer>> local_answerer(const RunOptions& options);

// What turns a request into the tokens that a file's model reads, and its tokens into text: the
// model's shape, tokenizer and chat template.
Result<coordinator::http::ServedModel> read_texts(const model::GgufFile& file);

// On stderr. True where the right answer is another one, which is to be printed behind it.
bool print_verified(const Verified& verified);

Error answer_timed_out(const RunOptions& options);

Status write_hashes(const std::string& path, const std::vector<HashLine>& hashes);

}  // namespace hearth::cli
