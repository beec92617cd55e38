#include "model/grammar/token_masks.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/model/small_vocabulary.h"

namespace hearth::model {
namespace {

using Kind = GrammarSource::Kind;

// All bytes, pieces of JSON, and random pieces; the last but one is an end token, the last special.
std::shared_ptr<const GrammarVocabulary> vocabulary_of(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  for (const char* text : {"{\"", "\":",  "\",",   "\"}",      "\", \"", "}}",   "]}",    "},{\"",
                           ", ",  "true", "false", "null",     "[[",     "]]",   "\\u00", "\\n",
                           "  ",  "12",   "000",   "a\":1,\"", "ab",     "abc\""}) {
    texts.emplace_back(text);
  }
  const std::string letters = "abx01\"{}[]:, \\u\xC3\xA9";
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (std::size_t n = 1 + random() % 5; n > 0; --n) text += letters[random() % letters.size()];
    texts.push_back(text);
  }
  for (std::size_t length = 8; length <= 40; length += 4) {
    texts.emplace_back(length, 'a');
    std::string both;
    while (both.size() < length) both += "ab";
    texts.push_back(both);
    texts.push_back(both + '"');
  }
  // Runs of every kind and length: by themselves, next to another byte, cut within a character.
  for (std::size_t length = 1; length <= 24; ++length) {
    texts.push_back(std::string(length, 'q') + '7');
    texts.push_back(std::string(length, 'Q'));
    texts.push_back(' ' + std::string(length, 'a') + '-');
    std::string wide;
    for (std::size_t i = 0; i < length; ++i) wide += i % 3 == 0 ? "é" : i % 3 == 1 ? "漢" : "😀";
    texts.push_back(wide);
    texts.push_back(wide + 'a');
    texts.push_back(wide + "\xE6\xBC");
    texts.push_back("\x80" + wide);
    texts.push_back(wide + '\\');
  }
  texts.emplace_back("");
  texts.emplace_back("");
  const auto end = static_cast<TokenId>(texts.size() - 2);
  return GrammarVocabulary::build(std::move(texts), {end});
}

const std::vector<GrammarSource>& sources() {
  static const std::vector<GrammarSource> all{
      {Kind::kJsonObject, ""},
      {Kind::kJsonSchema, R"({"type":"object","properties":{"a":{"type":"string","maxLength":5},
        "b":{"type":"array","items":{"type":"integer"},"maxItems":4}},"required":["a"]})"},
      {Kind::kJsonSchema, R"({"type":"string","minLength":3,"maxLength":700})"},
      {Kind::kJsonSchema, R"({"anyOf":[{"type":"object","properties":{"a":{"type":"integer"}}},
        {"type":"object","properties":{"a":{"type":"string"},"ab":{"$ref":"#"}}}]})"},
      {Kind::kRegex, "(ab|a|b)*x{3,40}[^\"]*"},
      {Kind::kGbnf, "root ::= \"[\" root? \"]\" root | \"a\"*"},
      {Kind::kGbnf,
       "root ::= (a | b | c)*\na ::= \"a\" \"b\"?\nb ::= \"a\"? \"b\"\nc ::= a b | b a | "
       "\"x\"{1,3}"},
      {Kind::kGbnf, "root ::= x x x x\nx ::= (\"a\" | \"ab\" | \"b\")*"},
      // Counts near their bounds and far from them, of one reading and of several.
      {Kind::kJsonSchema, R"({"type":"array","minItems":2,"maxItems":14,"items":{"type":"array",
        "maxItems":11,"items":{"type":"string","minLength":12,"maxLength":34}}})"},
      {Kind::kRegex, "(a|aa){0,60}x{2,}"},
      {Kind::kGbnf, "root ::= x{1,12}\nx ::= y{11,40} \"x\"\ny ::= \"a\" | \"ab\" | \"b\""},
      {Kind::kGbnf, "root ::= (\"a\" | \"ab\" | \"b\"){10,30} [^x]{12,15}"},
      // Runs that all go on, to a length, or not alike.
      {Kind::kJsonSchema, R"({"type":"object","properties":{"a":{"format":"email","type":"string"},
        "b":{"type":"string","maxLength":17},"ab":{"type":"string","pattern":"^[a-z]{2,9}$"}},
        "required":["a","b","ab"],"additionalProperties":{"type":"string","minLength":3}})"},
      {Kind::kRegex, "[a-zA-Z0-9]{1,19}([^a]|aé)+[\\u0080-\\u{10FFFF}]{0,14}"},
      {Kind::kRegex, "[^\"\\\\]{0,18}(é|漢x)*"},
  };
  return all;
}

TEST(TokenMasks, AgreeWithTheStateOnEveryToken) {
  const auto vocabulary = vocabulary_of(1);
  for (std::size_t source = 0; source < sources().size(); ++source) {
    SCOPED_TRACE(source);
    const auto grammar = compile_grammar(sources()[source]);
    ASSERT_TRUE(grammar.ok()) << grammar.error().message;
    TokenMasks masks(*grammar, vocabulary);
    std::mt19937 random(static_cast<std::uint32_t>(source));
    for (int walk = 0; walk < 12; ++walk) {
      TokenState state = masks.start();
      for (int step = 0; step < 30; ++step) {
        const auto mask = masks.mask(state);
        std::vector<TokenId> allowed;
        for (std::uint32_t i = 0; i < vocabulary->size(); ++i) {
          const auto token = static_cast<TokenId>(i);
          GrammarState text = state.text;
          const std::string& bytes = vocabulary->text(token);
          const bool fits = vocabulary->is_end(token)
                                ? state.over || state.text.may_end()
                                : !state.over && !bytes.empty() && text.accept(bytes);
          ASSERT_EQ(masks.allows(*mask, token), fits) << "token " << token << " '" << bytes << "'";
          if (fits) allowed.push_back(token);
        }
        ASSERT_FALSE(allowed.empty());
        masks.accept(state, allowed[random() % allowed.size()]);
      }
    }
  }
}

TEST(GrammarVocabulary, KnowsWhichTokensAreRuns) {
  using Run = GrammarVocabulary::Run;
  const auto vocabulary = GrammarVocabulary::build(
      {"abc", "aB1", "é b", "a\"", "\xC3", "", "x\n", std::string(20, 'z')}, {0});
  const auto has = [](const TokenMask& mask) {
    std::set<int> out;
    for (int i = 0; i < 8; ++i) {
      if ((mask[0] >> i & 1) != 0) out.insert(i);
    }
    return out;
  };
  EXPECT_EQ(has(vocabulary->runs(Run::kText, 100)), (std::set<int>{1, 2, 7})) << "0 ends answers";
  EXPECT_EQ(has(vocabulary->runs(Run::kText, 2)), (std::set<int>{}));
  EXPECT_EQ(has(vocabulary->runs(Run::kText, 3)), (std::set<int>{1, 2})) << "é is one";
  EXPECT_EQ(has(vocabulary->runs(Run::kWord, 16)), (std::set<int>{1}));
  EXPECT_EQ(has(vocabulary->runs(Run::kLower, 17)), (std::set<int>{7}));
  for (std::size_t i = 0; i + 1 < vocabulary->nodes().size(); ++i) {
    const std::string_view text = vocabulary->text_to(static_cast<std::uint32_t>(i));
    const auto alike = vocabulary->nodes()[i].alike;
    if (text == "z") {
      EXPECT_EQ(alike, 7) << "below it is one text";
    } else if (text == "a") {
      EXPECT_EQ(alike, 0) << "a\" is below it";
    } else if (text == "aB") {
      EXPECT_EQ(alike, 3);
    } else if (text == "é") {
      EXPECT_EQ(alike, 1);
    }
  }
}

TEST(TokenMasks, EndTokensComeWhereTheTextMayEnd) {
  const auto grammar = compile_grammar({Kind::kChoice, R"(["q#"])"});
  const auto vocabulary = vocabulary_of(1);
  TokenMasks masks(*grammar, vocabulary);
  const TokenId end = vocabulary->end_tokens()[0];
  TokenState state = masks.start();
  EXPECT_FALSE(masks.allows(*masks.mask(state), end));
  EXPECT_EQ(masks.forced_bytes(state, 8), "q#");
  masks.accept(state, 'q');
  EXPECT_EQ(TokenMasks::only(*masks.mask(state)), TokenId{'#'});
  masks.accept(state, '#');
  EXPECT_EQ(TokenMasks::only(*masks.mask(state)), end);
  masks.accept(state, end);
  EXPECT_TRUE(state.over);
  EXPECT_EQ(TokenMasks::only(*masks.mask(state)), end);
}

TEST(TokenMasks, ATokenThatIsNotAllowedEndsTheText) {
  const auto grammar = compile_grammar({Kind::kChoice, R"(["q#"])"});
  const auto vocabulary = vocabulary_of(1);
  TokenMasks masks(*grammar, vocabulary);
  for (const TokenId token : {TokenId{'x'}, TokenId{-1}, static_cast<TokenId>(vocabulary->size()),
                              vocabulary->end_tokens()[0], vocabulary->end_tokens()[0] + 1}) {
    TokenState state = masks.start();
    masks.accept(state, token);
    EXPECT_TRUE(state.over) << token;
    EXPECT_EQ(TokenMasks::only(*masks.mask(state)), vocabulary->end_tokens()[0]);
  }
}

TEST(TokenMasks, AControlTokenComesWhereTheGrammarNamesIt) {
  SmallVocabulary small = small_bpe();
  const auto tokenizer = small.build();
  ASSERT_TRUE(tokenizer.ok());
  const auto vocabulary = GrammarVocabulary::build(**tokenizer);
  TokenId control = -1;
  for (std::uint32_t i = 0; i < vocabulary->size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    if ((*tokenizer)->is_special(token) && !vocabulary->is_end(token)) control = token;
  }
  ASSERT_GE(control, 0);
  const std::string spelled = (*tokenizer)->token_bytes(control, true);
  GrammarBuilder g;
  const auto grammar = g.build(g.sequence(
      {g.repeat(g.control(control), 1, 2), g.alternatives({g.literal("x"), g.literal(spelled)})}));
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  EXPECT_EQ((*Grammar::parse((*grammar)->bytes()))->hash(), (*grammar)->hash());
  TokenMasks masks(*grammar, vocabulary);
  TokenState state = masks.start();
  EXPECT_EQ(TokenMasks::only(*masks.mask(state)), control) << "no byte begins it";
  EXPECT_TRUE(masks.forced_bytes(state, 5) == control_token_bytes(control));
  masks.accept(state, control);
  EXPECT_FALSE(state.over);
  const auto mask = masks.mask(state);
  EXPECT_TRUE(masks.allows(*mask, control));
  EXPECT_EQ(TokenMasks::only(*mask), std::nullopt) << "a text may follow";
  masks.accept(state, control);
  EXPECT_FALSE(masks.allows(*masks.mask(state), control)) << "twice is all";
  TokenState text = masks.start();
  for (const TokenId token : *(*tokenizer)->encode(spelled, SpecialTokens::kText, false)) {
    masks.accept(text, token);
  }
  EXPECT_TRUE(text.over) << "a text that spells it is another";
}

TEST(TokenMasks, SpecialTokensAreNoText) {
  SmallVocabulary small = small_bpe();
  const auto tokenizer = small.build();
  ASSERT_TRUE(tokenizer.ok());
  const auto vocabulary = GrammarVocabulary::build(**tokenizer);
  const auto grammar = compile_grammar({Kind::kRegex, "[^]*"});
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  TokenMasks masks(*grammar, vocabulary);
  const TokenState state = masks.start();
  const auto mask = masks.mask(state);
  for (std::uint32_t i = 0; i < vocabulary->size(); ++i) {
    const auto token = static_cast<TokenId>(i);
    if (!(*tokenizer)->is_special(token)) continue;
    EXPECT_EQ(masks.allows(*mask, token), vocabulary->is_end(token)) << token;
  }
}

}  // namespace
}  // namespace hearth::model
