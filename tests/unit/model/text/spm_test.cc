#include "model/text/spm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/unit/model/small_vocabulary.h"

namespace hearth::model {
namespace {

using Ids = std::vector<TokenId>;
using Built = std::shared_ptr<const Tokenizer>;
constexpr TokenId kFirstByte = 3;
const std::string kSpace = "\xE2\x96\x81";

Built build_spm(SmallVocabulary& vocabulary) {
  auto built = vocabulary.build();
  EXPECT_TRUE(built.ok()) << (built.ok() ? "" : built.error().message);
  return built.ok() ? *built : nullptr;
}

Ids encode_spm(const Tokenizer& tokenizer, std::string_view text,
               SpecialTokens special = SpecialTokens::kText) {
  auto ids = tokenizer.encode(text, special, false);
  EXPECT_TRUE(ids.ok());
  return ids.ok() ? *ids : Ids{};
}

std::string decode_spm(const Tokenizer& tokenizer, const Ids& ids) {
  std::string text;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    text += tokenizer.token_bytes(ids[i], false, i == 0);
  }
  return text;
}

std::string spm_refusal(SmallVocabulary v) {
  const auto built = v.build();
  return built.ok() ? "accepted" : built.error().message;
}

TEST(Spm, MergesByScoreAfterTheSpacePrefix) {
  SmallVocabulary v = small_spm();
  const Built t = build_spm(v);
  EXPECT_EQ(encode_spm(*t, "hello"), (Ids{v.id(kSpace + "hello")}));
  EXPECT_EQ(encode_spm(*t, "hella"), (Ids{v.id(kSpace + "he"), v.id("ll"), v.id("a")}));
  EXPECT_EQ(encode_spm(*t, "a  a"),
            (Ids{v.id(kSpace), v.id("a"), v.id(kSpace + kSpace), v.id("a")}));
  EXPECT_EQ(encode_spm(*t, ""), Ids{});
  v.source.add_space_prefix = false;
  EXPECT_EQ(encode_spm(*build_spm(v), "hello"), (Ids{v.id("he"), v.id("llo")}));
}

TEST(Spm, OfEqualScoresTheLeftmostMerges) {
  SmallVocabulary v = small_spm();
  v.source.add_space_prefix = false;
  const Built t = build_spm(v);
  EXPECT_EQ(encode_spm(*t, "aaa"), (Ids{v.id("aa"), v.id("a")}));
  EXPECT_EQ(encode_spm(*t, "aaaaaa"), (Ids{v.id("aaaa"), v.id("aa")}));
}

TEST(Spm, WhatNoEntryCoversIsBytes) {
  SmallVocabulary v = small_spm();
  v.source.add_space_prefix = false;
  const Built t = build_spm(v);
  EXPECT_EQ(encode_spm(*t, "\xC3\xA9z"), (Ids{v.id("\xC3\xA9"), kFirstByte + 'z'}));
  EXPECT_EQ(encode_spm(*t, "\xE8\xAA\x9E"),
            (Ids{kFirstByte + 0xE8, kFirstByte + 0xAA, kFirstByte + 0x9E}));
  EXPECT_EQ(encode_spm(*t, "\xFFh"), (Ids{kFirstByte + 0xFF, v.id("h")}));
}

TEST(Spm, WithoutByteEntriesTheUnknownTokenOrTheReplacementStands) {
  SmallVocabulary v = small_spm();
  v.source.add_space_prefix = false;
  for (std::size_t i = kFirstByte; i < kFirstByte + 256; ++i) {
    v.types[i] = static_cast<std::int64_t>(TokenKind::kUnused);
  }
  const Built t = build_spm(v);
  EXPECT_EQ(encode_spm(*t, "h\xE8\xAA\x9Eh"), (Ids{v.id("h"), 0, v.id("h")}));
  EXPECT_EQ(encode_spm(*t, "\xFF"), (Ids{0}));
  const TokenId replacement = v.add("\xEF\xBF\xBD");
  EXPECT_EQ(encode_spm(*build_spm(v), "\xFF"), (Ids{replacement}));
}

TEST(Spm, TextSpellsNeitherSpecialNorByteTokens) {
  SmallVocabulary v = small_spm();
  v.source.add_space_prefix = false;
  const Built t = build_spm(v);
  EXPECT_EQ(encode_spm(*t, "</s>"), (Ids{v.id("</"), v.id("s>")}));
  for (const TokenId id : encode_spm(*t, "<s><unk><0x0A>")) {
    EXPECT_FALSE(t->is_special(id));
    EXPECT_NE(id, kFirstByte + 0x0A);
  }
  EXPECT_EQ(encode_spm(*t, "<s></s>", SpecialTokens::kParse), (Ids{1, 2}));
}

TEST(Spm, TheSpacePrefixStandsAgainBehindASpecialToken) {
  SmallVocabulary v = small_spm();
  const Built t = build_spm(v);
  EXPECT_EQ(encode_spm(*t, "a<|user|>a", SpecialTokens::kParse),
            (Ids{v.id(kSpace), v.id("a"), v.id("<|user|>"), v.id(kSpace), v.id("a")}));
}

TEST(Spm, TextsSurvive) {
  SeededRandom random(5);
  for (const bool prefix : {true, false}) {
    SmallVocabulary v = small_spm();
    v.source.add_space_prefix = prefix;
    const Built t = build_spm(v);
    const std::string_view parts[] = {
        "hello", " ",        "  ", "a", "\n", "\n\n", "\xC3\xA9", "</s>", "\xF0\x9F\x91\x8D",
        "\xFF",  "\xE2\x82", "z"};
    for (int round = 0; round < 2000; ++round) {
      // Behind a user-defined token the prefix stands again, and is not stripped there.
      std::string text;
      for (std::uint64_t i = random.next() % 20; i-- > 0;) {
        const std::string_view part = parts[random.next() % std::size(parts)];
        if (!prefix || part[0] != '\n') text += part;
      }
      const Ids ids = encode_spm(*t, text);
      ASSERT_EQ(decode_spm(*t, ids), text);
      ASSERT_LE(text.size(), ids.size() * t->longest_token_bytes());
    }
  }
}

TEST(Spm, DefaultsOfFilesThatNameNoIds) {
  SmallVocabulary v = small_spm();
  v.source.bos.reset();
  v.source.eos.reset();
  v.source.unknown.reset();
  const Built t = build_spm(v);
  EXPECT_EQ(t->bos(), 1);
  EXPECT_EQ(t->eos(), 2);
  EXPECT_TRUE(t->adds_bos());
  EXPECT_EQ(t->end_tokens(), (Ids{2}));
  EXPECT_EQ(*t->encode("", SpecialTokens::kText, true), (Ids{1}));
  v.source.add_bos = false;
  EXPECT_EQ(*build_spm(v)->encode("", SpecialTokens::kText, true), Ids{});
}

TEST(Spm, ScoresAreChecked) {
  SmallVocabulary v = small_spm();
  v.scores[7] = std::nan("");
  EXPECT_EQ(spm_refusal(v), "tokenizer.ggml.scores, entry 7: not a number");
  v.scores.pop_back();
  EXPECT_NE(spm_refusal(v).find("tokenizer.ggml.scores has"), std::string::npos) << spm_refusal(v);
  v = small_spm();
  v.scores[7] = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(spm_refusal(v), "accepted");
}

TEST(Spm, LongTextsWithoutSpaces) {
  SmallVocabulary v = small_spm();
  v.source.add_space_prefix = false;
  const Built t = build_spm(v);
  const std::string run(1 << 20, 'a');
  EXPECT_EQ(encode_spm(*t, run), Ids(run.size() / 4, v.id("aaaa")));
}

TEST(Spm, NamedBytes) {
  EXPECT_EQ(named_byte("<0x0A>"), 0x0A);
  EXPECT_EQ(named_byte("<0xFF>"), 0xFF);
  for (const std::string_view text : {"<0x0a>", "<0x0G>", "<0x0A", "0x0A", "", "<0x00A>"}) {
    EXPECT_EQ(named_byte(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace hearth::model
