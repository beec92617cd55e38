// Vocabularies small enough to reckon with by hand, for tests and fuzzing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/bpe.h"
#include "model/text/unicode.h"
#include "model/text/vocabulary_tokenizer.h"

namespace hearth::model {

// Owns what a TokenizerSource views.
struct SmallVocabulary {
  std::vector<std::string> tokens;
  std::vector<std::int64_t> types;
  std::vector<double> scores;
  std::vector<std::string> merges;
  TokenizerSource source;  // model, pre, ids and flags; the spans are set by view()

  TokenId add(std::string text, TokenKind kind = TokenKind::kNormal, double score = 0.0) {
    tokens.push_back(std::move(text));
    types.push_back(static_cast<std::int64_t>(kind));
    scores.push_back(score);
    return static_cast<TokenId>(tokens.size() - 1);
  }
  // A merge and its result, parts as the file writes them.
  void merge(const std::string& left, const std::string& right) {
    merges.push_back(left + " " + right);
    add(left + right);
  }
  TokenId id(std::string_view text) const {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] == text) return static_cast<TokenId>(i);
    }
    return -1;
  }
  TokenizerSource view() {
    token_views_.assign(tokens.begin(), tokens.end());
    merge_views_.assign(merges.begin(), merges.end());
    TokenizerSource whole = source;
    whole.tokens = token_views_;
    whole.types = types;
    whole.scores = scores;
    whole.merges = merge_views_;
    return whole;
  }
  Result<std::shared_ptr<const Tokenizer>> build() { return make_tokenizer(view()); }

 private:
  std::vector<std::string_view> token_views_;
  std::vector<std::string_view> merge_views_;
};

// Entry n below 256 is the byte n; then merges; then the special and user-defined tokens.
inline SmallVocabulary small_bpe(std::string_view pre = "gpt-2") {
  SmallVocabulary v;
  v.source.model = "gpt2";
  v.source.pre = pre;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(bpe_character(static_cast<std::uint8_t>(byte)), text);
    v.add(std::move(text));
  }
  const std::string space = "\xC4\xA0";  // the printable form of a space
  v.merge("l", "l");
  v.merge("h", "e");
  v.merge("he", "ll");
  v.merge("hell", "o");
  v.merge(space, "w");
  v.merge("o", "r");
  v.merge(space + "w", "or");
  v.merge(space + "wor", "l");
  v.merge("a", "a");
  v.merge("aa", "aa");
  v.merge("<", "|");
  v.merge("|", ">");
  v.add("<|im_start|>", TokenKind::kControl);
  v.source.eos = v.add("<|im_end|>", TokenKind::kControl);
  v.source.bos = v.add("<|endoftext|>", TokenKind::kControl);
  v.add("<think>", TokenKind::kUserDefined);
  v.add("<think>\n", TokenKind::kUserDefined);
  return v;
}

// Gemma 4's kind: <pad>, <eos>, <bos>, <unk>, the bytes, then characters and merges.
inline SmallVocabulary small_spaced_bpe() {
  SmallVocabulary v;
  v.source.model = "gemma4";
  v.source.padding = v.add("<pad>", TokenKind::kControl);
  v.source.eos = v.add("<eos>", TokenKind::kControl);
  v.source.bos = v.add("<bos>", TokenKind::kControl);
  v.source.unknown = v.add("<unk>", TokenKind::kUnknown);
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const std::string digits{kHex[byte >> 4], kHex[byte & 15]};
    v.add("<0x" + digits + ">", TokenKind::kByte);
  }
  const std::string space = "\xE2\x96\x81";
  for (const std::string& piece : {space, std::string("h"), std::string("e"), std::string("l"),
                                   std::string("o"), std::string("\n"), std::string("\n\n\n")}) {
    v.add(piece);
  }
  v.merge("l", "l");
  v.merge("h", "e");
  v.merge("\n", "\n");
  v.merge(space, "he");
  v.merge("he", "ll");
  v.merge("ll", "o");
  v.merge(space, space);
  v.merges.push_back("h h");  // its result is no entry
  v.add("<turn|>", TokenKind::kControl);
  v.add("<|tool_response>", TokenKind::kUserDefined);
  return v;
}

// <unk>, <s>, </s>, the bytes, then pieces by score.
inline SmallVocabulary small_spm() {
  SmallVocabulary v;
  v.source.model = "llama";
  v.source.unknown = v.add("<unk>", TokenKind::kUnknown);
  v.source.bos = v.add("<s>", TokenKind::kControl);
  v.source.eos = v.add("</s>", TokenKind::kControl);
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const std::string digits{kHex[byte >> 4], kHex[byte & 15]};
    v.add("<0x" + digits + ">", TokenKind::kByte);
  }
  const std::string space = "\xE2\x96\x81";
  double score = -1;
  for (const std::string& piece : {space + space,
                                   std::string("ll"),
                                   std::string("he"),
                                   space + "he",
                                   std::string("llo"),
                                   space + "hello",
                                   std::string("aa"),
                                   std::string("aaaa"),
                                   std::string("</"),
                                   std::string("s>"),
                                   space,
                                   std::string("h"),
                                   std::string("e"),
                                   std::string("l"),
                                   std::string("o"),
                                   std::string("a"),
                                   std::string("<"),
                                   std::string("/"),
                                   std::string("s"),
                                   std::string(">"),
                                   std::string("\xC3\xA9")}) {
    v.add(piece, TokenKind::kNormal, score);
    score -= 1;
  }
  v.add("<|user|>", TokenKind::kControl);
  v.add("\n\n", TokenKind::kUserDefined);
  return v;
}

}  // namespace hearth::model
