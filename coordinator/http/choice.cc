#include "coordinator/http/choice.h"

#include <utility>

#include "coordinator/http/logprobs.h"

namespace hearth::coordinator::http {

Choice::Choice(std::uint32_t index, const GenerationRequest& request,
               const std::vector<TokenId>& prompt, std::string echo,
               std::shared_ptr<const model::Tokenizer> tokenizer)
    : index_(index),
      logprobs_(request.sampling.logprobs),
      token_ids_(request.return_token_ids),
      detokenizer_(tokenizer, false),
      matcher_(request.stop),
      tokenizer_(std::move(tokenizer)) {
  // A completion goes on after its prompt: the space that SentencePiece strips from the first token
  // of a text belongs to it. A chat answer begins a text of its own.
  if (!request.chat && !prompt.empty()) detokenizer_.push(prompt.back());
  part_.index = index_;
  part_.first = request.chat;
  part_.text = std::move(echo);
}

bool Choice::push(const SampledToken& token) {
  if (done()) return false;
  ++tokens_;
  if (token_ids_) part_.token_ids.push_back(token.token);
  const bool end_token = token.finish == FinishReason::kStop;
  std::string shown;
  if (!end_token) {
    shown = matcher_.push(detokenizer_.push(token.token));
    if (logprobs_) part_.logprobs.push_back(token);
  }
  if (token.finish != FinishReason::kNone) {
    shown += matcher_.push(detokenizer_.finish());
    shown += matcher_.finish();
    finish_reason_ = end_token ? "stop" : "length";
  }
  if (matcher_.matched()) finish_reason_ = "stop";
  part_.text += shown;
  return !shown.empty() || done();
}

ChoicePart Choice::take() {
  ChoicePart out = std::move(part_);
  out.with_logprobs = logprobs_;
  out.with_token_ids = token_ids_;
  out.finish_reason = finish_reason_;
  part_ = ChoicePart{};
  part_.index = index_;
  part_.text_offset = out.text_offset;
  for (const SampledToken& token : out.logprobs) {
    part_.text_offset += utf8_characters(tokenizer_->token_bytes(token.token, false));
  }
  return out;
}

}  // namespace hearth::coordinator::http
