#include "coordinator/http/openai/choice.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/crypto.h"

namespace hearth::coordinator::http {
namespace {

constexpr std::size_t kCallIdBytes = 9;

}  // namespace

Choice::Choice(std::uint32_t index, const GenerationRequest& request,
               const std::vector<TokenId>& prompt, std::string echo,
               std::shared_ptr<const model::Tokenizer> tokenizer, AnswerForm form)
    : index_(index),
      logprobs_wanted_(request.sampling.logprobs),
      ids_wanted_(request.return_token_ids),
      chat_(request.chat),
      only_prompt_(request.only_prompt),
      detokenizer_(tokenizer, false),
      matcher_(request.stop),
      name_(std::move(form.name)),
      text_(std::move(echo)),
      tokenizer_(std::move(tokenizer)) {
  if (chat_ && form.syntax) {
    marks_ = form.syntax->marks();
    model::AnswerRules rules;
    if (request.tool_choice != ToolChoice::kNone) rules.tools = request.tools;
    rules.parallel_calls = request.parallel_tool_calls;
    rules.separate_reasoning = request.separate_reasoning;
    rules.prompt_tail = std::move(form.prompt_tail);
    parser_.emplace(std::move(form.syntax), std::move(rules));
  }
  // A completion continues its prompt, so it keeps the space that SentencePiece strips from the
  // first token of a text. A chat answer begins a text of its own.
  if (!chat_ && !prompt.empty()) detokenizer_.push(prompt.back());
  if (!request.scores_prompt()) return;
  for (const TokenId token : prompt) {
    SampledToken& one = prompt_logprobs_.emplace_back();
    one.token = token;
    one.logprob = -std::numeric_limits<float>::infinity();  // until its score comes
    prompt_characters_ += utf8_characters(tokenizer_->token_bytes(token, false));
  }
}

void Choice::score(SampledToken token) {
  INVARIANT(token.position > 0 && token.position < prompt_logprobs_.size(),
            "a score is of a token of the prompt behind the first");
  prompt_logprobs_[token.position] = std::move(token);
}

bool Choice::push(const SampledToken& token) {
  if (done()) return false;
  ids_.push_back(token.token);
  const bool end_token = token.finish == FinishReason::kStop;
  std::string shown;
  if (!end_token && !only_prompt_) shown = matcher_.push(shown_by(token.token));
  // Programs that score prompts drop the last entry, so there is one for the end token, too.
  const bool told = !only_prompt_ && (!end_token || !prompt_logprobs_.empty());
  if (logprobs_wanted_ && told) {
    logprobs_.push_back(token);
    if (!chat_) {
      const std::size_t characters = utf8_characters(tokenizer_->token_bytes(token.token, false));
      offsets_.push_back((offsets_.empty() ? prompt_characters_ : offsets_.back()) + characters);
    }
  }
  if (token.finish != FinishReason::kNone) {
    if (!only_prompt_) shown += matcher_.push(detokenizer_.finish());
    shown += matcher_.finish();
    finish_reason_ = end_token && !only_prompt_ ? "stop" : "length";
  }
  if (matcher_.matched()) finish_reason_ = "stop";
  const Ends before = ends_.empty() ? Ends{text_.size()} : ends_.back();
  if (parser_) {
    show(parser_->push(shown));
    if (done()) show(parser_->finish());
    if (finish_reason_ == "stop" && !calls_.empty()) finish_reason_ = "tool_calls";
  } else {
    text_ += shown;
  }
  ends_.push_back({text_.size(), reasoning_.size(), calls_.size()});
  return text_.size() > before.text || reasoning_.size() > before.reasoning ||
         calls_.size() > before.calls || done();
}

// Special tokens are hidden, except those that the parser needs.
std::string Choice::shown_by(TokenId token) {
  if (parser_ && tokenizer_->is_special(token)) {
    std::string text = tokenizer_->token_bytes(token, true);
    const bool mark = !text.empty() && std::ranges::any_of(marks_, [&](const std::string& each) {
      return each.find(text) != std::string::npos;
    });
    if (mark) return text;
  }
  return detokenizer_.push(token);
}

void Choice::show(model::AnswerPart part) {
  text_ += part.content;
  reasoning_ += part.reasoning;
  for (model::ChatToolCall& call : part.calls) {
    const auto index = static_cast<std::uint32_t>(calls_.size());
    std::string id = std::move(call.id);
    if (id.empty()) {
      // Nine letters and digits: the templates of some models refuse others.
      const std::string source = fmt::format("{} choice {} call {}", name_, index_, index);
      id = blake2b(as_bytes(source)).hex().substr(0, kCallIdBytes);
    }
    calls_.push_back({index, std::move(id), std::move(call.name), std::move(call.arguments)});
  }
}

ChoicePart Choice::part(std::uint32_t from) const {
  ChoicePart out;
  out.index = index_;
  out.with_logprobs = logprobs_wanted_;
  out.with_token_ids = ids_wanted_;
  const std::size_t first = std::min<std::size_t>(from, ids_.size());
  const Ends told = first == 0 ? Ends{} : ends_[first - 1];
  out.text = text_.substr(told.text);
  out.reasoning = reasoning_.substr(told.reasoning);
  out.tool_calls.assign(calls_.begin() + static_cast<std::ptrdiff_t>(told.calls), calls_.end());
  if (ids_wanted_ && !only_prompt_)
    out.token_ids.assign(ids_.begin() + static_cast<std::ptrdiff_t>(first), ids_.end());
  const std::size_t scored = std::min(first, logprobs_.size());
  // The echo and its scores stand before the first token.
  if (first == 0) out.logprobs = prompt_logprobs_;
  out.begins_prompt = !out.logprobs.empty();
  out.logprobs.insert(out.logprobs.end(), logprobs_.begin() + static_cast<std::ptrdiff_t>(scored),
                      logprobs_.end());
  out.stop_string = matcher_.match();
  out.embedding = embedding_;
  if (!out.begins_prompt) {
    out.text_offset = scored == 0 || offsets_.empty() ? prompt_characters_ : offsets_[scored - 1];
  }
  return out;
}

std::uint32_t Choice::reasoning_tokens() const {
  std::size_t last = ends_.size();
  const auto thought = [&](std::size_t end) { return end == 0 ? 0 : ends_[end - 1].reasoning; };
  while (last > 0 && thought(last) == thought(last - 1)) --last;
  return static_cast<std::uint32_t>(last);
}

std::size_t Choice::bytes() const {
  std::size_t bytes =
      text_.size() + reasoning_.size() + ids_.size() * (sizeof(Ends) + sizeof(TokenId));
  for (const ToolCallPart& call : calls_) bytes += sizeof call + call.arguments.size();
  if (embedding_) bytes += embedding_->size() * sizeof(float);
  for (const auto* list : {&prompt_logprobs_, &logprobs_}) {
    for (const SampledToken& token : *list) {
      bytes += sizeof token + token.top.size() * sizeof(TokenLogprob);
    }
  }
  return bytes;
}

}  // namespace hearth::coordinator::http
