#include "model/text/vocabulary_tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/limits.h"

namespace hearth::model {

namespace {

constexpr std::size_t kCharacterBytes = 4;  // of UTF-8, at most

// Pieces as one string, and up to where special tokens count in each stretch of it.
struct Joined {
  struct Stretch {
    std::size_t end = 0;
    bool parse = false;
  };
  std::string text;
  std::vector<Stretch> stretches;

  void append(const TextPiece& piece) {
    if (piece.text.empty()) return;
    text += piece.text;
    const bool parse = piece.special == SpecialTokens::kParse;
    if (stretches.empty() || stretches.back().parse != parse) stretches.push_back({0, parse});
    stretches.back().end = text.size();
  }
};

}  // namespace

Result<std::vector<TokenId>> Tokenizer::encode_pieces(std::span<const TextPiece> pieces,
                                                      bool add_bos) const {
  std::vector<TokenId> all;
  for (const TextPiece& piece : pieces) {
    TRY(const std::vector<TokenId> ids,
        encode(piece.text, piece.special, add_bos && &piece == pieces.data()));
    all.insert(all.end(), ids.begin(), ids.end());
  }
  return all;
}

VocabularyTokenizer::VocabularyTokenizer(Vocabulary entries, const TokenizerSource& source,
                                         std::string_view kind, bool default_bos)
    : entries_(std::move(entries)), matcher_(entries_) {
  vocabulary_ = entries_.size();
  end_tokens_ = entries_.end_tokens();
  kind_ = kind;
  if (source.bos) bos_ = static_cast<TokenId>(*source.bos);
  if (source.eos) eos_ = static_cast<TokenId>(*source.eos);
  INVARIANT(bos_ < static_cast<TokenId>(vocabulary_) && eos_ < static_cast<TokenId>(vocabulary_),
            "the vocabulary checked the ids of its special tokens");
  const std::pair<std::string_view, std::optional<std::uint64_t>> named[] = {
      {"unk_token", source.unknown},   {"pad_token", source.padding},
      {"sep_token", source.separator}, {"cls_token", source.classifier},
      {"mask_token", source.mask},
  };
  for (const auto& [name, id] : named) {
    if (id && *id < vocabulary_) named_tokens_.emplace_back(name, static_cast<TokenId>(*id));
  }
  adds_bos_ = source.add_bos.value_or(default_bos) && bos_ >= 0;
  adds_eos_ = source.add_eos.value_or(false) && eos_ >= 0;
  byte_tokens_.fill(-1);
  // Some files name a control token here. No text may become one, so it is ignored.
  const TokenId unknown = source.unknown ? static_cast<TokenId>(*source.unknown) : -1;
  if (unknown >= 0 && entries_.kind(unknown) != TokenKind::kControl) unknown_ = unknown;
}

Result<std::vector<TokenId>> VocabularyTokenizer::encode(std::string_view text,
                                                         SpecialTokens special,
                                                         bool add_bos) const {
  const TextPiece piece{text, special};
  return encode_pieces(std::span(&piece, 1), add_bos);
}

Result<std::vector<TokenId>> VocabularyTokenizer::encode_pieces(std::span<const TextPiece> pieces,
                                                                bool add_bos) const {
  std::size_t bytes = 0;
  for (const TextPiece& piece : pieces) {
    REQUIRE(piece.text.size() <= limits::kTextBytes - bytes,
            "text to tokenize is longer than the limit of ", limits::kTextBytes, " bytes");
    bytes += piece.text.size();
  }
  Joined joined;
  joined.text.reserve(bytes);
  for (const TextPiece& piece : pieces) joined.append(piece);

  std::vector<TokenId> ids;
  if (add_bos && adds_bos_) ids.push_back(bos_);
  const std::string_view text = joined.text;
  std::size_t open = 0;  // the first byte that is not encoded yet
  bool after_special = true;
  const auto flush = [&](std::size_t end) {
    INVARIANT(open <= end, "bytes are encoded in their order");
    if (open == end) return;
    encode_text(text.substr(open, end - open), after_special, ids);
    after_special = false;
  };
  auto stretch = joined.stretches.begin();
  for (std::size_t at = 0; at < text.size();) {
    if (at >= stretch->end) ++stretch;
    INVARIANT(stretch != joined.stretches.end() && at < stretch->end, "every byte has its stretch");
    const auto match = matcher_.longest_at(text, at, stretch->parse ? stretch->end : at);
    if (match.token < 0) {
      ++at;
      continue;
    }
    flush(at);
    ids.push_back(match.token);
    after_special = true;
    open = at += match.bytes;
    while (stretch != joined.stretches.end() && at >= stretch->end) ++stretch;
  }
  flush(text.size());
  return ids;
}

void VocabularyTokenizer::measure_tokens(bool replaced) {
  const bool whole =
      std::all_of(byte_tokens_.begin(), byte_tokens_.end(), [](TokenId t) { return t >= 0; });
  if (!whole && !replaced) return;
  longest_token_bytes_ = kCharacterBytes;  // of one that becomes the unknown token
  for (TokenId token = 0; known(token); ++token) {
    longest_token_bytes_ = std::max(longest_token_bytes_, token_bytes(token, true, false).size());
  }
}

std::string VocabularyTokenizer::token_bytes(TokenId token, bool show_special, bool first) const {
  if (!known(token)) return {};
  if (entries_.special(token)) {
    return show_special ? std::string(entries_.text(token)) : std::string();
  }
  const std::string_view text = entries_.text(token);
  const TokenKind kind = entries_.kind(token);
  const auto byte = kind == TokenKind::kByte ? named_byte(text) : std::nullopt;
  std::string bytes = byte                              ? std::string(1, static_cast<char>(*byte))
                      : kind == TokenKind::kUserDefined ? std::string(text)
                                                        : text_bytes(token);
  if (first && strips_first_space() && bytes.starts_with(' ')) bytes.erase(0, 1);
  return bytes;
}

std::optional<std::uint8_t> named_byte(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  std::uint8_t byte = 0;
  for (const char c : text.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9';
    const bool letter = c >= 'A' && c <= 'F';
    if (!digit && !letter) return std::nullopt;
    byte = static_cast<std::uint8_t>(byte * 16 + (digit ? c - '0' : c - 'A' + 10));
  }
  return byte;
}

}  // namespace hearth::model
