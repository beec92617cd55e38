#include "model/text/pretokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hearth::model {
namespace {

using Words = std::vector<std::string>;

Words split(PreTokenizer kind, std::string_view text) {
  Words words;
  std::size_t begin = 0;
  for (const std::uint32_t end : split_words(kind, text)) {
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, text.size());
  return words;
}

constexpr PreTokenizer kAll[] = {
    PreTokenizer::kGpt2,        PreTokenizer::kSmolLm,     PreTokenizer::kLlama3,
    PreTokenizer::kCl100k,      PreTokenizer::kGlm4,       PreTokenizer::kQwen2,
    PreTokenizer::kO200k,       PreTokenizer::kTekken,     PreTokenizer::kDefault,
    PreTokenizer::kDeepSeekLlm, PreTokenizer::kDeepSeekV3, PreTokenizer::kQwen35,
    PreTokenizer::kKimi};

TEST(PreTokenizer, Gpt2) {
  const auto split_gpt2 = [](std::string_view text) { return split(PreTokenizer::kGpt2, text); };
  EXPECT_EQ(split_gpt2("Hello world"), (Words{"Hello", " world"}));
  EXPECT_EQ(split_gpt2("it's they'LL"), (Words{"it", "'s", " they", "'", "LL"}));
  EXPECT_EQ(split_gpt2("we're 'd"), (Words{"we", "'re", " '", "d"}));
  EXPECT_EQ(split_gpt2("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(split_gpt2("a \tb"), (Words{"a", " ", "\t", "b"}));
  EXPECT_EQ(split_gpt2("a  "), (Words{"a", "  "}));
  EXPECT_EQ(split_gpt2("x=12345!?\n"), (Words{"x", "=", "12345", "!?", "\n"}));
  EXPECT_EQ(split_gpt2(" \xE2\x85\xA7 \xC3\x9F"), (Words{" \xE2\x85\xA7", " \xC3\x9F"}));
}

TEST(PreTokenizer, SmolLmTakesEachDigitAloneAndEndsWhatStandsBeforeIt) {
  EXPECT_EQ(split(PreTokenizer::kSmolLm, "a 12"), (Words{"a", " ", "1", "2"}));
  EXPECT_EQ(split(PreTokenizer::kSmolLm, "a   1b"), (Words{"a", "   ", "1", "b"}));
  EXPECT_EQ(split(PreTokenizer::kSmolLm, "x\xC2\xB2y"), (Words{"x", "\xC2\xB2", "y"}));
}

TEST(PreTokenizer, Llama3) {
  const auto split3 = [](std::string_view text) { return split(PreTokenizer::kLlama3, text); };
  EXPECT_EQ(split3("It'S 12345"), (Words{"It", "'S", " ", "123", "45"}));
  EXPECT_EQ(split3("(foo) \"bar"), (Words{"(foo", ")", " \"", "bar"}));
  EXPECT_EQ(split3("\tx\n\n  y"), (Words{"\tx", "\n\n", " ", " y"}));
  EXPECT_EQ(split3("a \r\n \n  b"), (Words{"a", " \r\n \n", " ", " b"}));
  EXPECT_EQ(split3("end!!\n\nx"), (Words{"end", "!!\n\n", "x"}));
  EXPECT_EQ(split3("\nx"), (Words{"\n", "x"}));
  EXPECT_EQ(split3("\xF0\x9F\x91\x8Dx"), (Words{"\xF0\x9F\x91\x8Dx"}));
  EXPECT_EQ(split3("a  "), (Words{"a", "  "}));
}

TEST(PreTokenizer, Cl100kAndGlm4SplitAsLlama3) {
  for (const std::string_view text : {"It'S 12345", "(foo) \"bar", "\tx\n\n  y", "end!!\n\nx  "}) {
    EXPECT_EQ(split(PreTokenizer::kCl100k, text), split(PreTokenizer::kLlama3, text));
    EXPECT_EQ(split(PreTokenizer::kGlm4, text), split(PreTokenizer::kLlama3, text));
  }
  EXPECT_EQ(find_pretokenizer("dbrx"), PreTokenizer::kCl100k);
  EXPECT_EQ(find_pretokenizer("glm4"), PreTokenizer::kGlm4);
}

TEST(PreTokenizer, TekkenSplitsAsO200kButForDigitsAndContractions) {
  const auto tekken = [](std::string_view text) { return split(PreTokenizer::kTekken, text); };
  EXPECT_EQ(tekken("HelloWorld 12"), (Words{"Hello", "World", " ", "1", "2"}));
  EXPECT_EQ(tekken("it's they'LL"), (Words{"it", "'s", " they", "'LL"}));
  EXPECT_EQ(tekken("a//\n  b"), (Words{"a", "//\n", " ", " b"}));
  EXPECT_EQ(find_pretokenizer("tekken"), PreTokenizer::kTekken);
}

TEST(PreTokenizer, DeepSeekLlmTakesLettersMarksAndNumbersApart) {
  const auto cut = [](std::string_view text) { return split(PreTokenizer::kDeepSeekLlm, text); };
  EXPECT_EQ(cut("Hello, world 1234"), (Words{"Hello", ",", " world", " ", "1234"}));
  EXPECT_EQ(cut("a\r\nb  "), (Words{"a", "\r", "\n", "b", "  "}));
  EXPECT_EQ(cut("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(cut("\xE4\xB8\xAD\xE6\x96\x87x"), (Words{"\xE4\xB8\xAD\xE6\x96\x87", "x"}));
  // The marks from ':' to '~' have the letters of ASCII among them.
  EXPECT_EQ(cut(" h\xC3\xA9llo"), (Words{" h", "\xC3\xA9", "llo"}));
  EXPECT_EQ(find_pretokenizer("deepseek-llm"), PreTokenizer::kDeepSeekLlm);
}

TEST(PreTokenizer, DeepSeekV3TakesAMarkWithTheLettersBehindIt) {
  const auto cut = [](std::string_view text) { return split(PreTokenizer::kDeepSeekV3, text); };
  EXPECT_EQ(cut("It's 12345 x"), (Words{"It", "'s", " ", "123", "45", " x"}));
  EXPECT_EQ(cut("a.b (foo) $$\n\nx"), (Words{"a", ".b", " (", "foo", ")", " $$\n\n", "x"}));
  EXPECT_EQ(cut("a \t\n  b  "), (Words{"a", " \t\n", " ", " b", "  "}));
  EXPECT_EQ(cut("e\xCC\x81t\xC3\xA9"), (Words{"e\xCC\x81t\xC3\xA9"}));
  EXPECT_EQ(cut("x\xE4\xB8\xAD\xE3\x81\x82y"), (Words{"x", "\xE4\xB8\xAD\xE3\x81\x82", "y"}));
  EXPECT_EQ(cut("\x01\x02"), (Words{"\x01\x02"})) << "what no expression takes stays together";
  EXPECT_EQ(find_pretokenizer("deepseek-v3"), PreTokenizer::kDeepSeekV3);
}

TEST(PreTokenizer, Qwen2TakesEachDigitAlone) {
  EXPECT_EQ(split(PreTokenizer::kQwen2, "x 12"), (Words{"x", " ", "1", "2"}));
}

TEST(PreTokenizer, Qwen35KeepsAccentsWithTheirLetters) {
  const auto cut = [](std::string_view text) { return split(PreTokenizer::kQwen35, text); };
  EXPECT_EQ(cut("It's THEY'LL x 12"), (Words{"It", "'s", " THEY", "'LL", " x", " ", "1", "2"}));
  // A combining mark (U+0301) goes on with a word, begins one, or is one behind a symbol.
  EXPECT_EQ(cut("e\xCC\x81t \xCC\x81"), (Words{"e\xCC\x81t", " \xCC\x81"}));
  EXPECT_EQ(cut("\xCC\x81x 1\xCC\x81"), (Words{"\xCC\x81x", " ", "1", "\xCC\x81"}));
  EXPECT_EQ(cut("=-\xCC\x81"), (Words{"=-", "\xCC\x81"}));
  EXPECT_EQ(cut("-\xCC\x81"), (Words{"-\xCC\x81"}));
  EXPECT_EQ(split(PreTokenizer::kQwen2, "e\xCC\x81t"), (Words{"e", "\xCC\x81t"}));
  EXPECT_EQ(cut("a.b (foo) $$\n\nx"), (Words{"a", ".b", " (", "foo", ")", " $$\n\n", "x"}));
  EXPECT_EQ(cut("a \t\n  b  "), (Words{"a", " \t\n", " ", " b", "  "}));
  EXPECT_EQ(find_pretokenizer("qwen35"), PreTokenizer::kQwen35);
}

TEST(PreTokenizer, O200kEndsAWordBeforeAnUpperCaseLetter) {
  const auto cut = [](std::string_view text) { return split(PreTokenizer::kO200k, text); };
  EXPECT_EQ(cut("camelCase HTTPServer ABC"), (Words{"camel", "Case", " HTTPServer", " ABC"}));
  EXPECT_EQ(cut("aB cD"), (Words{"a", "B", " c", "D"}));
  EXPECT_EQ(cut("It's THEY'LL x'd 'tis"), (Words{"It's", " THEY'LL", " x'd", " '", "tis"}));
  EXPECT_EQ(cut("a.b/c//\n\nx"), (Words{"a", ".b", "/c", "//\n\n", "x"}));
  EXPECT_EQ(cut("12345 \t\n  y"), (Words{"123", "45", " \t\n", " ", " y"}));
  // A letter without a case (U+00AA) is both: the word ends behind it, before upper case letters.
  EXPECT_EQ(cut("A\xC2\xAA"
                "BC"),
            (Words{"A\xC2\xAA", "BC"}));
  EXPECT_EQ(cut("\xC2\xAA\xC2\xAA"), (Words{"\xC2\xAA\xC2\xAA"}));
  // A combining mark (U+0301) goes on with a word, or begins one.
  EXPECT_EQ(cut("e\xCC\x81t \xCC\x81"), (Words{"e\xCC\x81t", " \xCC\x81"}));
  EXPECT_EQ(cut("\xC3\x89t\xC3\x89"), (Words{"\xC3\x89t", "\xC3\x89"}));
}

// The words that the package `tokenizers` makes of these with the expression of
// tokenization_kimi.py.
TEST(PreTokenizer, KimiTakesChineseCharactersApart) {
  const auto cut = [](std::string_view text) { return split(PreTokenizer::kKimi, text); };
  EXPECT_EQ(cut("HelloWorld HTTPServer aB"), (Words{"Hello", "World", " HTTPServer", " a", "B"}));
  EXPECT_EQ(cut("It's THEY'LL x'd 'tis"), (Words{"It's", " THEY'LL", " x'd", " '", "tis"}));
  EXPECT_EQ(cut("12345 \t\n  y"), (Words{"123", "45", " \t\n", " ", " y"}));
  EXPECT_EQ(cut("a//\n\nb /c"), (Words{"a", "//\n\n", "b", " /", "c"}));
  EXPECT_EQ(cut("\xE4\xB8\xAD\xE6\x96\x87"
                "English\xE6\xB7\xB7\xE6\x8E\x92"
                "ABC\xE4\xB8\xAD"),
            (Words{"\xE4\xB8\xAD\xE6\x96\x87", "English", "\xE6\xB7\xB7\xE6\x8E\x92", "ABC",
                   "\xE4\xB8\xAD"}));
  EXPECT_EQ(cut("\xE4\xBA\xBA\xE3\x80\x85\xE3\x81\xAF\xE3\x80\x87\xE4\xBA\x8C\xE3\x80\x81"
                "a\xE3\x80\x85"
                "b"),
            (Words{"\xE4\xBA\xBA\xE3\x80\x85", "\xE3\x81\xAF", "\xE3\x80\x87\xE4\xBA\x8C",
                   "\xE3\x80\x81"
                   "a",
                   "\xE3\x80\x85", "b"}));
  EXPECT_EQ(cut("!\xE2\xBA\x80\xE2\xBA\x80"
                "a \xE2\xBA\x80"),
            (Words{"!\xE2\xBA\x80\xE2\xBA\x80", "a", " \xE2\xBA\x80"}));
  EXPECT_EQ(cut(" \xE4\xB8\xAD  \xE4\xB8\xAD"),
            (Words{" ", "\xE4\xB8\xAD", " ", " ", "\xE4\xB8\xAD"}));
  EXPECT_EQ(cut("1\xE3\x80\x87"
                "2\xE3\x80\x87 \xE3\x80\xA1\xE3\x80\xA2"),
            (Words{"1\xE3\x80\x87"
                   "2",
                   "\xE3\x80\x87", " ", "\xE3\x80\xA1\xE3\x80\xA2"}));
  EXPECT_EQ(cut("e\xCC\x81t \xCC\x81x"), (Words{"e\xCC\x81t", " \xCC\x81x"}));
  EXPECT_EQ(cut("A\xC2\xAA"
                "BC"),
            (Words{"A\xC2\xAA", "BC"}));
  EXPECT_EQ(cut("\xEF\xA8\x8E\xEF\xA8\x90"
                "a"),
            (Words{"\xEF\xA8\x8E\xEF\xA8\x90", "a"}));
  EXPECT_EQ(cut("\xF0\xA0\x80\x80\xF0\xB0\x80\x80"
                "b"),
            (Words{"\xF0\xA0\x80\x80\xF0\xB0\x80\x80", "b"}));
  EXPECT_EQ(cut("\xF0\x96\xBF\xB0"
                "a"),
            (Words{"\xF0\x96\xBF\xB0", "a"}));
  EXPECT_EQ(find_pretokenizer("kimi-k2"), PreTokenizer::kKimi);
}

TEST(PreTokenizer, DefaultCutsPunctuationNumbersAndThreeDigits) {
  const auto cut = [](std::string_view text) { return split(PreTokenizer::kDefault, text); };
  EXPECT_EQ(cut("a, b"), (Words{"a", ",", " b"}));
  EXPECT_EQ(cut("x+=1234 5"), (Words{"x", "+=", "123", "4", " ", "5"}));
  EXPECT_EQ(cut("\xD9\xA1"
                "12345"),
            (Words{"\xD9\xA1", "123", "45"}));
  EXPECT_EQ(cut("it's"), (Words{"it", "'", "s"}));
}

TEST(PreTokenizer, WordsCoverEveryTextWithoutGaps) {
  std::uint64_t state = 7;
  const auto next = [&] { return state = state * 6364136223846793005U + 1442695040888963407U; };
  const std::string_view parts[] = {" ",  "\n", "\r", "a",  "Z",    "'s",   "9",       "\xC2\xA0",
                                    "\t", "-",  "'",  "\"", "\x80", "\xF0", "\xE2\x82"};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (std::uint64_t i = next() >> 59; i-- > 0;) text += parts[(next() >> 33) % std::size(parts)];
    for (const PreTokenizer kind : kAll) {
      std::uint32_t last = 0;
      for (const std::uint32_t end : split_words(kind, text)) {
        ASSERT_GT(end, last);
        last = end;
      }
      ASSERT_EQ(last, text.size());
    }
  }
}

TEST(PreTokenizer, LongRunsAreOneWordOrMany) {
  const std::string spaces(1 << 20, ' ');
  EXPECT_EQ(split_words(PreTokenizer::kLlama3, spaces).size(), 1U);
  const std::string lines = spaces + "x";
  EXPECT_EQ(split_words(PreTokenizer::kLlama3, lines).size(), 2U);
  std::string mixed;  // letters without a case make the longest word look back
  for (int i = 0; i < 1 << 18; ++i)
    mixed +=
        "A\xC2\xAA"
        "B";
  EXPECT_EQ(split_words(PreTokenizer::kO200k, mixed).size(), 2U);
  const std::string digits(1 << 20, '7');
  EXPECT_EQ(split_words(PreTokenizer::kQwen2, digits).size(), digits.size());
}

TEST(PreTokenizer, NamesOfFiles) {
  EXPECT_EQ(find_pretokenizer("smollm"), PreTokenizer::kSmolLm);
  EXPECT_EQ(find_pretokenizer("llama-bpe"), PreTokenizer::kLlama3);
  EXPECT_EQ(find_pretokenizer("qwen2"), PreTokenizer::kQwen2);
  EXPECT_EQ(find_pretokenizer("gpt-4o"), PreTokenizer::kO200k);
  EXPECT_EQ(find_pretokenizer("gpt-2"), PreTokenizer::kGpt2);
  EXPECT_EQ(find_pretokenizer("default"), PreTokenizer::kDefault);
  EXPECT_EQ(find_pretokenizer("no such"), std::nullopt);
  EXPECT_NE(known_pretokenizers().find("qwen2"), std::string::npos);
}

}  // namespace
}  // namespace hearth::model
