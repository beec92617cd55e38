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
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/thread_annotations.h"
#include "model/grammar/grammar.h"
#include "model/grammar/grammar_state.h"
#include "model/text/tokenizer.h"

namespace hearth::model {

// One bit a token, from the lowest bit of the first word on.
using TokenMask = std::vector<std::uint64_t>;

// The texts of a vocabulary as a tree by bytes. Immutable, safe to share.
class GrammarVocabulary {
 public:
  // A node of the tree, in the order of a walk: its children follow it, up to `end`.
  struct Node {
    std::uint32_t end = 0;
    // Index of the first token whose text ends here; the next node's is the end. A text sorts
    // behind its beginnings, so no other token stands between them.
    std::uint32_t tokens = 0;
    std::uint16_t depth = 0;  // bytes of its text, at least 1
    std::uint16_t reach = 0;  // the greatest depth of it and the nodes below it
    std::uint8_t byte = 0;
  };

  static std::shared_ptr<const GrammarVocabulary> build(const Tokenizer& tokenizer);
  // Of `texts`, by token; an empty text is a token that no grammar allows.
  static std::shared_ptr<const GrammarVocabulary> build(std::vector<std::string> texts,
                                                        std::vector<TokenId> end_tokens);

  std::uint32_t size() const { return static_cast<std::uint32_t>(texts_.size()); }
  const std::vector<Node>& nodes() const { return nodes_; }  // one more than there are
  const std::vector<TokenId>& tokens() const { return tokens_; }
  const std::vector<TokenId>& end_tokens() const { return end_tokens_; }
  bool is_end(TokenId token) const;
  const std::string& text(TokenId token) const { return texts_[static_cast<std::size_t>(token)]; }
  // What leads to a node: the beginning of the first token's text at or below it.
  std::string_view text_to(std::uint32_t node) const {
    const TokenId token = tokens_[nodes_[node].tokens];
    return std::string_view(text(token)).substr(0, nodes_[node].depth);
  }
  std::size_t longest() const { return longest_; }  // bytes

 private:
  std::vector<std::string> texts_;
  std::vector<TokenId> end_tokens_;
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;
  std::size_t longest_ = 0;
};

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
  // A token that the mask does not have makes the state over: what an answer holds is a function of
  // its tokens, also where somebody ignored the mask.
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
