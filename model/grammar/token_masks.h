// Masks of a grammar over a vocabulary: which tokens may come next.
//
// A token may come when its bytes continue a text of the grammar; a control token where the grammar
// names it. End tokens may come where a text may end, and after it; empty tokens never. So a mask
// allows something wherever the vocabulary has every byte and the control tokens that the grammar
// names, or an end token where the text is complete.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/thread_annotations.h"
#include "model/grammar/grammar.h"
#include "model/grammar/grammar_state.h"
#include "model/grammar/grammar_vocabulary.h"

namespace hearth::model {

// Where an answer stands: a state of the grammar, or over.
struct TokenState {
  explicit TokenState(const Grammar& grammar) : text(grammar) {}
  GrammarState text;
  bool over = false;  // an end token came, or a token that was not allowed
};

// The masks of one grammar, kept for states that look alike. Safe to share between threads.
class TokenMasks {
 public:
  TokenMasks(std::shared_ptr<const Grammar> grammar,
             std::shared_ptr<const GrammarVocabulary> vocabulary);
  ~TokenMasks();

  TokenState start() const { return TokenState(*grammar_); }
  // A token outside of the mask ends the answer's state. So the state is a function of the tokens,
  // even if a sampler ignored the mask.
  void accept(TokenState& state, TokenId token) const;
  std::shared_ptr<const TokenMask> mask(const TokenState& state);
  bool allows(const TokenMask& mask, TokenId token) const {
    const auto at = static_cast<std::size_t>(token);
    return (mask[at / 64] >> (at % 64) & 1) != 0;
  }
  // The only token that may come.
  static std::optional<TokenId> only(const TokenMask& mask);
  // The bytes that every continuation of the state has, at most `most`.
  std::string forced_bytes(const TokenState& state, std::size_t most) const;

  const Grammar& grammar() const { return *grammar_; }
  const GrammarVocabulary& vocabulary() const { return *vocabulary_; }

 private:
  struct Cache;
  class Walk;
  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  Mutex mutex_;
  std::unique_ptr<Cache> cache_ GUARDED_BY(mutex_);
};

}  // namespace hearth::model
