// Byte-level BPE (GPT-2): a text is split into words, a word's bytes are merged by a ranked list.
// Vocabulary and merges write bytes as printable characters; here everything is bytes and ids.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/merge.h"
#include "model/text/merge_table.h"
#include "model/text/pretokenizer.h"
#include "model/text/vocabulary_tokenizer.h"

namespace hearth::model {

// GPT-2's printable character for a byte.
char32_t bpe_character(std::uint8_t byte);
// The bytes that such characters stand for; other characters are kept as they are.
std::string bpe_bytes(std::string_view printable);

class BpeTokenizer final : public VocabularyTokenizer {
 public:
  // A merge whose parts or result are not in the vocabulary still merges, as in llama.cpp. If such
  // a part remains at the end, it is encoded as single bytes. A merge whose result is a special
  // token is dropped. A merge without two parts is refused.
  static Result<std::shared_ptr<const Tokenizer>> build(const TokenizerSource& source);

 private:
  BpeTokenizer(Vocabulary entries, const TokenizerSource& source, PreTokenizer pre,
               MergeTable merges);

  void encode_text(std::string_view text, bool after_special,
                   std::vector<TokenId>& out) const override;
  std::string text_bytes(TokenId token) const override;

  void encode_word(std::string_view word, MergeList& list, std::vector<TokenId>& out) const;
  void encode_bytes(std::string_view bytes, std::vector<TokenId>& out) const;

  PreTokenizer pre_;
  bool whole_words_;  // a word that is an entry becomes that entry without merging
  MergeTable merges_;
  std::array<std::uint32_t, 256> byte_symbols_{};
  std::vector<TokenId> missing_;  // the token for a byte that the vocabulary lacks
};

}  // namespace hearth::model
