#include "model/chat/elements.h"

#include <gtest/gtest.h>

#include <string>

#include "base/limits.h"

namespace hearth::model {
namespace {

// MiniMax M3's brackets.
std::optional<std::string> read(const std::string& text, const std::string& schema = {}) {
  ChatSyntax syntax;
  syntax.form = CallForm::kElements;
  syntax.parameter_begin = "]<]minimax[>[<";
  syntax.key_end = ">";
  syntax.value_end = "]<]minimax[>[</";
  std::string whole;  // written with '@' before each tag
  for (const char c : text) whole += c == '@' ? std::string("]<]minimax[>[") : std::string(1, c);
  return elements_to_json(syntax, whole, schema);
}

std::string object_of(const std::string& properties) {
  return R"({"type": "object", "properties": {)" + properties + "}}";
}

// As llama.cpp's tests/test-chat.cpp has them for that model.
TEST(Elements, ObjectsAndListsAreElementsInTurn) {
  EXPECT_EQ(read(""), "{}");
  EXPECT_EQ(read("@<ref>-14@</ref>@<name>foo bar@</name>",
                 object_of(R"("ref": {"type": "integer"}, "name": {"type": "string"})")),
            R"({"ref": -14, "name": "foo bar"})");
  EXPECT_EQ(read("@<number>@<real>1.5@</real>@<imaginary>-2.5@</imaginary>@</number>"),
            R"({"number": {"real": 1.5, "imaginary": -2.5}})");
  EXPECT_EQ(read("@<tags>@<item>alpha@</item>@<item>beta@</item>@</tags>\n@<entries>@<item>"
                 "@<id>1@</id>@<label>one@</label>@</item>@</entries>"),
            R"({"tags": ["alpha", "beta"], "entries": [{"id": 1, "label": "one"}]})");
}

TEST(Elements, TheSchemaTellsTextsFromOtherValues) {
  const std::string text = R"("a": {"type": "string"})";
  EXPECT_EQ(read("@<a>12@</a>", object_of(text)), R"({"a": "12"})");
  EXPECT_EQ(read("@<a>12@</a>"), R"({"a": 12})");
  EXPECT_EQ(read("@<a> x\n@</a>"), R"({"a": " x\n"})");
  // A text may look like elements, and is one in a union as well.
  const std::string choice =
      R"("a": {"oneOf": [{"type": "object"}, {"type": ["null", "string"]}]})";
  EXPECT_EQ(read("@<a>@<b>hi@</b>@</a>", object_of(choice)),
            R"({"a": "]<]minimax[>[<b>hi]<]minimax[>[</b>"})");
  EXPECT_TRUE(may_be_text(R"({"anyOf": [{"type": "null"}, {"type": "string"}]})"));
  EXPECT_FALSE(may_be_text(R"({"type": "object", "properties": {"a": {"type": "string"}}})"));
  // Parts of objects and of lists have schemas of their own.
  const std::string deep = R"("l": {"anyOf": [{"type": "array", "items": {"type": "string"}},
      {"type": "object", "properties": {"n": {"type": "string"}}}]})";
  EXPECT_EQ(read("@<l>@<item>1@</item>@</l>", object_of(deep)), R"({"l": ["1"]})");
  EXPECT_EQ(read("@<l>@<n>1@</n>@</l>", object_of(deep)), R"({"l": {"n": "1"}})");
}

TEST(Elements, WhatIsEmptyIsWhatTheSchemaSays) {
  const std::string schema =
      object_of(R"("l": {"type": "array"}, "o": {"type": "object"}, "s": {"type": "string"})");
  EXPECT_EQ(read("@<l>@</l>@<o>\n@</o>@<s>@</s>@<x>@</x>", schema),
            R"({"l": [], "o": {}, "s": "", "x": ""})");
  EXPECT_EQ(read("@<l>[\"a\"]@</l>", schema), R"({"l": ["a"]})");
  // An object whose only key is "item" is no list where the schema has that key.
  EXPECT_EQ(read("@<o>@<item>1@</item>@</o>",
                 object_of(R"("o": {"properties": {"item": {"type": "string"}}})")),
            R"({"o": {"item": "1"}})");
}

TEST(Elements, OtherTextIsRefused) {
  for (const char* text : {"x", "@<a>1", "@<a>1@</b>", "@<a>1@</a>x", "@<>1@</>", "@</a>", "@<a",
                           "@<a>@<b>1@</b>x@</a>", "@<a>@<b>1@</a>@</b>"}) {
    EXPECT_EQ(read(text), std::nullopt) << text;
  }
  const auto nested = [](std::size_t depth) {
    std::string text;
    for (std::size_t i = 0; i < depth; ++i) text += "@<a>";
    for (std::size_t i = 0; i < depth; ++i) text += "@</a>";
    return text;
  };
  EXPECT_TRUE(read(nested(limits::kJsonDepth)));
  EXPECT_FALSE(read(nested(limits::kJsonDepth + 2)));
}

}  // namespace
}  // namespace hearth::model
