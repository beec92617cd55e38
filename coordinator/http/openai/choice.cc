#include "coordinator/http/openai/choice.h"

#include <algorithm>
#include <utility>

namespace hearth::coordinator::http {

Choice::Choice(std::uint32_t index, const GenerationRequest& request,
               const std::vector<TokenId>& prompt, std::string echo,
               std::shared_ptr<const model::Tokenizer> tokenizer)
    : index_(index),
      logprobs_wanted_(request.sampling.logprobs),
      ids_wanted_(request.return_token_ids),
      chat_(request.chat),
      detokenizer_(tokenizer, false),
      matcher_(request.stop),
      text_(std::move(echo)),
      tokenizer_(std::move(tokenizer)) {
  // A completion goes on after its prompt: the space that SentencePiece strips from the first token
  // of a text belongs to it. A chat answer begins a text of its own.
  if (!chat_ && !prompt.empty()) detokenizer_.push(prompt.back());
}

bool Choice::push(const SampledToken& token) {
  if (done()) return false;
  ids_.push_back(token.token);
  const bool end_token = token.finish == FinishReason::kStop;
  std::string shown;
  if (!end_token) {
    shown = matcher_.push(detokenizer_.push(token.token));
    if (logprobs_wanted_) {
      logprobs_.push_back(token);
      if (!chat_) {
        const std::size_t characters = utf8_characters(tokenizer_->token_bytes(token.token, false));
        offsets_.push_back((offsets_.empty() ? 0 : offsets_.back()) + characters);
      }
    }
  }
  if (token.finish != FinishReason::kNone) {
    shown += matcher_.push(detokenizer_.finish());
    shown += matcher_.finish();
    finish_reason_ = end_token ? "stop" : "length";
  }
  if (matcher_.matched()) finish_reason_ = "stop";
  text_ += shown;
  ends_.push_back(text_.size());
  return !shown.empty() || done();
}

ChoicePart Choice::part(std::uint32_t from) const {
  ChoicePart out;
  out.index = index_;
  out.with_logprobs = logprobs_wanted_;
  out.with_token_ids = ids_wanted_;
  const std::size_t first = std::min<std::size_t>(from, ids_.size());
  out.text = text_.substr(first == 0 ? 0 : ends_[first - 1]);
  if (ids_wanted_)
    out.token_ids.assign(ids_.begin() + static_cast<std::ptrdiff_t>(first), ids_.end());
  const std::size_t told = std::min(first, logprobs_.size());
  out.logprobs.assign(logprobs_.begin() + static_cast<std::ptrdiff_t>(told), logprobs_.end());
  out.text_offset = told == 0 || offsets_.empty() ? 0 : offsets_[told - 1];
  return out;
}

std::size_t Choice::bytes() const {
  std::size_t bytes = text_.size() + ids_.size() * (sizeof(std::size_t) + sizeof(TokenId));
  for (const SampledToken& token : logprobs_) {
    bytes += sizeof token + token.top.size() * sizeof(TokenLogprob);
  }
  return bytes;
}

}  // namespace hearth::coordinator::http
