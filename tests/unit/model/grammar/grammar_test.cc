#include "model/grammar/grammar.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/limits.h"
#include "model/grammar/encoding.h"
#include "model/grammar/grammar_state.h"

namespace hearth::model {
namespace {

using Kind = GrammarSource::Kind;

bool allows(const Grammar& grammar, std::string_view text) {
  GrammarState state(grammar);
  return state.accept(text) && state.may_end();
}

std::shared_ptr<const Grammar> grammar_of(Kind kind, std::string text) {
  const auto grammar = compile_grammar({kind, std::move(text)});
  EXPECT_TRUE(grammar.ok()) << grammar.error().message;
  return grammar.ok() ? *grammar : nullptr;
}

std::string error_of(Kind kind, std::string text) {
  const auto grammar = compile_grammar({kind, std::move(text)});
  return grammar.ok() ? "" : grammar.error().message;
}

void expect(Kind kind, const std::string& text, const std::vector<std::string>& in,
            const std::vector<std::string>& out) {
  SCOPED_TRACE(text);
  const auto grammar = grammar_of(kind, text);
  ASSERT_NE(grammar, nullptr);
  for (const std::string& one : in) EXPECT_TRUE(allows(*grammar, one)) << one;
  for (const std::string& one : out) EXPECT_FALSE(allows(*grammar, one)) << one;
  const auto again = Grammar::parse(grammar->bytes());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->hash(), grammar->hash());
}

TEST(Grammar, RegexIsTheWholeText) {
  expect(Kind::kRegex, "[a-c]+x?", {"a", "cabx"}, {"", "x", "ad", "axx"});
  expect(Kind::kRegex, "^(ab|c{2,3})$", {"ab", "cc", "ccc"}, {"abab", "c", "cccc", ""});
  expect(Kind::kRegex, "\\d{4}-[01]\\d", {"2024-12"}, {"224-12", "2024-22"});
  expect(Kind::kRegex, ".", {"é", "\xF0\x9F\x98\x80", "x"}, {"\n", "", "\xC3", "\xED\xA0\x80"});
  expect(Kind::kRegex, "[^\\x00-\\u{FFFF}]", {"\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"},
         {"a", "\xEF\xBF\xBF"});
  expect(Kind::kRegex, "a|^b|c$|^$", {"a", "b", "c", ""}, {"ab"});
  expect(Kind::kRegex, "(?:x|)(?<name>y)*?", {"", "x", "xyy", "y"}, {"xx"});
}

TEST(Grammar, RegexErrorsNameThePlace) {
  EXPECT_EQ(error_of(Kind::kRegex, "a(?=b)"),
            "regular expression: look-around at byte 1 is not supported");
  EXPECT_EQ(error_of(Kind::kRegex, "(a)\\1"),
            "regular expression: a back reference at byte 4 is not supported");
  EXPECT_EQ(error_of(Kind::kRegex, "a)"),
            "regular expression: a closing parenthesis without an opening one at byte 1");
  EXPECT_EQ(error_of(Kind::kRegex, "[z-a]"),
            "regular expression: a range that is out of order at byte 4");
  EXPECT_EQ(error_of(Kind::kRegex, "a^b"), "regular expression: no text matches it");
  EXPECT_NE(error_of(Kind::kRegex, "(a|b)*a(a|b){20}"), "");
  EXPECT_NE(error_of(Kind::kRegex, std::string(500, '(')), "");
}

TEST(Grammar, ChoiceIsOneOfTheTexts) {
  expect(Kind::kChoice, R"(["yes", "no", "nö"])", {"yes", "no", "nö"}, {"y", "", "yesno"});
  EXPECT_EQ(error_of(Kind::kChoice, "[]"), "choice: must be a list of strings that is not empty");
  EXPECT_EQ(error_of(Kind::kChoice, "[1]"), "choice: must be a list of strings");
}

TEST(Grammar, GbnfNestsAndRepeats) {
  expect(Kind::kGbnf, "root ::= \"(\" root* \")\" # balanced\n", {"()", "(()(()))"},
         {"", "(", "())"});
  expect(Kind::kGbnf, "root ::= item (\",\" item){1,2}\nitem ::= [0-9]+ |\n  \"x\"",
         {"1,x", "12,3,4"}, {"1", "1,2,3,4", ","});
  expect(Kind::kGbnf, "root ::= a root | a\na ::= \"a\"", {"a", std::string(3000, 'a')},
         {"", "ab"});
  expect(Kind::kGbnf, "root ::= [^\\n\"]+ \"\\x41\\u00e9\" .", {"zA\xC3\xA9\n"}, {"\"A\xC3\xA9z"});
  expect(Kind::kGbnf, "root ::= (ws? \"a\"?)* \"b\"\nws ::= \" \"*", {"b", " a  ab"}, {"", "a"});
  expect(Kind::kGbnf, "root ::= x{3} x{0}\nx ::= \"q\" | \"qq\"", {"qqq", "qqqqqq"},
         {"qq", "qqqqqqq"});
}

TEST(Grammar, GbnfErrorsNameTheLine) {
  EXPECT_EQ(error_of(Kind::kGbnf, "root ::= b\n"),
            "GBNF: the rule b is used on line 1 but not defined");
  EXPECT_EQ(error_of(Kind::kGbnf, "a ::= \"x\""),
            "GBNF: there is no rule named root, with which a text begins");
  EXPECT_EQ(error_of(Kind::kGbnf, "root ::= \"x\"\nroot ::= \"y\""),
            "GBNF: a rule is defined for the second time on line 2");
  EXPECT_EQ(error_of(Kind::kGbnf, "root ::= root \"a\" | \"b\""),
            "the grammar has a rule that calls itself before it reads a byte");
  EXPECT_EQ(error_of(Kind::kGbnf, "root ::= \"a\" root"), "the grammar allows no text at all");
}

TEST(Grammar, AnUnfinishedTextCanAlwaysBeFinished) {
  // At the depth limit, no bracket is opened that could not be closed.
  const auto grammar = grammar_of(Kind::kGbnf, "root ::= \"[\" (root | \"x\") \"]\" | \"e\"");
  GrammarState state(*grammar);
  std::uint32_t open = 0;
  while (GrammarState(state).accept('[')) {
    ASSERT_TRUE(state.accept('['));
    ++open;
  }
  EXPECT_LE(open, limits::kGrammarDepth + 1);  // the first needs no frame
  EXPECT_GT(open, limits::kGrammarDepth / 4);
  ASSERT_TRUE(state.can_go_on());
  ASSERT_TRUE(GrammarState(state).accept('x') || GrammarState(state).accept('e'));
  ASSERT_TRUE(state.accept(GrammarState(state).accept('x') ? 'x' : 'e'));
  while (!state.may_end()) ASSERT_TRUE(state.accept(']'));
}

TEST(Grammar, WhereNoByteLeadsToAnEndTheTextMayEnd) {
  // The end, or "(" with a second one that is never closed.
  const auto grammar = Grammar::parse(encode_states(
      {{.final = true, .bytes = {{'(', '(', 1}}, .calls = {}},
       {.final = false, .bytes = {}, .calls = {{.start = 2, .min = 1, .max = 1, .next = 2}}},
       {.final = false, .bytes = {{')', ')', 2}}, .calls = {}}}));
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  GrammarState state(**grammar);
  EXPECT_TRUE(state.may_end());
  EXPECT_FALSE(state.broken());
  EXPECT_FALSE(state.accept('('));
}

TEST(Grammar, PartsAreComposed) {
  GrammarBuilder g;
  const auto call = g.sequence(
      {g.literal("<tool_call>{\"name\":\"add\",\"arguments\":"),
       g.source({Kind::kJsonSchema, R"({"type":"object","properties":{"a":{"type":"integer"}},
                                        "required":["a"],"additionalProperties":false})"}),
       g.literal("}</tool_call>")});
  const auto grammar = g.build(g.sequence({g.until("</think>"), g.repeat(call, 1, 2)}));
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  const std::string one = R"(<tool_call>{"name":"add","arguments":{"a":1}}</tool_call>)";
  EXPECT_TRUE(allows(**grammar, "hm</th</think>" + one));
  EXPECT_TRUE(allows(**grammar, "</think>" + one + one));
  EXPECT_FALSE(allows(**grammar, "</think>" + one + one + one));
  EXPECT_FALSE(allows(**grammar, "</think></think>" + one));
  EXPECT_FALSE(allows(**grammar, one));

  GrammarBuilder free;
  const auto text = free.build(free.text_without({"<tool", "ab"}));
  ASSERT_TRUE(text.ok());
  EXPECT_TRUE(allows(**text, "a tale of <t ool\xC3\xA9"));
  EXPECT_FALSE(allows(**text, "x<tool"));
  EXPECT_FALSE(allows(**text, "aab"));

  GrammarBuilder wrong;
  const auto part = wrong.source({Kind::kRegex, "("}, "tool get_weather");
  const auto failed = wrong.build(wrong.sequence({part, wrong.literal("x")}));
  ASSERT_FALSE(failed.ok());
  EXPECT_TRUE(failed.error().message.starts_with("tool get_weather: regular expression: "));
}

TEST(Grammar, ParseTakesWhatWasEncodedAndNothingElse) {
  const auto grammar = grammar_of(Kind::kJsonObject, "");
  const Bytes& good = grammar->bytes();
  EXPECT_LE(good.size(), limits::kGrammarBytes);
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(Grammar::parse(ByteSpan(good).first(size)).ok()) << size;
  }
  Bytes more = good;
  more.push_back(std::byte{0});
  EXPECT_FALSE(Grammar::parse(more).ok());
  // One state that may end, in a form that is not the shortest: 0x81 0x00 is 1.
  const auto bytes = [](std::initializer_list<int> values) {
    Bytes out;
    for (const int value : values) out.push_back(static_cast<std::byte>(value));
    return out;
  };
  EXPECT_TRUE(Grammar::parse(bytes({1, 1, 1, 0})).ok());
  EXPECT_FALSE(Grammar::parse(bytes({1, 1, 0x81, 0, 0})).ok());
  EXPECT_FALSE(Grammar::parse(bytes({2, 1, 1, 0})).ok());              // another version
  EXPECT_FALSE(Grammar::parse(bytes({1, 0})).ok());                    // no state
  EXPECT_FALSE(Grammar::parse(bytes({1, 1, 3, 5, 4, 0, 0})).ok());     // a range out of order
  EXPECT_FALSE(Grammar::parse(bytes({1, 1, 3, 5, 5, 2, 0})).ok());     // no such state
  EXPECT_FALSE(Grammar::parse(bytes({1, 1, 1, 1, 0, 1, 2, 0})).ok());  // calls itself first
  EXPECT_FALSE(Grammar::parse(bytes({1, 1, 2, 5, 5, 0, 0})).ok());     // never ends
  EXPECT_FALSE(Grammar::parse(Bytes(limits::kGrammarBytes + 1)).ok());
}

TEST(Grammar, EqualSourcesGiveEqualBytes) {
  const std::string schema = R"({"anyOf":[{"type":"string","maxLength":9},{"enum":[1,null,"x"]}]})";
  EXPECT_EQ(grammar_of(Kind::kJsonSchema, schema)->bytes(),
            grammar_of(Kind::kJsonSchema, schema)->bytes());
}

}  // namespace
}  // namespace hearth::model
