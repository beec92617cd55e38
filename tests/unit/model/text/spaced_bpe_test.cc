#include "model/text/spaced_bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/unit/model/small_vocabulary.h"

namespace hearth::model {
namespace {

using Ids = std::vector<TokenId>;
using Built = std::shared_ptr<const Tokenizer>;
constexpr TokenId kFirstByteToken = 4;
const std::string kMark = "\xE2\x96\x81";

Ids encode_lines(const Built& tokenizer, std::string_view text,
                 SpecialTokens special = SpecialTokens::kText, bool add_bos = false) {
  const auto ids = tokenizer->encode(text, special, add_bos);
  EXPECT_TRUE(ids.ok());
  return ids.ok() ? *ids : Ids{};
}

std::string decode_lines(const Built& tokenizer, const Ids& ids) {
  std::string text;
  for (const TokenId id : ids) text += tokenizer->token_bytes(id, false);
  return text;
}

TEST(SpacedBpe, MergesByRankOverSpaces) {
  SmallVocabulary v = small_spaced_bpe();
  const Built t = *v.build();
  EXPECT_EQ(encode_lines(t, "hello"), (Ids{v.id("hell"), v.id("o")}));
  // " he" comes before "hell", which would need the "he".
  EXPECT_EQ(encode_lines(t, " hello"), (Ids{v.id(kMark + "he"), v.id("llo")}));
  EXPECT_EQ(encode_lines(t, "o  o"), (Ids{v.id("o"), v.id(kMark + kMark), v.id("o")}));
  EXPECT_EQ(encode_lines(t, ""), Ids{});
}

TEST(SpacedBpe, LinesAreApartAndEndsOfLinesOneEntryWhereThereIsOne) {
  SmallVocabulary v = small_spaced_bpe();
  const Built t = *v.build();
  EXPECT_EQ(encode_lines(t, "h\n\n\ne"), (Ids{v.id("h"), v.id("\n\n\n"), v.id("e")}));
  EXPECT_EQ(encode_lines(t, "\n\n\n\n"), (Ids{v.id("\n\n"), v.id("\n\n")}));
  v.merge("h", "\n");
  EXPECT_EQ(encode_lines(*v.build(), "h\n"), (Ids{v.id("h"), v.id("\n")}));
}

TEST(SpacedBpe, WhatNoEntryCoversIsBytes) {
  SmallVocabulary v = small_spaced_bpe();
  const Built t = *v.build();
  EXPECT_EQ(encode_lines(t, "z\xC3\xA9"),
            (Ids{kFirstByteToken + 'z', kFirstByteToken + 0xC3, kFirstByteToken + 0xA9}));
  EXPECT_EQ(encode_lines(t, "\xFFh"), (Ids{kFirstByteToken + 0xFF, v.id("h")}));
  EXPECT_EQ(encode_lines(t, "hhe"), (Ids{v.id("h"), v.id("he")}));
  EXPECT_EQ(encode_lines(t, "hhh"), (Ids{kFirstByteToken + 'h', kFirstByteToken + 'h', v.id("h")}));
  for (std::size_t i = kFirstByteToken; i < kFirstByteToken + 256; ++i) {
    v.types[i] = static_cast<std::int64_t>(TokenKind::kUnused);
  }
  EXPECT_EQ(encode_lines(*v.build(), "hz"), (Ids{v.id("h"), v.id("<unk>")}));
}

TEST(SpacedBpe, TextSpellsNoSpecialToken) {
  SmallVocabulary v = small_spaced_bpe();
  const Built t = *v.build();
  for (const TokenId id : encode_lines(t, "<turn|><|tool_response><0x0A>")) {
    EXPECT_FALSE(t->is_special(id));
    EXPECT_NE(id, kFirstByteToken + 0x0A);
  }
  EXPECT_EQ(encode_lines(t, "h<turn|>", SpecialTokens::kParse), (Ids{v.id("h"), v.id("<turn|>")}));
}

TEST(SpacedBpe, AlwaysBeginsWithItsTokenAndEndsAtTheThreeOfItsTurns) {
  SmallVocabulary v = small_spaced_bpe();
  v.source.add_bos = false;
  const Built t = *v.build();
  EXPECT_EQ(encode_lines(t, "o", SpecialTokens::kText, true), (Ids{v.id("<bos>"), v.id("o")}));
  EXPECT_EQ(t->end_tokens(), (Ids{v.id("<eos>"), v.id("<turn|>"), v.id("<|tool_response>")}));
}

TEST(SpacedBpe, TextsSurvive) {
  SmallVocabulary v = small_spaced_bpe();
  const Built t = *v.build();
  SeededRandom random(5);
  constexpr std::string_view kLetters = "hello \n\xC3\xA9z\xFF";
  for (const std::size_t size : {1U, 7U, 100U, 20'000U}) {  // the last one takes the long way
    std::string text;
    while (text.size() < size) text += kLetters[random.next() % kLetters.size()];
    EXPECT_EQ(decode_lines(t, encode_lines(t, text)), text);
  }
}

}  // namespace
}  // namespace hearth::model
