// The first byte chooses: a text against small fixed vocabularies, or a vocabulary made of the
// input. No input may end the process, make a special token of user text, or lose a byte of a
// byte-level text.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "model/gguf/untrusted_text.h"
#include "model/text/tokenizer.h"
#include "tests/unit/model/small_vocabulary.h"

namespace {

using hearth::TokenId;
using namespace hearth::model;  // NOLINT
using Built = std::shared_ptr<const Tokenizer>;

std::string decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += tokenizer.token_bytes(id, true);
  return text;
}

std::string stream(const Built& tokenizer, const std::vector<TokenId>& ids) {
  Detokenizer detokenizer(tokenizer, true);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id);
  return text + detokenizer.finish();
}

// Both ways, and cut in two: what must hold of any tokenizer and any text.
void check_text(const Built& tokenizer, std::string_view text, bool lossless, TokenId unknown) {
  for (const SpecialTokens special : {SpecialTokens::kText, SpecialTokens::kParse}) {
    const auto ids = tokenizer->encode(text, special, false);
    INVARIANT(ids.ok(), "a short text was refused");
    INVARIANT(!lossless || decode(*tokenizer, *ids) == text, "bytes were lost");
    INVARIANT(is_utf8(stream(tokenizer, *ids)), "a stream was no UTF-8");
    for (const TokenId id : *ids) {
      INVARIANT(id >= 0 && id < static_cast<TokenId>(tokenizer->vocabulary()), "no such token");
      INVARIANT(special == SpecialTokens::kParse || !tokenizer->is_special(id) || id == unknown,
                "user text became a special token");
    }
  }
  const TextPiece pieces[] = {{text.substr(0, text.size() / 2), SpecialTokens::kParse},
                              {text.substr(text.size() / 2), SpecialTokens::kText}};
  const auto ids = tokenizer->encode_pieces(pieces, true);
  INVARIANT(ids.ok(), "short pieces were refused");
}

void fixed_vocabularies(std::string_view text) {
  static const std::array<Built, 9> kTokenizers = {
      *small_bpe("gpt-2").build(),   *small_bpe("smollm").build(), *small_bpe("llama-bpe").build(),
      *small_bpe("qwen2").build(),   *small_bpe("gpt-4o").build(), *small_bpe("default").build(),
      *small_bpe("kimi-k2").build(), *small_spm().build(),         *small_spaced_bpe().build()};
  for (const Built& tokenizer : kTokenizers) {
    check_text(tokenizer, text, tokenizer->kind() == "bpe", -1);
  }
}

// Entries and merges are the lines of the input; a first byte of a line is its kind.
void made_vocabulary(std::string_view input, bool bpe) {
  SmallVocabulary vocabulary =
      bpe ? small_bpe(input.size() % 2 == 0 ? "qwen2" : "smollm") : SmallVocabulary();
  if (!bpe) vocabulary.source.model = input.size() % 2 == 0 ? "llama" : "gemma4";
  hearth::ByteReader reader(hearth::as_bytes(input));
  const auto eos = reader.read<std::uint8_t>();
  if (eos % 4 == 0) vocabulary.source.eos = eos * 8;
  while (reader.remaining() > 0) {
    const auto head = reader.read<std::uint8_t>();
    const auto size = std::min<std::size_t>(head >> 3, reader.remaining());
    std::string text(hearth::as_text(reader.take(size)));
    if ((head & 7) == 7) {
      vocabulary.merges.push_back(std::move(text));
    } else {
      vocabulary.add(std::move(text), static_cast<TokenKind>(head & 7), head % 16);
    }
  }
  const auto built = vocabulary.build();
  if (!built.ok()) return;
  const std::size_t unknown = vocabulary.source.unknown.value_or(0);
  const bool stands = static_cast<TokenKind>(vocabulary.types[unknown]) == TokenKind::kUnknown;
  check_text(*built, input, false, stands ? static_cast<TokenId>(unknown) : -1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 65536) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view rest = input.substr(1);
  switch (data[0] % 3) {
    case 0: fixed_vocabularies(rest); break;
    case 1: made_vocabulary(rest, true); break;
    default: made_vocabulary(rest, false); break;
  }
  return 0;
}
