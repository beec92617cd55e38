#include "model/text/special_matcher.h"

#include <algorithm>

namespace hearth::model {

SpecialMatcher::SpecialMatcher(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {
  for (TokenId token = 0; token < static_cast<TokenId>(vocabulary.size()); ++token) {
    const bool matched =
        vocabulary.special(token) || vocabulary.kind(token) == TokenKind::kUserDefined;
    if (matched && !vocabulary.text(token).empty()) sorted_.push_back(token);
  }
  std::sort(sorted_.begin(), sorted_.end(),
            [&](TokenId a, TokenId b) { return vocabulary.text(a) < vocabulary.text(b); });
  for (const TokenId token : sorted_) {
    ++first_[static_cast<std::uint8_t>(vocabulary.text(token)[0]) + 1U];
  }
  for (std::size_t byte = 1; byte < first_.size(); ++byte) first_[byte] += first_[byte - 1];
}

SpecialMatcher::Match SpecialMatcher::longest_at(std::string_view text, std::size_t at,
                                                 std::size_t special_end) const {
  const auto byte_of = [&](TokenId token, std::size_t depth) {
    return static_cast<std::uint8_t>(vocabulary_->text(token)[depth]);
  };
  const auto first = static_cast<std::uint8_t>(text[at]);
  auto low = sorted_.begin() + first_[first];
  auto high = sorted_.begin() + first_[first + 1U];
  Match best;
  // Invariant: [low, high) are the entries that begin with the `depth` bytes at `at`.
  for (std::size_t depth = 1; low != high; ++depth) {
    if (vocabulary_->text(*low).size() == depth) {
      if (!vocabulary_->special(*low) || at + depth <= special_end) best = {*low, depth};
      ++low;
    }
    if (at + depth == text.size()) break;
    const auto next = static_cast<std::uint8_t>(text[at + depth]);
    low = std::lower_bound(low, high, next,
                           [&](TokenId t, std::uint8_t b) { return byte_of(t, depth) < b; });
    high = std::upper_bound(low, high, next,
                            [&](std::uint8_t b, TokenId t) { return b < byte_of(t, depth); });
  }
  return best;
}

}  // namespace hearth::model
