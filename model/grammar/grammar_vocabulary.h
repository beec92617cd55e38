// GrammarVocabulary: the texts of a vocabulary, as masks of grammars walk over them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
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
    // Index of the first token whose text ends here; the next node's is the end. A text sorts after
    // its prefixes, so no other token stands between them.
    std::uint32_t tokens = 0;
    std::uint16_t depth = 0;  // bytes of its text, at least 1
    std::uint16_t reach = 0;  // the greatest depth of it and the nodes below it
    std::uint8_t byte = 0;
    std::uint8_t alike = 0;  // a bit for each kind of run that all texts here and below are
  };

  // A run is a text whose code points a grammar mostly reads alike: words, and what stands in a
  // string. A few steps identify states that do so; these then need no walk over the runs.
  enum class Run : std::uint8_t {
    kText,   // code points from U+0020 on, without '"' and '\\'
    kWord,   // ASCII letters and digits
    kLower,  // a to z
  };
  static constexpr std::array kRuns{Run::kText, Run::kWord, Run::kLower};
  // Masks of runs distinguish lengths up to this.
  static constexpr std::uint32_t kRunPoints = 16;
  static bool is_of(Run run, char32_t point);
  // The tokens that are runs of at most this many code points; above kRunPoints: of any number.
  const TokenMask& runs(Run run, std::uint32_t points) const {
    return runs_[static_cast<std::size_t>(run)][std::min(points, kRunPoints + 1)];
  }

  static std::shared_ptr<const GrammarVocabulary> build(const Tokenizer& tokenizer);
  // Builds the tree of `texts`, by token; no grammar allows a token with an empty text.
  static std::shared_ptr<const GrammarVocabulary> build(std::vector<std::string> texts,
                                                        std::vector<TokenId> end_tokens);

  std::uint32_t size() const { return static_cast<std::uint32_t>(texts_.size()); }
  const std::vector<Node>& nodes() const { return nodes_; }  // one more than there are
  const std::vector<TokenId>& tokens() const { return tokens_; }
  const std::vector<TokenId>& end_tokens() const { return end_tokens_; }
  bool is_end(TokenId token) const;
  const std::string& text(TokenId token) const { return texts_[static_cast<std::size_t>(token)]; }
  // The path to a node: the beginning of the first token's text at or below it.
  std::string_view text_to(std::uint32_t node) const {
    const TokenId token = tokens_[nodes_[node].tokens];
    return std::string_view(text(token)).substr(0, nodes_[node].depth);
  }
  std::size_t longest() const { return longest_; }  // bytes
  // The token with the longest text that `text` begins with; empty: none.
  std::optional<TokenId> longest_beginning(std::string_view text) const;

 private:
  std::vector<std::string> texts_;
  std::vector<TokenId> end_tokens_;
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;
  std::size_t longest_ = 0;
  std::array<std::array<TokenMask, kRunPoints + 2>, kRuns.size()> runs_;

  void find_runs();
};

}  // namespace hearth::model
