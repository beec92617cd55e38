// Answerer: asks one prompt and streams its answer, through the API of a swarm (swarm_answer.cc) or
// in this process (local_answer.cc). Both pass every sampling parameter, so that both compute the
// same function.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/run/run.h"
#include "coordinator/client/verified.h"
#include "coordinator/http/server.h"
#include "model/chat_template.h"
#include "model/gguf/gguf.h"

namespace hearth::cli {

struct Question {
  std::vector<model::ChatMessage> messages;  // a chat; empty for a raw prompt
  std::string raw_prompt;
  std::uint64_t seed = 0;
};

// What a user types; `history` precedes it, unless options.raw.
Question question_of(const RunOptions& options, const std::vector<model::ChatMessage>& history,
                     const std::string& text);

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
  client::Verified verified;
  std::string receipt;  // its name, as the API's hearth.receipt; empty where it has none
  std::string saved;    // a saved_answer.h file; empty where the answer has no receipt
};

// When an answer began, and when the first and the last of its tokens came.
class AnswerTimes {
 public:
  double seconds() const { return since(begun_, clock_.now()); }  // so far
  void on_token() {
    last_ = clock_.now();
    if (first_ == TimePoint{}) first_ = last_;
  }
  void write(RunFigures& figures) const {
    figures.total_seconds = seconds();
    if (first_ == TimePoint{}) return;
    figures.prompt_seconds = since(begun_, first_);
    figures.generated_seconds = since(first_, last_);
  }

 private:
  static double since(TimePoint from, TimePoint to) {
    return std::chrono::duration<double>(to - from).count();
  }
  SystemClock clock_;
  TimePoint begun_ = clock_.now();
  TimePoint first_{};
  TimePoint last_{};
};

class Answerer {
 public:
  virtual ~Answerer() = default;
  // Calls on_text with each piece as it arrives; `verified` may retract them. Ctrl-C ends the
  // answer with "cancelled" in finish_reason and the text so far. kTimeout after
  // options.timeout_seconds.
  virtual Result<Answer> ask(const RunOptions& options, const Question& question,
                             const std::function<void(std::string_view)>& on_text) = 0;
};

std::unique_ptr<Answerer> swarm_answerer();
// The interactive chat; the exit code.
int chat_loop(RunOptions options, Answerer& answerer);
// Loads the model; from then on options.model, stages and threads are fixed.
Result<std::unique_ptr<Answerer>> local_answerer(const RunOptions& options);
// The shape, tokenizer and chat template of a file's model, which turn a request into tokens and
// tokens into text. `chat_template`: a file with another template, or empty.
Result<coordinator::http::ServedModel> read_texts(const model::GgufFile& file,
                                                  const std::string& chat_template);
// Prints the state of verification on stderr. True when a corrected answer is to be printed after
// it.
bool print_verified(const client::Verified& verified);
Error answer_timed_out(const RunOptions& options);

}  // namespace hearth::cli
