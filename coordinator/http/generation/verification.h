// Verification: what a client that asked for it is told of the audits of its answer, by choice: the
// `verified`, `retracted` and `corrected` of the `hearth` object (README, "Verified answers"). A
// plain state machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/http/openai/choice.h"
#include "coordinator/http/openai/json.h"
#include "coordinator/http/openai/requests.h"

namespace hearth::coordinator::http {

class Verification {
 public:
  Verification(Verify asked, std::size_t choices) : asked_(asked), outcomes_(choices) {}

  // Why no answer to this request can be verified now; empty: it can. Of serving pipelines that the
  // request may reach, one must have another one of them that can audit it.
  static std::string why_not(const SwarmStatus& status, const GenerationRequest& request,
                             bool has_receipts);

  bool asked() const { return asked_ != Verify::kNone; }
  // It is not verified, or what of it is not yet will not be: a sentence. Nothing more is waited
  // for.
  void cannot(std::string why) { why_not_ = std::move(why); }
  bool can() const { return why_not_.empty(); }
  // `claimed`: the choice as it was told. False when nothing more was waited for.
  bool take(const Choice& claimed, const AuditOutcome& outcome);
  // The right choice, where the one that was told is false and other tokens are right.
  void correct(Choice choice);
  // The choice as it is right, as far as anybody knows.
  const Choice& right(const Choice& claimed) const;
  bool waits() const;

  // Keys for the `hearth` object: `verified`, and what follows from it. Without token ids, unless
  // they are wanted.
  OrderedJson object() const;

 private:
  struct Known {
    AuditOutcome outcome;
    std::optional<std::uint32_t> from_token;  // of a false one: the first that is another one
  };
  std::string state() const;
  OrderedJson windows() const;
  OrderedJson places(AuditOutcome::Kind kind) const;

  Verify asked_;
  std::string why_not_;
  std::vector<std::optional<Known>> outcomes_;  // by choice
  std::vector<Choice> corrected_;
};

// The right choice of a false answer, from its right tokens.
Choice corrected_choice(std::uint32_t index, GenerationRequest request,
                        const std::vector<TokenId>& prompt, const std::string& echo,
                        const std::vector<TokenId>& answer,
                        const std::shared_ptr<const model::Tokenizer>& tokenizer,
                        const std::vector<TokenId>& stop_tokens);

}  // namespace hearth::coordinator::http
