#include "model/text/spm.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "model/text/unicode.h"
#include "model/text/visible_spaces.h"

namespace hearth::model {

namespace {

Status check_scores(const TokenizerSource& source) {
  REQUIRE(source.scores.size() == source.tokens.size(), "tokenizer.ggml.scores has ",
          source.scores.size(), " entries and tokenizer.ggml.tokens ", source.tokens.size());
  for (std::size_t i = 0; i < source.scores.size(); ++i) {
    REQUIRE(!std::isnan(source.scores[i]), "tokenizer.ggml.scores, entry ", i, ": not a number");
  }
  return ok_status();
}

static_assert(limits::kTextBytes * kVisibleSpace.size() + kVisibleSpace.size() < kNoNode,
              "a place in a text with visible spaces has 32 bits");

// Equal scores have equal ranks: of equals the leftmost pair merges first.
std::vector<std::uint32_t> ranks_of(std::span<const double> scores) {
  std::vector<double> sorted(scores.begin(), scores.end());
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<std::uint32_t> ranks;
  ranks.reserve(scores.size());
  for (const double score : scores) {
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), score, std::greater<>());
    ranks.push_back(static_cast<std::uint32_t>(at - sorted.begin()));
  }
  return ranks;
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> SpmTokenizer::build(const TokenizerSource& given) {
  TokenizerSource source = given;
  const auto fall_back = [&](std::optional<std::uint64_t>& id, std::uint64_t value) {
    if (!id && value < source.tokens.size()) id = value;
  };
  fall_back(source.bos, 1);
  fall_back(source.eos, 2);
  fall_back(source.unknown, 0);
  TRY_VOID(check_scores(source));
  TRY(Vocabulary entries, Vocabulary::build(source));
  std::shared_ptr<SpmTokenizer> tokenizer(new SpmTokenizer(std::move(entries), source));
  tokenizer->measure_tokens(tokenizer->unknown_ >= 0);
  return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

SpmTokenizer::SpmTokenizer(Vocabulary vocabulary, const TokenizerSource& source)
    : VocabularyTokenizer(std::move(vocabulary), source, "spm", true),
      space_prefix_(source.add_space_prefix.value_or(true)),
      ranks_(ranks_of(source.scores)) {
  INVARIANT(ranks_.size() == entries().size(), "every entry has a rank");
  replacement_ = find_piece(kReplacementUtf8);
  for (TokenId token = 0; known(token); ++token) {
    if (entries().kind(token) != TokenKind::kByte) continue;
    if (const auto byte = named_byte(entries().text(token))) byte_tokens_[*byte] = token;
  }
}

TokenId SpmTokenizer::find_piece(std::string_view text) const {
  if (text.size() > entries().longest()) return -1;
  const TokenId token = entries().find_text(text);
  return token >= 0 && entries().kind(token) != TokenKind::kByte ? token : -1;
}

void SpmTokenizer::encode_text(std::string_view text, bool after_special,
                               std::vector<TokenId>& out) const {
  const std::string visible = with_visible_spaces(text, space_prefix_ && after_special);
  MergeList list;
  auto& nodes = list.nodes;
  for (std::size_t at = 0; at < visible.size();) {
    nodes.push_back({.value = static_cast<std::uint32_t>(at)});
    const Utf8Char c = decode_utf8(visible, at);
    at += c.valid ? c.bytes : 1;
  }
  const auto end_of = [&](std::uint32_t node) {
    return nodes[node].next == kNoNode ? visible.size() : nodes[nodes[node].next].value;
  };
  const auto span_of = [&](std::uint32_t first, std::uint32_t last) {
    return std::string_view(visible).substr(nodes[first].value, end_of(last) - nodes[first].value);
  };
  list.run(
      [&](std::uint32_t left, std::uint32_t right) {
        const TokenId token = find_piece(span_of(left, right));
        return token < 0 ? kNoRank : ranks_[static_cast<std::size_t>(token)];
      },
      [](std::uint32_t, std::uint32_t) {});
  for (std::uint32_t i = nodes.empty() ? kNoNode : 0; i != kNoNode; i = nodes[i].next) {
    const std::string_view piece = span_of(i, i);
    if (const TokenId token = find_piece(piece); token >= 0) {
      out.push_back(token);
    } else {
      encode_unknown(piece, out);
    }
  }
}

void SpmTokenizer::encode_unknown(std::string_view character, std::vector<TokenId>& out) const {
  const auto token_of = [&](char c) { return byte_tokens_[static_cast<std::uint8_t>(c)]; };
  if (std::all_of(character.begin(), character.end(), [&](char c) { return token_of(c) >= 0; })) {
    for (const char c : character) out.push_back(token_of(c));
  } else if (!decode_utf8(character, 0).valid && replacement_ >= 0) {
    out.push_back(replacement_);
  } else if (unknown_ >= 0) {
    out.push_back(unknown_);
  }
}

std::string SpmTokenizer::text_bytes(TokenId token) const {
  return without_visible_spaces(entries().text(token));
}

}  // namespace hearth::model
