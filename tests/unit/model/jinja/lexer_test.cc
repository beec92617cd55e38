#include "model/jinja/lexer.h"

#include <gtest/gtest.h>

#include <string>

namespace hearth::model::jinja {
namespace {

std::string data_of(std::string_view source) {
  const auto tokens = tokenize(source);
  if (!tokens.ok()) return "error: " + tokens.error().message;
  std::string out;
  for (const Token& token : tokens.value()) {
    if (token.kind == TokenKind::kData) out += token.text;
  }
  return out;
}

TEST(JinjaLexer, TrimsAsHuggingFaceSetsIt) {
  EXPECT_EQ(data_of("  {% a %}\nx"), "x");
  EXPECT_EQ(data_of("  {%+ a %}\nx"), "  x");
  EXPECT_EQ(data_of("y  {% a %}\nx"), "y  x");
  EXPECT_EQ(data_of("y \n {%- a -%} \n x"), "yx");
  EXPECT_EQ(data_of("  {{ a }}\nx"), "  \nx");
  EXPECT_EQ(data_of("  {# a #}\nx"), "x");
  EXPECT_EQ(data_of("x\n"), "x");
  EXPECT_EQ(data_of("x\r\ny\r"), "x\ny");
}

TEST(JinjaLexer, UnescapesStrings) {
  const auto tokens = tokenize(R"({{ 'a\n\x41\u00e9\q\'' }})");
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(tokens.value()[1].kind, TokenKind::kString);
  EXPECT_EQ(tokens.value()[1].text, "a\nAé\\q'");
  EXPECT_FALSE(tokenize(R"({{ '\ud800' }})").ok());
  EXPECT_FALSE(tokenize(R"({{ '\x4' }})").ok());
}

TEST(JinjaLexer, NamesTheLine) {
  EXPECT_EQ(data_of("a\n\n{{ ? }}"), "error: chat template line 3: unexpected character '?'");
  EXPECT_EQ(data_of("a\n{# "), "error: chat template line 2: comment without an end");
  EXPECT_EQ(data_of("{{ (] }}"), "error: chat template line 1: unexpected ']'");
}

TEST(JinjaLexer, RawIsData) {
  EXPECT_EQ(data_of("{% raw %}{{ x }}{% endraw %}y"), "{{ x }}y");
  EXPECT_EQ(data_of("{% raw %}{{ x"), "error: chat template line 1: raw block without an end");
}

}  // namespace
}  // namespace hearth::model::jinja
