#include "coordinator/http/generation/verification.h"

#include <algorithm>

#include "base/check.h"
#include "coordinator/http/openai/responses.h"

namespace hearth::coordinator::http {

bool Verification::take(const Choice& claimed, const AuditOutcome& outcome) {
  INVARIANT(claimed.index() < outcomes_.size(), "an outcome is of a choice of this answer");
  std::optional<Known>& known = outcomes_[claimed.index()];
  if (!can() || asked_ != Verify::kFull || (known && known->outcome.is_last())) return false;
  std::vector<AuditedWindow> agreed;
  if (known) agreed = std::move(known->outcome.windows);
  known = {outcome, std::nullopt};
  if (outcome.windows.empty()) known->outcome.windows = std::move(agreed);
  if (outcome.kind != Kind::kFalse) return true;
  const std::vector<TokenId>& told = claimed.token_ids();
  const auto differs = std::ranges::mismatch(told, outcome.answer).in1 - told.begin();
  if (static_cast<std::size_t>(differs) < told.size()) {
    known->from_token = static_cast<std::uint32_t>(differs);
  }
  return true;
}

const Choice& Verification::right(const Choice& claimed) const {
  const auto found = std::ranges::find(corrected_, claimed.index(), &Choice::index);
  return found == corrected_.end() ? claimed : *found;
}

bool Verification::waits() const {
  return can() && asked_ == Verify::kFull && std::ranges::any_of(outcomes_, [](const auto& known) {
           return !known || !known->outcome.is_last();
         });
}

std::string Verification::state() const {
  const auto any = [&](Kind kind) {
    return std::ranges::any_of(
        outcomes_, [kind](const auto& known) { return known && known->outcome.kind == kind; });
  };
  if (any(Kind::kFalse)) return "retracted";
  if (any(Kind::kDisputed)) return "disputed";
  if (!can() || any(Kind::kUnaudited)) return "unverified";
  if (asked_ == Verify::kSpot) return "by_draw";
  return waits() ? "verifying" : "verified";
}

OrderedJson Verification::windows() const {
  OrderedJson out = OrderedJson::array();
  for (std::size_t choice = 0; choice < outcomes_.size(); ++choice) {
    if (!outcomes_[choice]) continue;
    for (const AuditedWindow& one : outcomes_[choice]->outcome.windows) {
      out.push_back({{"choice", choice},
                     {"stage", one.stage},
                     {"window", one.window},
                     {"entry", one.entry},
                     {"others", one.others}});
    }
  }
  return out;
}

OrderedJson Verification::places(Kind kind) const {
  OrderedJson out = OrderedJson::array();
  for (std::size_t choice = 0; choice < outcomes_.size(); ++choice) {
    const std::optional<Known>& known = outcomes_[choice];
    if (!known || known->outcome.kind != kind) continue;
    OrderedJson& one = out.emplace_back(OrderedJson{{"choice", choice}});
    if (kind == Kind::kFalse) {
      one["from_token"] = known->from_token ? OrderedJson(*known->from_token) : OrderedJson();
    }
    one.update({{"stage", known->outcome.stage},
                {"window", known->outcome.window},
                {"entry", known->outcome.entry}});
  }
  return out;
}

OrderedJson Verification::object() const {
  OrderedJson out = OrderedJson::object();
  if (!asked()) return out;
  OrderedJson& verified = out["verified"];
  verified["asked"] = verify_name(asked_);
  verified["state"] = state();
  std::string why = why_not_;
  for (const auto& known : outcomes_) {
    if (why.empty() && known && known->outcome.kind == Kind::kUnaudited) why = known->outcome.why;
  }
  if (!why.empty()) verified["why"] = why;
  if (asked_ != Verify::kFull) return out;
  verified["windows"] = windows();
  if (OrderedJson open = places(Kind::kDisputed); !open.empty()) {
    verified["disputed"] = std::move(open);
  }
  OrderedJson retracted = places(Kind::kFalse);
  if (retracted.empty()) return out;
  out["retracted"] = std::move(retracted);
  out["corrected"] = OrderedJson::array();
  for (const Choice& choice : corrected_) {
    ChoicePart part = choice.part(0);
    OrderedJson& one = out["corrected"].emplace_back();
    one["choice"] = part.index;
    one["text"] = part.text;
    if (!part.reasoning.empty()) one["reasoning_content"] = part.reasoning;
    if (!part.tool_calls.empty()) one["tool_calls"] = calls_of(part, false);
    if (part.with_token_ids) one["token_ids"] = part.token_ids;
    one["finish_reason"] = choice.finish_reason();
  }
  return out;
}

Choice corrected_choice(std::uint32_t index, GenerationRequest request,
                        const std::vector<TokenId>& prompt, const std::string& echo,
                        const std::vector<TokenId>& answer,
                        const std::shared_ptr<const model::Tokenizer>& tokenizer,
                        const std::vector<TokenId>& stop_tokens, AnswerForm form) {
  request.sampling.logprobs = false;  // audits do not know them
  Choice choice(index, request, prompt, echo, tokenizer, std::move(form));
  for (std::size_t i = 0; i < answer.size(); ++i) {
    SampledToken token;
    token.position = static_cast<Position>(prompt.size() + i);
    token.token = answer[i];
    const bool ends = std::ranges::count(stop_tokens, answer[i]) > 0;
    if (i + 1 == answer.size()) token.finish = ends ? FinishReason::kStop : FinishReason::kLength;
    choice.push(token);
  }
  return choice;
}

}  // namespace hearth::coordinator::http
