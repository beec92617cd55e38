// TokenLookup: drafts a sequence's next tokens from its own prompt and answer ("prompt lookup
// decoding"): the tokens that followed an earlier occurrence of the last tokens may follow again.
// The longest match counts, and of equally long ones the latest.
//
// For each of a few lengths a table has the last end of tokens with the same hash, and for each end
// the previous one. Tokens are compared before a match counts; the search stops after kSteps ends.
// Adding a token takes constant time, and 24 bytes on average: keys and values take more. A plain
// value, for one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace hearth::node {

class TokenLookup {
 public:
  static constexpr std::array<std::uint32_t, 3> kLengths = {8, 4, 2};  // that are looked up
  static constexpr std::uint32_t kLongest = 32;  // tokens that are compared at most
  static constexpr std::uint32_t kSteps = 8;

  struct Match {
    std::uint32_t length = 0;  // tokens that agree, at most kLongest; 0: none is known
    std::span<const TokenId> next;
  };

  void append(TokenId token);
  // The tokens that followed the match, at most `most`; valid until the next append().
  Match find(std::size_t most) const;
  const std::vector<TokenId>& tokens() const { return tokens_; }

 private:
  struct Table {
    std::vector<std::uint32_t> last;     // by hash: an end; 0: none
    std::vector<std::uint32_t> earlier;  // by end: another end with the same hash
  };
  std::size_t slot(std::size_t table, std::size_t end) const;
  void insert(std::size_t table, std::size_t end);
  void grow();
  std::uint32_t agree(std::size_t end) const;

  std::vector<TokenId> tokens_;
  std::array<Table, kLengths.size()> tables_;
  std::size_t earlier_ = 0;  // where the longest match of the last tokens ends; 0: none
};

}  // namespace hearth::node
