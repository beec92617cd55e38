// The byte-level BPE vocabulary of synthetic models. Internal to synthetic.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hearth::model {

struct SyntheticVocabulary {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;  // 1 normal, 3 control
  std::vector<std::string> merges;  // "left right", best first
};

inline constexpr std::uint32_t kSyntheticSpecials = 3;
inline constexpr std::uint32_t kSyntheticVocabularyMin = kSyntheticSpecials + 256;

// Specials, the 256 bytes, then one token a merge: frequent English pairs, and after them every
// earlier letter sequence with one more letter, until `size` is reached. Every token can be
// reached by encoding some text.
SyntheticVocabulary synthetic_vocabulary(std::uint32_t size);

}  // namespace hearth::model
