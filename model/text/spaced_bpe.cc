#include "model/text/spaced_bpe.h"

#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "model/text/unicode.h"
#include "model/text/visible_spaces.h"

namespace hearth::model {

static_assert(limits::kTextBytes * kVisibleSpace.size() < kNoNode,
              "a place in a text with visible spaces has 32 bits");

Result<std::shared_ptr<const Tokenizer>> SpacedBpeTokenizer::build(const TokenizerSource& given) {
  TokenizerSource source = given;
  source.add_bos = true;
  TRY(Vocabulary entries, Vocabulary::build(source));
  Symbols symbols(entries.size());
  TRY(MergeTable merges, read_merges(source, entries, symbols));
  std::shared_ptr<SpacedBpeTokenizer> tokenizer(
      new SpacedBpeTokenizer(std::move(entries), source, std::move(symbols), std::move(merges)));
  tokenizer->measure_tokens(tokenizer->unknown_ >= 0);
  return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

SpacedBpeTokenizer::SpacedBpeTokenizer(Vocabulary vocabulary, const TokenizerSource& source,
                                       Symbols symbols, MergeTable merges)
    : VocabularyTokenizer(std::move(vocabulary), source, "spm", true),
      symbols_(std::move(symbols)),
      merges_(std::move(merges)) {
  for (TokenId token = 0; known(token); ++token) {
    if (entries().kind(token) != TokenKind::kByte) continue;
    if (const auto byte = named_byte(entries().text(token))) byte_tokens_[*byte] = token;
  }
}

void SpacedBpeTokenizer::encode_text(std::string_view text, bool, std::vector<TokenId>& out) const {
  const std::string visible = with_visible_spaces(text, false);
  MergeList list;
  for (std::size_t at = 0; at < visible.size();) {
    const bool ends = visible[at] == '\n';
    std::size_t next = ends ? visible.find_first_not_of('\n', at) : visible.find('\n', at);
    if (next == std::string::npos) next = visible.size();
    INVARIANT(next > at, "lines and their ends have bytes");
    const std::string_view line = std::string_view(visible).substr(at, next - at);
    at = next;
    const bool short_ends = ends && line.size() <= entries().longest();
    if (const TokenId token = short_ends ? entries().find_text(line) : -1; token >= 0) {
      out.push_back(token);
    } else {
      encode_line(line, list, out);
    }
  }
}

void SpacedBpeTokenizer::encode_line(std::string_view line, MergeList& list,
                                     std::vector<TokenId>& out) const {
  auto& nodes = list.nodes;
  nodes.clear();
  std::vector<std::uint32_t> begins;  // of each node in the line
  for (std::size_t at = 0; at < line.size();) {
    const Utf8Char c = decode_utf8(line, at);
    const std::size_t bytes = c.valid ? c.bytes : 1;
    begins.push_back(static_cast<std::uint32_t>(at));
    nodes.push_back({.value = symbols_.find(entries(), line.substr(at, bytes))});
    at += bytes;
  }
  list.run(
      [&](std::uint32_t left, std::uint32_t right) {
        return merges_.find(nodes[left].value, nodes[right].value).rank;
      },
      [&](std::uint32_t left, std::uint32_t right) {
        nodes[left].value = merges_.find(nodes[left].value, nodes[right].value).merged;
      });
  for (std::uint32_t i = 0; i != kNoNode; i = nodes[i].next) {
    if (nodes[i].value < entries().size()) {
      out.push_back(static_cast<TokenId>(nodes[i].value));
      continue;
    }
    const std::size_t end = nodes[i].next == kNoNode ? line.size() : begins[nodes[i].next];
    encode_bytes(line.substr(begins[i], end - begins[i]), out);
  }
}

void SpacedBpeTokenizer::encode_bytes(std::string_view bytes, std::vector<TokenId>& out) const {
  for (const char c : bytes) {
    const TokenId token = byte_tokens_[static_cast<std::uint8_t>(c)];
    if (token >= 0) {
      out.push_back(token);
    } else if (unknown_ >= 0) {
      out.push_back(unknown_);
    }
  }
}

std::string SpacedBpeTokenizer::text_bytes(TokenId token) const {
  return without_visible_spaces(entries().text(token));
}

}  // namespace hearth::model
