#include "model/text/merge_table.h"

#include <bit>
#include <limits>

#include "base/check.h"
#include "base/limits.h"
#include "base/random.h"
#include "model/text/keyed_hash.h"

namespace hearth::model {

static_assert(limits::kVocabulary <= std::numeric_limits<TokenId>::max(), "ids are token ids");
static_assert(limits::kGgufArrayItems < kNoRank, "the place of a merge is its rank");

MergeTable::MergeTable(std::size_t merges)
    : slots_(std::bit_ceil(merges + merges / 2 + 1)), seed_(SystemRandom().next()) {
  INVARIANT(slots_.size() > merges, "a search ends at a free slot");
}

std::size_t MergeTable::start(std::uint64_t key) const {
  return hash_word(key, seed_) & (slots_.size() - 1);
}

void MergeTable::insert(std::uint32_t left, std::uint32_t right, Merge merge) {
  INVARIANT(merge.rank != kNoRank, "a merge has a rank");
  const std::uint64_t key = (std::uint64_t{left} << 32) | right;
  std::size_t at = start(key);
  while (slots_[at].merge.rank != kNoRank) {
    if (slots_[at].key == key) return;
    at = (at + 1) & (slots_.size() - 1);
  }
  slots_[at] = {key, merge};
}

MergeTable::Merge MergeTable::find(std::uint32_t left, std::uint32_t right) const {
  const std::uint64_t key = (std::uint64_t{left} << 32) | right;
  std::size_t at = start(key);
  while (slots_[at].merge.rank != kNoRank && slots_[at].key != key) {
    at = (at + 1) & (slots_.size() - 1);
  }
  return slots_[at].merge;
}

std::uint32_t Symbols::number(const Vocabulary& entries, std::string_view text) {
  const TokenId token = entries.find_text(text);
  if (token >= 0) return static_cast<std::uint32_t>(token);
  const auto next = static_cast<std::uint32_t>(entries_ + others_.size());
  return others_.try_emplace(std::string(text), next).first->second;
}

std::uint32_t Symbols::find(const Vocabulary& entries, std::string_view text) const {
  const TokenId token = entries.find_text(text);
  if (token >= 0) return static_cast<std::uint32_t>(token);
  const auto found = others_.find(std::string(text));
  return found == others_.end() ? kNoSymbol : found->second;
}

Result<MergeTable> read_merges(const TokenizerSource& source, const Vocabulary& entries,
                               Symbols& symbols) {
  MergeTable table(source.merges.size());
  std::string whole;
  for (std::size_t i = 0; i < source.merges.size(); ++i) {
    const std::string_view merge = source.merges[i];
    const std::size_t gap = merge.find(' ', 1);
    REQUIRE(gap != std::string_view::npos && gap + 1 < merge.size(),
            "tokenizer.ggml.merges, entry ", i, ": not two parts with a space between them");
    whole.assign(merge.substr(0, gap)).append(merge.substr(gap + 1));
    const TokenId result = entries.find(whole);
    if (result >= 0 && entries.special(result)) continue;
    const std::uint32_t merged =
        result >= 0 ? static_cast<std::uint32_t>(result) : symbols.number(entries, whole);
    const std::uint32_t left = symbols.number(entries, merge.substr(0, gap));
    const std::uint32_t right = symbols.number(entries, merge.substr(gap + 1));
    table.insert(left, right, {static_cast<std::uint32_t>(i), merged});
  }
  return table;
}

}  // namespace hearth::model
