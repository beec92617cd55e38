#include "model/chat/literal.h"

#include <gtest/gtest.h>

namespace hearth::model {
namespace {

TEST(LiteralTest, JsonStaysAsItIs) {
  for (const char* text : {R"({"a" :1,"b":[ true,null, "x\u00e9" ]})", "-1.5e+3", "\"\"", "[]"}) {
    EXPECT_EQ(literal_to_json(text), text);
  }
  EXPECT_EQ(literal_to_json(" 1\n"), "1");
}

TEST(LiteralTest, OtherFormsBecomeJson) {
  EXPECT_EQ(literal_to_json("{'a': True, 'b': None,}"), R"({"a": true, "b": null})");
  EXPECT_EQ(literal_to_json("'it\\'s \"x\"'"), R"("it's \"x\"")");
  EXPECT_EQ(literal_to_json("{a:<|\"|>x\"<|\"|>}", "<|\"|>"), R"({"a": "x\""})");
  EXPECT_EQ(literal_to_json("\"a\nb\""), R"("a\nb")");
}

TEST(LiteralTest, WhatIsNoValueIsNone) {
  for (const char* text : {"", "{", "{\"a\" 1}", "01", "1 2", "truex", "[1 2]", "\"a", "{,}", "-",
                           R"("\u00g0")", "\"\\u00\x10\x11\""}) {
    EXPECT_FALSE(literal_to_json(text).has_value()) << text;
  }
  EXPECT_FALSE(literal_to_json(std::string(100'000, '[')).has_value());
}

TEST(LiteralTest, TheLastOfEqualKeysCounts) {
  const auto object = read_literal_object(R"({"a": 1, "a": 2})", '{', '}');
  ASSERT_TRUE(object.has_value());
  EXPECT_EQ(object_json(*object), R"({"a": 2})");
}

}  // namespace
}  // namespace hearth::model
