// Choice: one sequence of an answer, from sampled tokens to text: detokenised, stop strings cut
// off, and gathered into parts that may be sent. A plain state machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/http/requests.h"
#include "coordinator/http/responses.h"
#include "coordinator/http/stop_strings.h"
#include "model/tokenizer.h"

namespace hearth::coordinator::http {

class Choice {
 public:
  // `prompt`: of this choice. `echo`: text that comes before the generated one.
  Choice(std::uint32_t index, const GenerationRequest& request, const std::vector<TokenId>& prompt,
         std::string echo, std::shared_ptr<const model::Tokenizer> tokenizer);

  // Takes one token; true when something may be sent: new text, or the end.
  bool push(const SampledToken& token);

  bool done() const { return !finish_reason_.empty(); }
  // A stop string ended it: the sequence itself is to be cancelled.
  bool stopped_by_text() const { return matcher_.matched(); }
  const std::string& finish_reason() const { return finish_reason_; }
  std::uint64_t tokens() const { return tokens_; }

  // Everything since the last call. finish_reason is set once done().
  ChoicePart take();

 private:
  std::uint32_t index_;
  bool logprobs_;
  bool token_ids_;
  model::Detokenizer detokenizer_;
  StopMatcher matcher_;
  ChoicePart part_;
  std::uint64_t tokens_ = 0;
  std::string finish_reason_;
  std::shared_ptr<const model::Tokenizer> tokenizer_;
};

}  // namespace hearth::coordinator::http
