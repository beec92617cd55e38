// The vocabularies of synthetic models. Internal to synthetic.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hearth::model {

struct SyntheticVocabulary {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;  // 1 normal, 2 unknown, 3 control, 6 byte
  std::vector<std::string> merges;  // byte-level BPE: "left right", best first
  std::vector<float> scores;        // SentencePiece
};

inline constexpr std::uint32_t kSyntheticBpeMin = 3 + 256;           // specials, bytes
inline constexpr std::uint32_t kSyntheticSpmMin = 6 + 256 + 1 + 94;  // and space, printable ASCII

// Specials, the 256 bytes, then one token a merge: frequent English pairs, and after them every
// earlier letter sequence with one more letter, until `size` is reached. Every token can be
// reached by encoding some text.
//
// Byte-level BPE with <|endoftext|>, <|im_start|>, <|im_end|> as tokens 0, 1 and 2.
SyntheticVocabulary synthetic_bpe(std::uint32_t size);
// SentencePiece with <pad>, <eos>, <bos>, <unk>, <start_of_turn>, <end_of_turn> as tokens 0 to 5.
SyntheticVocabulary synthetic_spm(std::uint32_t size);

}  // namespace hearth::model
