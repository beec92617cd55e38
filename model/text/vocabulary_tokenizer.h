// The common part of all tokenizers: the vocabulary, splitting a text at special tokens, BOS.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/special_matcher.h"
#include "model/text/tokenizer.h"
#include "model/text/vocabulary.h"

namespace hearth::model {

// By source.model: "gpt2", "llama" or "gemma4"; kUnsupported for any other.
Result<std::shared_ptr<const Tokenizer>> make_tokenizer(const TokenizerSource& source);

class VocabularyTokenizer : public Tokenizer {
 public:
  Result<std::vector<TokenId>> encode(std::string_view text, SpecialTokens special,
                                      bool add_bos) const final;
  Result<std::vector<TokenId>> encode_pieces(std::span<const TextPiece> pieces,
                                             bool add_bos) const final;
  std::string token_bytes(TokenId token, bool show_special, bool first) const final;
  bool is_special(TokenId token) const final { return known(token) && entries_.special(token); }

 protected:
  // kind: "bpe" or "spm". default_bos: whether BOS is added where the file does not say.
  VocabularyTokenizer(Vocabulary entries, const TokenizerSource& source, std::string_view kind,
                      bool default_bos);

  // Text that holds no special token; after_special: it stands at the start of the whole text or
  // behind a special token.
  virtual void encode_text(std::string_view text, bool after_special,
                           std::vector<TokenId>& out) const = 0;
  // The bytes of an entry that is neither special nor user-defined and names no byte.
  virtual std::string text_bytes(TokenId token) const = 0;
  virtual bool strips_first_space() const { return false; }
  // Finds longest_token_bytes(), unless some byte has no token and, not `replaced`, is left out.
  void measure_tokens(bool replaced);

  bool known(TokenId token) const {
    return token >= 0 && token < static_cast<TokenId>(entries_.size());
  }
  const Vocabulary& entries() const { return entries_; }

  std::array<TokenId, 256> byte_tokens_;  // of single bytes; -1: none
  TokenId unknown_ = -1;                  // of text that has no other; -1: none

 private:
  Vocabulary entries_;
  SpecialMatcher matcher_;
};

// The byte that a text of the form "<0x0A>" names.
std::optional<std::uint8_t> named_byte(std::string_view text);

}  // namespace hearth::model
