// SentencePiece BPE: merges the characters of a text by the scores of the entries that they form.
// Text that no entry covers is encoded as bytes. Spaces are written U+2581 in the vocabulary.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/merge.h"
#include "model/text/vocabulary_tokenizer.h"

namespace hearth::model {

class SpmTokenizer final : public VocabularyTokenizer {
 public:
  // BOS, EOS and the unknown token default to 1, 2 and 0 where the file names none, as in
  // llama.cpp. Special tokens and byte tokens are never formed by merging.
  static Result<std::shared_ptr<const Tokenizer>> build(const TokenizerSource& source);

 private:
  SpmTokenizer(Vocabulary entries, const TokenizerSource& source);

  void encode_text(std::string_view text, bool after_special,
                   std::vector<TokenId>& out) const override;
  std::string text_bytes(TokenId token) const override;
  bool strips_first_space() const override { return space_prefix_; }

  TokenId find_piece(std::string_view text) const;
  void encode_unknown(std::string_view character, std::vector<TokenId>& out) const;

  bool space_prefix_;
  TokenId replacement_ = -1;          // the entry U+FFFD
  std::vector<std::uint32_t> ranks_;  // by token: 0 is the best score
};

}  // namespace hearth::model
