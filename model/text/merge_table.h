// The ranked merges of a byte-pair encoding, as a file lists them ("left right", best first).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "model/text/merge.h"
#include "model/text/vocabulary.h"

namespace hearth::model {

// Pairs of symbols to rank and result. Open addressing, immutable after the load.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank = kNoRank;
    std::uint32_t merged = 0;
  };
  explicit MergeTable(std::size_t merges);
  // The first of equal pairs stays. At most `merges` inserts.
  void insert(std::uint32_t left, std::uint32_t right, Merge merge);
  Merge find(std::uint32_t left, std::uint32_t right) const;

 private:
  struct Slot {
    std::uint64_t key = 0;
    Merge merge;  // kNoRank: empty
  };
  std::size_t start(std::uint64_t key) const;

  std::vector<Slot> slots_;
  std::uint64_t seed_ = 0;
};

// Symbols: the ids of the vocabulary, and higher numbers for texts that occur only in merges or as
// single bytes.
class Symbols {
 public:
  explicit Symbols(std::size_t entries) : entries_(entries) {}

  // A new number where the text has none.
  std::uint32_t number(const Vocabulary& entries, std::string_view text);
  // kNoSymbol where the text has none.
  std::uint32_t find(const Vocabulary& entries, std::string_view text) const;

  static constexpr std::uint32_t kNoSymbol = UINT32_MAX;  // no merge has it

 private:
  std::size_t entries_;
  std::unordered_map<std::string, std::uint32_t> others_;
};

// kInvalidInput names the entry. A merge whose result is a special token is dropped.
Result<MergeTable> read_merges(const TokenizerSource& source, const Vocabulary& entries,
                               Symbols& symbols);

}  // namespace hearth::model
