#include "model/text/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/unit/model/small_vocabulary.h"

namespace hearth::model {
namespace {

using Ids = std::vector<TokenId>;
using Built = std::shared_ptr<const Tokenizer>;

Built build(SmallVocabulary& vocabulary) {
  auto built = vocabulary.build();
  EXPECT_TRUE(built.ok()) << (built.ok() ? "" : built.error().message);
  return built.ok() ? *built : nullptr;
}

Ids encode(const Tokenizer& tokenizer, std::string_view text,
           SpecialTokens special = SpecialTokens::kText) {
  auto ids = tokenizer.encode(text, special, false);
  EXPECT_TRUE(ids.ok());
  return ids.ok() ? *ids : Ids{};
}

std::string decode(const Tokenizer& tokenizer, const Ids& ids) {
  std::string text;
  for (const TokenId id : ids) text += tokenizer.token_bytes(id, true);
  return text;
}

TEST(Bpe, EveryByteHasAPrintableCharacterAndBack) {
  std::map<char32_t, int> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t point = bpe_character(static_cast<std::uint8_t>(byte));
    EXPECT_EQ(seen.count(point), 0U);
    seen[point] = byte;
    std::string printable;
    append_utf8(point, printable);
    EXPECT_EQ(bpe_bytes(printable), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(bpe_character(' '), 0x120U);
  EXPECT_EQ(bpe_character('\n'), 0x10AU);
  EXPECT_EQ(bpe_bytes("\xE8\xAA\x9E"), "\xE8\xAA\x9E");  // none of them: kept
}

TEST(Bpe, MergesTheBestPairFirst) {
  SmallVocabulary v = small_bpe();
  const Built t = build(v);
  EXPECT_EQ(encode(*t, "hello"), (Ids{v.id("hello")}));
  EXPECT_EQ(encode(*t, "hello world"), (Ids{v.id("hello"), v.id("\xC4\xA0worl"), 'd'}));
  EXPECT_EQ(encode(*t, "hellll"), (Ids{v.id("hell"), v.id("ll")}));
  EXPECT_EQ(encode(*t, ""), Ids{});
}

TEST(Bpe, OfEqualPairsTheLeftmostMerges) {
  SmallVocabulary v = small_bpe();
  const Built t = build(v);
  EXPECT_EQ(encode(*t, "aaa"), (Ids{v.id("aa"), 'a'}));
  EXPECT_EQ(encode(*t, "aaaaaaa"), (Ids{v.id("aaaa"), v.id("aa"), 'a'}));
}

TEST(Bpe, AgreesWithMergingByTheLetterOfTheDefinition) {
  SmallVocabulary v = small_bpe();
  const Built t = build(v);
  SeededRandom random(11);
  const std::string letters = "helowra";
  for (int round = 0; round < 2000; ++round) {
    std::string word;
    for (std::uint64_t i = random.next() % 24 + 1; i-- > 0;) {
      word += letters[random.next() % letters.size()];
    }
    std::vector<std::string> parts;
    for (const char c : word) parts.emplace_back(1, c);
    for (const std::string& merge : v.merges) {  // every rank to its end before the next
      const std::string left = merge.substr(0, merge.find(' '));
      const std::string right = merge.substr(merge.find(' ') + 1);
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        if (parts[i] != left || parts[i + 1] != right) continue;
        parts[i] += right;
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    }
    Ids expected;
    for (const std::string& part : parts) expected.push_back(v.id(part));
    ASSERT_EQ(encode(*t, word), expected) << word;
  }
}

TEST(Bpe, RandomBytesSurvive) {
  SeededRandom random(3);
  for (const std::string_view pre :
       {"gpt-2", "smollm", "llama-bpe", "qwen2", "gpt-4o", "kimi-k2", "default"}) {
    SmallVocabulary v = small_bpe(pre);
    const Built t = build(v);
    for (int round = 0; round < 500; ++round) {
      std::string bytes;
      for (std::uint64_t i = random.next() % 60; i-- > 0;) {
        bytes += static_cast<char>(random.next());
      }
      const Ids ids = encode(*t, bytes);
      ASSERT_EQ(decode(*t, ids), bytes);
      ASSERT_LE(bytes.size(), ids.size() * t->longest_token_bytes());
      ASSERT_EQ(decode(*t, encode(*t, bytes, SpecialTokens::kParse)), bytes);
    }
  }
}

TEST(Bpe, Llama3TakesAWordThatIsAnEntryWhole) {
  SmallVocabulary v = small_bpe("llama-bpe");
  const TokenId whole = v.add("who");  // an entry that no merge makes
  const Built t = build(v);
  EXPECT_EQ(encode(*t, "who"), (Ids{whole}));
  for (const std::string_view pre : {"gpt-2", "dbrx", "smaug-bpe", "chatglm-bpe"}) {
    SmallVocabulary plain = small_bpe(pre);
    plain.add("who");
    EXPECT_EQ(encode(*build(plain), "who"), (Ids{'w', 'h', 'o'})) << pre;
  }
  for (const std::string_view pre : {"glm4", "tekken"}) {
    SmallVocabulary other = small_bpe(pre);
    const TokenId same = other.add("who");
    EXPECT_EQ(encode(*build(other), "who"), (Ids{same})) << pre;
  }
}

TEST(Bpe, ABytethatTheVocabularyLacksBecomesTheReplacement) {
  SmallVocabulary v = small_bpe();
  v.tokens[0xFF] = "[unused]";
  const Built t = build(v);
  EXPECT_EQ(encode(*t, "\xFF"), (Ids{0xEF, 0xBF, 0xBD}));
  v.tokens[0xEF] = "[unused 2]";
  EXPECT_EQ(encode(*build(v), "a\xFF"), (Ids{'a'}));
  EXPECT_EQ(t->longest_token_bytes(), 13U) << "of <|endoftext|>";
  EXPECT_EQ(build(v)->longest_token_bytes(), 0U) << "a byte that is left out has no token at all";
  v.source.unknown = 'u';
  EXPECT_EQ(encode(*build(v), "a\xFF"), (Ids{'a', 'u'}));
  v.source.unknown = v.source.bos;  // a control token: not from text
  EXPECT_EQ(encode(*build(v), "a\xFF"), (Ids{'a'}));
}

TEST(Bpe, MergesOfPartsOutsideOfTheVocabularyLeadOnAndFallApart) {
  SmallVocabulary v = small_bpe();
  v.merges.emplace_back("x y");   // "xy" is no entry
  v.merges.emplace_back("xy z");  // "xyz" is
  const TokenId xyz = v.add("xyz");
  const Built t = build(v);
  EXPECT_EQ(encode(*t, "xyz"), (Ids{xyz}));
  EXPECT_EQ(encode(*t, "xyo"), (Ids{'x', 'y', 'o'}));
}

TEST(Bpe, NoMergeMakesASpecialToken) {
  SmallVocabulary v = small_bpe();
  // Typed as text, yet the vocabulary has no other padding mark: it ends a generation.
  const TokenId end = v.add("<PAD>");
  v.merges.insert(v.merges.begin(), {"< P", "A D", "AD >", "<P AD>"});
  v.add("<P");
  v.add("AD");
  v.add("AD>");
  const Built t = build(v);
  EXPECT_TRUE(t->is_special(end));
  const Ids ids = encode(*t, "<PAD>");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 0);
  EXPECT_EQ(decode(*t, ids), "<PAD>");
  SmallVocabulary whole = small_bpe("llama-bpe");
  whole.add("[EOS]");
  EXPECT_EQ(encode(*build(whole), "[EOS]").size(), 5U);
}

TEST(Bpe, MergesWithoutTwoPartsAreRefused) {
  for (const std::string merge : {"ab", "", "a ", " "}) {
    SmallVocabulary v = small_bpe();
    v.merges.push_back(merge);
    const auto built = v.build();
    ASSERT_FALSE(built.ok());
    EXPECT_NE(built.error().message.find("tokenizer.ggml.merges, entry 12"), std::string::npos)
        << built.error().message;
  }
}

TEST(Bpe, AnUnknownPreTokenizerIsRefusedByName) {
  SmallVocabulary v = small_bpe("martian");
  const auto built = v.build();
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(built.error().message.find("\"martian\""), std::string::npos);
  EXPECT_NE(built.error().message.find("smollm"), std::string::npos);
}

TEST(Bpe, LongTextsOfOneWord) {
  SmallVocabulary v = small_bpe();
  const Built t = build(v);
  const std::string run(1 << 20, 'a');
  EXPECT_EQ(encode(*t, run), Ids(run.size() / 4, v.id("aaaa")));
  std::string family;
  while (family.size() < (1 << 20)) family += "\xF0\x9F\x91\xA9\xE2\x80\x8D";
  EXPECT_EQ(decode(*t, encode(*t, family)), family);
}

}  // namespace
}  // namespace hearth::model
