#include "model/text/bpe.h"

#include <utility>

#include "base/check.h"
#include "model/text/unicode.h"

namespace hearth::model {

namespace {

// GPT-2's map: bytes that print stand for themselves, the others for U+0100 and on, in order.
constexpr bool prints(std::uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}
constexpr std::size_t kOthers = 68;  // bytes that do not print
struct ByteMap {
  std::array<char32_t, 256> character{};
  std::array<std::uint8_t, kOthers> byte{};  // of U+0100 and on
};
constexpr ByteMap byte_map() {
  ByteMap map;
  std::uint32_t other = 0;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    if (prints(byte)) {
      map.character[byte] = byte;
    } else {
      map.character[byte] = 256 + other;
      map.byte[other++] = static_cast<std::uint8_t>(byte);
    }
  }
  return map;
}
constexpr ByteMap kByteMap = byte_map();
static_assert(kByteMap.character[' '] == 0x120 && kByteMap.byte[kOthers - 1] == 0xAD);

std::string printable_byte(std::size_t byte) {
  std::string text;
  append_utf8(kByteMap.character[byte], text);
  return text;
}

}  // namespace

char32_t bpe_character(std::uint8_t byte) { return kByteMap.character[byte]; }

std::string bpe_bytes(std::string_view printable) {
  std::string bytes;
  for (std::size_t at = 0; at < printable.size();) {
    const Utf8Char c = decode_utf8(printable, at);
    if (c.valid && c.point < 256 && prints(c.point)) {
      bytes += static_cast<char>(c.point);
    } else if (c.valid && c.point >= 256 && c.point < 256 + kOthers) {
      bytes += static_cast<char>(kByteMap.byte[c.point - 256]);
    } else {
      bytes += printable.substr(at, c.bytes);
    }
    at += c.bytes;
  }
  return bytes;
}

Result<std::shared_ptr<const Tokenizer>> BpeTokenizer::build(const TokenizerSource& source) {
  const std::string_view name = source.pre.empty() ? "default" : source.pre;
  const std::optional<PreTokenizer> pre = find_pretokenizer(name);
  if (!pre) {
    return Error::of(ErrorCode::kUnsupported, "tokenizer.ggml.pre is \"", name, "\"; known are ",
                     known_pretokenizers());
  }
  TRY(Vocabulary entries, Vocabulary::build(source));
  Symbols symbols(entries.size());
  TRY(MergeTable merges, read_merges(source, entries, symbols));
  std::array<std::uint32_t, 256> bytes{};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    bytes[byte] = symbols.number(entries, printable_byte(byte));
  }
  std::shared_ptr<BpeTokenizer> tokenizer(
      new BpeTokenizer(std::move(entries), source, *pre, std::move(merges)));
  tokenizer->byte_symbols_ = bytes;
  tokenizer->measure_tokens(!tokenizer->missing_.empty());
  return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

BpeTokenizer::BpeTokenizer(Vocabulary entries, const TokenizerSource& source, PreTokenizer pre,
                           MergeTable merges)
    : VocabularyTokenizer(std::move(entries), source, "bpe",
                          pre == PreTokenizer::kLlama3 || pre == PreTokenizer::kTekken),
      pre_(pre),
      whole_words_(pre == PreTokenizer::kLlama3 || pre == PreTokenizer::kGlm4 ||
                   pre == PreTokenizer::kTekken),
      merges_(std::move(merges)) {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    byte_tokens_[byte] = this->entries().find_text(printable_byte(byte));
  }
  for (const char c : kReplacementUtf8) {
    const TokenId token = byte_tokens_[static_cast<std::uint8_t>(c)];
    if (token >= 0) missing_.push_back(token);
  }
  if (missing_.size() == kReplacementUtf8.size()) return;
  missing_.clear();
  if (unknown_ >= 0) missing_.push_back(unknown_);
}

void BpeTokenizer::encode_text(std::string_view text, bool, std::vector<TokenId>& out) const {
  MergeList list;
  std::string printable;
  std::size_t begin = 0;
  for (const std::uint32_t end : split_words(pre_, text)) {
    INVARIANT(end > begin && end <= text.size(), "words follow each other");
    const std::string_view word = text.substr(begin, end - begin);
    begin = end;
    if (whole_words_ && word.size() <= entries().longest()) {
      printable.clear();
      for (const char c : word) append_utf8(bpe_character(static_cast<std::uint8_t>(c)), printable);
      if (const TokenId token = entries().find_text(printable); token >= 0) {
        out.push_back(token);
        continue;
      }
    }
    encode_word(word, list, out);
  }
  INVARIANT(begin == text.size(), "words are the whole text");
}

void BpeTokenizer::encode_word(std::string_view word, MergeList& list,
                               std::vector<TokenId>& out) const {
  // One node a byte: the index of a node is where its text begins in the word.
  auto& nodes = list.nodes;
  nodes.assign(word.size(), MergeNode{});
  for (std::size_t i = 0; i < word.size(); ++i) {
    nodes[i].value = byte_symbols_[static_cast<std::uint8_t>(word[i])];
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
    const std::size_t end = nodes[i].next == kNoNode ? word.size() : nodes[i].next;
    encode_bytes(word.substr(i, end - i), out);
  }
}

void BpeTokenizer::encode_bytes(std::string_view bytes, std::vector<TokenId>& out) const {
  for (const char c : bytes) {
    const TokenId token = byte_tokens_[static_cast<std::uint8_t>(c)];
    if (token >= 0) {
      out.push_back(token);
    } else {
      out.insert(out.end(), missing_.begin(), missing_.end());
    }
  }
}

std::string BpeTokenizer::text_bytes(TokenId token) const {
  return bpe_bytes(entries().text(token));
}

}  // namespace hearth::model
