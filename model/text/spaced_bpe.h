// BPE over characters (Gemma 4): merges the characters of a line by a ranked list. Text that no
// entry covers is encoded as bytes, entries such as "<0x0A>". Spaces are written U+2581 in the
// vocabulary.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/merge.h"
#include "model/text/merge_table.h"
#include "model/text/vocabulary_tokenizer.h"

namespace hearth::model {

class SpacedBpeTokenizer final : public VocabularyTokenizer {
 public:
  // A text always begins with BOS, even if the file says otherwise, as in llama.cpp.
  static Result<std::shared_ptr<const Tokenizer>> build(const TokenizerSource& source);

 private:
  SpacedBpeTokenizer(Vocabulary entries, const TokenizerSource& source, Symbols symbols,
                     MergeTable merges);

  void encode_text(std::string_view text, bool after_special,
                   std::vector<TokenId>& out) const override;
  std::string text_bytes(TokenId token) const override;

  // Of a line, or of the ends of lines in a row.
  void encode_line(std::string_view line, MergeList& list, std::vector<TokenId>& out) const;
  void encode_bytes(std::string_view bytes, std::vector<TokenId>& out) const;

  Symbols symbols_;
  MergeTable merges_;
};

}  // namespace hearth::model
