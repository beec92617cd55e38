#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "model/text/unicode.h"
#include "tests/unit/model/small_vocabulary.h"

namespace hearth::model {
namespace {

// What a whole text becomes when every maximal broken part is replaced.
std::string repaired(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Char c = decode_utf8(bytes, at);
    text += c.valid ? bytes.substr(at, c.bytes) : kReplacementUtf8;
    at += c.bytes;
  }
  return text;
}

bool whole_characters(std::string_view text) { return repaired(text) == text; }

// A byte-level vocabulary: token n below 256 is the byte n.
std::shared_ptr<const Tokenizer> bytes_tokenizer() {
  SmallVocabulary v = small_bpe();
  return *v.build();
}

TEST(Detokenizer, HoldsACharacterUntilItIsWhole) {
  Detokenizer d(bytes_tokenizer(), false);
  EXPECT_EQ(d.push('a'), "a");
  EXPECT_EQ(d.push(0xF0), "");
  EXPECT_EQ(d.push(0x9F), "");
  EXPECT_EQ(d.push(0x91), "");
  EXPECT_EQ(d.push(0x8D), "\xF0\x9F\x91\x8D");
  EXPECT_EQ(d.finish(), "");
}

TEST(Detokenizer, ABrokenCharacterInMidStreamIsReplacedAtOnce) {
  Detokenizer d(bytes_tokenizer(), false);
  EXPECT_EQ(d.push(0x80), "\xEF\xBF\xBD");
  EXPECT_EQ(d.push(0xE2), "");
  EXPECT_EQ(d.push(0x82), "");
  EXPECT_EQ(d.push('x'), "\xEF\xBF\xBDx");
  EXPECT_EQ(d.push(0xE2), "");
  EXPECT_EQ(d.push(0xE2), "\xEF\xBF\xBD");
  EXPECT_EQ(d.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(d.finish(), "");
}

TEST(Detokenizer, StreamingEqualsDecodingTheWhole) {
  const auto tokenizer = bytes_tokenizer();
  SeededRandom random(17);
  const std::uint8_t likely[] = {0xF0, 0x9F, 0x91, 0x8D, 0xE2, 0x82, 0xAC, 0xC3, 0xA9, 0xED, 'a'};
  for (int round = 0; round < 5000; ++round) {
    Detokenizer d(tokenizer, false);
    std::string bytes;
    std::string streamed;
    for (std::uint64_t i = random.next() % 40; i-- > 0;) {
      const std::uint64_t draw = random.next();
      const TokenId token = draw % 4 == 0 ? static_cast<TokenId>((draw >> 8) % 268)
                                          : likely[(draw >> 8) % std::size(likely)];
      bytes += tokenizer->token_bytes(token, false);
      const std::string text = d.push(token);
      ASSERT_TRUE(whole_characters(text));
      streamed += text;
      ASSERT_LE(bytes.size(), streamed.size() + 3) << "held too much";
    }
    streamed += d.finish();
    ASSERT_EQ(streamed, repaired(bytes));
  }
}

TEST(Detokenizer, ShowsSpecialTokensOnlyWhenAsked) {
  SmallVocabulary v = small_bpe();
  const auto tokenizer = *v.build();
  Detokenizer hidden(tokenizer, false);
  EXPECT_EQ(hidden.push(v.id("<|im_end|>")), "");
  EXPECT_EQ(hidden.push(v.id("<think>")), "<think>");
  Detokenizer shown(tokenizer, true);
  EXPECT_EQ(shown.push(v.id("<|im_end|>")), "<|im_end|>");
}

TEST(Detokenizer, IdsOutsideOfTheVocabularyShowNothing) {
  Detokenizer d(bytes_tokenizer(), true);
  EXPECT_EQ(d.push(-1), "");
  EXPECT_EQ(d.push(1'000'000), "");
  EXPECT_EQ(d.push('a'), "a");
}

TEST(Detokenizer, StripsTheSpaceThatSentencePieceAdds) {
  SmallVocabulary v = small_spm();
  const auto tokenizer = *v.build();
  const TokenId piece = v.id("\xE2\x96\x81he");
  Detokenizer d(tokenizer, false);
  EXPECT_EQ(d.push(1), "");  // BOS leaves it to the next
  EXPECT_EQ(d.push(piece), "he");
  EXPECT_EQ(d.push(piece), " he");
  EXPECT_EQ(d.finish(), "");
}

}  // namespace
}  // namespace hearth::model
