// Verification: the results of the audits of an answer, by choice, for a client that asked for
// them: the `verified`, `retracted` and `corrected` keys of the `hearth` object (README, "Verified
// answers"). `verified.state` is one of: by_draw (verify is "spot": windows are audited by random
// draw), verifying (audits of it are still running), verified, unverified, disputed, retracted. A
// plain state machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/http/openai/choice.h"
#include "coordinator/http/openai/json.h"
#include "coordinator/http/openai/requests.h"

namespace hearth::coordinator::http {

class Verification {
 public:
  Verification(Verify asked, std::size_t choices) : asked_(asked), outcomes_(choices) {}

  bool asked() const { return asked_ != Verify::kNone; }
  // Why windows that are not verified yet will stay so; empty: they may still be verified.
  void cannot(std::string why) { why_not_ = std::move(why); }
  bool can() const { return why_not_.empty(); }
  // `claimed`: the choice as it was sent. False when the outcome no longer matters.
  bool take(const Choice& claimed, const AuditOutcome& outcome);
  // Replaces a false choice that was sent by the one with the right tokens.
  void correct(Choice choice) { corrected_.push_back(std::move(choice)); }
  // The corrected choice if there is one, otherwise the choice as it was sent.
  const Choice& right(const Choice& claimed) const;
  bool waits() const;  // for outcomes

  // Keys for the `hearth` object. Token ids of corrected choices only where the request wants them.
  OrderedJson object() const;

 private:
  using Kind = AuditOutcome::Kind;
  struct Known {
    AuditOutcome outcome;
    std::optional<std::uint32_t> from_token;  // of a false choice: the first wrong token
  };
  std::string state() const;
  OrderedJson windows() const;
  OrderedJson places(Kind kind) const;

  Verify asked_;
  std::string why_not_;
  std::vector<std::optional<Known>> outcomes_;  // by choice
  std::vector<Choice> corrected_;
};

// The choice that a false one is corrected to, from the right tokens.
Choice corrected_choice(std::uint32_t index, GenerationRequest request,
                        const std::vector<TokenId>& prompt, const std::string& echo,
                        const std::vector<TokenId>& answer,
                        const std::shared_ptr<const model::Tokenizer>& tokenizer,
                        const std::vector<TokenId>& stop_tokens, AnswerForm form);

}  // namespace hearth::coordinator::http
