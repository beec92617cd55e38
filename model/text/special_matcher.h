// Finds special and user-defined tokens written out in a text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "model/text/vocabulary.h"

namespace hearth::model {

// The longest token that starts at a place wins, the leftmost place first, as in Hugging Face's
// tokenizers. Cost per place: at most the longest such token, in practice one look at a byte.
class SpecialMatcher {
 public:
  // Over the control, unknown and user-defined entries; the vocabulary outlives the matcher.
  explicit SpecialMatcher(const Vocabulary& vocabulary);

  struct Match {
    TokenId token = -1;  // -1: none starts here
    std::size_t bytes = 0;
  };
  // `special_end`: special tokens count only where they end at or before it; a value at or before
  // `at` means user text, in which no special token counts. User-defined tokens count anywhere.
  Match longest_at(std::string_view text, std::size_t at, std::size_t special_end) const;

 private:
  const Vocabulary* vocabulary_;
  std::vector<TokenId> sorted_;             // by text
  std::array<std::uint32_t, 257> first_{};  // entries of sorted_ by their first byte
};

}  // namespace hearth::model
