// Text to token ids and back: byte-level BPE and SentencePiece-BPE, as the GGUF file describes
// them (tokenizer.ggml.*). Immutable after load, safe to share between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/gguf/gguf.h"

namespace hearth::model {

enum class SpecialTokens : std::uint8_t {
  kText,   // user text: "<|im_end|>" is ten characters, never a control token
  kParse,  // template output: special tokens written out are recognised
};

// A part of a text that is to be encoded as one: a prompt made of a template's text and a user's.
struct TextPiece {
  std::string_view text;
  SpecialTokens special = SpecialTokens::kText;
};

class Tokenizer {
 public:
  // kInvalidInput or kUnsupported names the key. The file need not outlive the tokenizer. A special
  // id of -1 (or 2^32 - 1) says that there is no such token.
  static Result<std::shared_ptr<const Tokenizer>> load(const GgufFile& file);
  virtual ~Tokenizer() = default;

  // kInvalidInput when text is longer than limits::kTextBytes. Invalid UTF-8 is encoded byte by
  // byte where the vocabulary can, else as U+FFFD. O(n log n) in the length of the text.
  // add_bos prepends BOS where the model expects one. EOS is never appended: see adds_eos().
  virtual Result<std::vector<TokenId>> encode(std::string_view text, SpecialTokens special,
                                              bool add_bos) const = 0;
  // The ids of the joined text, so that words run on from one piece to the next as they would in
  // one string; but a special token is formed only if kParse pieces alone spell it.
  virtual Result<std::vector<TokenId>> encode_pieces(std::span<const TextPiece> pieces,
                                                     bool add_bos) const;
  // The bytes that a token stands for; may end inside a UTF-8 character. Empty for control tokens
  // unless show_special, and for ids outside of the vocabulary. `first` strips the leading space
  // that SentencePiece adds.
  virtual std::string token_bytes(TokenId token, bool show_special, bool first = false) const = 0;

  std::uint32_t vocabulary() const { return vocabulary_; }
  // Tokens that end a generation (EOS, EOT, <|im_end|> and their like).
  const std::vector<TokenId>& end_tokens() const { return end_tokens_; }
  TokenId bos() const { return bos_; }  // -1: none
  TokenId eos() const { return eos_; }
  // The tokens that the file names and templates call unk_token, pad_token, sep_token, cls_token
  // and mask_token.
  const std::vector<std::pair<std::string_view, TokenId>>& named_tokens() const {
    return named_tokens_;
  }
  bool adds_bos() const { return adds_bos_; }
  // The model expects EOS after a text that is not continued, which is a text to embed.
  bool adds_eos() const { return adds_eos_; }
  // The most bytes that one token stands for, so n bytes give at least n divided by this many
  // tokens. 0: unknown, because this vocabulary drops some bytes.
  std::size_t longest_token_bytes() const { return longest_token_bytes_; }
  std::string_view kind() const { return kind_; }  // "bpe" or "spm"
  // Control and unknown tokens. No user text becomes a control token; the unknown token stands for
  // what the vocabulary cannot encode.
  virtual bool is_special(TokenId token) const = 0;

 protected:
  std::uint32_t vocabulary_ = 0;
  std::vector<TokenId> end_tokens_;
  TokenId bos_ = -1;
  TokenId eos_ = -1;
  std::vector<std::pair<std::string_view, TokenId>> named_tokens_;
  bool adds_bos_ = false;
  bool adds_eos_ = false;
  std::size_t longest_token_bytes_ = 0;
  std::string_view kind_;
};

// Streaming decode: feed tokens one by one, get text that never ends inside a UTF-8 character.
// Bytes that no later byte can complete become U+FFFD at once (one for each maximal broken part),
// so at most three bytes are ever held back. For one thread.
class Detokenizer {
 public:
  Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool show_special);
  // Text that is complete now; may be empty.
  std::string push(TokenId token);
  // The held bytes; a broken character becomes U+FFFD.
  std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool show_special_ = false;
  bool first_ = true;
  std::string held_;
};

}  // namespace hearth::model
