// The entries of a vocabulary, checked: what every tokenizer is built from.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace hearth::model {

// Values are the file's own (tokenizer.ggml.token_type).
enum class TokenKind : std::uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// A file's description of its tokenizer, unchecked. The views outlive the load, not the tokenizer.
struct TokenizerSource {
  std::string_view model;  // tokenizer.ggml.model: "gpt2", "llama" or "gemma4"
  std::string_view pre;    // tokenizer.ggml.pre; empty: not given
  std::span<const std::string_view> tokens;
  std::span<const std::int64_t> types;       // empty: every entry is normal
  std::span<const double> scores;            // "llama" only
  std::span<const std::string_view> merges;  // not of "llama": "left right", best first
  std::optional<std::uint64_t> bos, eos, eot, eom, unknown;
  std::optional<std::uint64_t> fim_pad, fim_repo, fim_separator;
  std::optional<std::uint64_t> padding, separator, classifier, mask;  // templates name them
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

// Token texts with an index from text to id. A text stands once.
class Vocabulary {
 public:
  // kInvalidInput names the key and the entry.
  static Result<Vocabulary> build(const TokenizerSource& source);

  std::uint32_t size() const { return static_cast<std::uint32_t>(kinds_.size()); }
  std::string_view text(TokenId token) const {
    const std::size_t at = static_cast<std::size_t>(token);
    return std::string_view(texts_).substr(starts_[at], starts_[at + 1] - starts_[at]);
  }
  TokenKind kind(TokenId token) const { return kinds_[static_cast<std::size_t>(token)]; }
  // Control and unknown tokens: never the result of encoding a text, only of parsing one.
  bool special(TokenId token) const {
    return kind(token) == TokenKind::kControl || kind(token) == TokenKind::kUnknown;
  }
  // The entry with this text, whatever its kind; -1: none.
  TokenId find(std::string_view text) const;
  // As find, but never a special token.
  TokenId find_text(std::string_view text) const {
    const TokenId token = find(text);
    return token >= 0 && !special(token) ? token : -1;
  }
  std::size_t longest() const { return longest_; }  // bytes
  // Tokens that end a generation, ascending: those that the file names, and those known by text
  // that are control tokens by their type, or the only ones of their kind.
  const std::vector<TokenId>& end_tokens() const { return end_tokens_; }

 private:
  struct Slot {
    std::uint32_t tag = 0;  // upper half of the hash
    TokenId token = -1;
  };

  Status add_texts(const TokenizerSource& source);
  Status add_kinds(const TokenizerSource& source);
  Status index();
  Status mark_special(const TokenizerSource& source);

  std::string texts_;
  std::vector<std::uint32_t> starts_;  // one more than there are entries
  std::vector<TokenKind> kinds_;
  std::vector<Slot> slots_;
  std::uint64_t seed_ = 0;
  std::size_t longest_ = 0;
  std::vector<TokenId> end_tokens_;
};

// A token id from a key of the file: in range, or an error that names the key.
Status check_token_id(std::string_view key, const std::optional<std::uint64_t>& id,
                      std::size_t vocabulary);

}  // namespace hearth::model
