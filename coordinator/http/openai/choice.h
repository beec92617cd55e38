// Choice: one sequence of an answer, from sampled tokens to text. It detokenises, cuts at stop
// strings, and separates content, thoughts and calls of a chat. It keeps everything, so that any
// number of clients can get it from any token on. A plain state machine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/http/openai/requests.h"
#include "coordinator/http/openai/responses.h"
#include "model/chat/parser.h"
#include "model/text/stop_strings.h"
#include "model/text/tokenizer.h"

namespace hearth::coordinator::http {

// How the answer of a chat is read. Without a syntax all of it is content.
struct AnswerForm {
  std::shared_ptr<const model::ChatSyntax> syntax = nullptr;
  std::string prompt_tail = {};  // of the chat's prompt: model::AnswerRules
  // Id of the answer; ids of calls are derived from it when the model gives none.
  std::string name = {};
};

class Choice {
 public:
  // `echo`: text that precedes the generated text.
  Choice(std::uint32_t index, const GenerationRequest& request, const std::vector<TokenId>& prompt,
         std::string echo, std::shared_ptr<const model::Tokenizer> tokenizer, AnswerForm form = {});

  // Takes the log probability of a token of the prompt, which an echo tells.
  void score(SampledToken token);
  // Takes the embedding of the prompt.
  void embed(std::vector<float> values) {
    embedding_ = std::make_shared<const std::vector<float>>(std::move(values));
  }
  // Takes one token. True when something may be sent: new text, or the end.
  bool push(const SampledToken& token);

  std::uint32_t index() const { return index_; }
  bool done() const { return !finish_reason_.empty(); }
  // A stop string ended it: the caller cancels the sequence.
  bool stopped_by_text() const { return matcher_.matched(); }
  const std::string& finish_reason() const { return finish_reason_; }
  std::uint32_t tokens() const { return static_cast<std::uint32_t>(ids_.size()); }
  std::uint32_t reasoning_tokens() const;  // up to the last one that the model thought with
  const std::vector<TokenId>& token_ids() const { return ids_; }
  std::size_t bytes() const;  // of memory, about

  // The part from token `from` on; with 0 the echo, too. Without role and finish reason.
  ChoicePart part(std::uint32_t from) const;

 private:
  std::uint32_t index_;
  bool logprobs_wanted_;
  bool ids_wanted_;
  bool chat_;
  bool only_prompt_;
  model::Detokenizer detokenizer_;
  model::StopMatcher matcher_;
  // The ends of the parts that are shown with a token.
  struct Ends {
    std::size_t text = 0;
    std::size_t reasoning = 0;
    std::size_t calls = 0;
  };

  std::string shown_by(TokenId token);
  void show(model::AnswerPart part);

  std::optional<model::AnswerParser> parser_;
  std::vector<std::string> marks_;  // special tokens that spell these are shown to the parser
  std::string name_;
  std::string text_;
  std::string reasoning_;
  std::vector<ToolCallPart> calls_;
  std::vector<Ends> ends_;  // by token
  std::vector<TokenId> ids_;
  std::vector<SampledToken> prompt_logprobs_;  // of an echo, by token of the prompt
  std::uint64_t prompt_characters_ = 0;        // of them
  // If requested, by token; without the end token, unless the prompt is scored as well.
  std::vector<SampledToken> logprobs_;
  std::vector<std::uint64_t> offsets_;  // of a completion, by token: characters up to its end
  std::shared_ptr<const std::vector<float>> embedding_;
  std::string finish_reason_;
  std::shared_ptr<const model::Tokenizer> tokenizer_;
};

}  // namespace hearth::coordinator::http
