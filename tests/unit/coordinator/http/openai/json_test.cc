#include "coordinator/http/openai/json.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "coordinator/http/openai/fields.h"
#include "model/gguf/untrusted_text.h"

namespace hearth::coordinator::http {
namespace {

TEST(JsonTest, DepthIsBoundedExactly) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(parse_json(nested(limits::kJsonDepth)).ok());
  auto deeper = parse_json(nested(limits::kJsonDepth + 1));
  ASSERT_FALSE(deeper.ok());
  EXPECT_NE(deeper.error().message.find("64 levels"), std::string::npos);
}

TEST(JsonTest, ValuesAreBounded) {
  std::string many = "[0";
  for (std::uint32_t i = 0; i < limits::kJsonValues; ++i) many += ",0";
  EXPECT_FALSE(parse_json(many + "]").ok());
}

TEST(JsonTest, RefusesWhatIsNotJson) {
  for (const char* text : {"", "{", "{]", "nul", "NaN", "Infinity", "1e400", "-1e999", "'a'", "01",
                           "\"\\ud800\"", "\"\\udc00\\ud800\"", "\"\xff\"", "\"\xc0\x80\"",
                           "\"\xed\xa0\x80\"", "1 2", "{\"a\":1,}", "\"\x01\""}) {
    auto parsed = parse_json(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, "invalid_json");
    EXPECT_EQ(parsed.error().status, 400U);
  }
}

TEST(JsonTest, AnEmptyBodyIsCalledSo) {
  for (const char* text : {"", " \r\n"}) {
    EXPECT_EQ(parse_json(text).error().message, "the body is empty; it must be a JSON object");
  }
}

TEST(JsonTest, LastOfDuplicateKeysCounts) {
  auto parsed = parse_json(R"({"a":1,"a":2})");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ((*parsed)["a"], 2);
}

TEST(JsonTest, ValidUtf8ReplacesExactlyWhatIsBroken) {
  EXPECT_EQ(valid_utf8("a\xffz"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(valid_utf8("\xE2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(valid_utf8("\xF0\x9F\x98\x80"), "\xF0\x9F\x98\x80");
  EXPECT_FALSE(model::is_utf8("\xF4\x90\x80\x80"));
  EXPECT_FALSE(model::is_utf8("\xED\xA0\x80"));
  EXPECT_TRUE(model::is_utf8(std::string_view("\0", 1)));
}

TEST(FieldReaderTest, FirstErrorSticksAndNamesTheField) {
  const Json body = {{"a", "x"}, {"b", 3.5}, {"c", nullptr}, {"d", 3.0}};
  FieldReader fields(body);
  EXPECT_FALSE(fields.integer("c", 0, 9).has_value());  // null equals absent
  EXPECT_EQ(fields.integer("d", 0, 9), 3);
  EXPECT_FALSE(fields.failed());
  EXPECT_FALSE(fields.integer("b", 0, 9).has_value());
  EXPECT_FALSE(fields.boolean("a").has_value());
  EXPECT_EQ(fields.error().param, "b");
}

TEST(FieldReaderTest, IntegersKeepTheirRange) {
  EXPECT_EQ(as_integer(Json::parse("9223372036854775807")), INT64_MAX);
  EXPECT_EQ(as_integer(Json::parse("-9223372036854775808")), INT64_MIN);
  EXPECT_FALSE(as_integer(Json::parse("9223372036854775808")).has_value());
  EXPECT_FALSE(as_integer(Json::parse("1e300")).has_value());
  EXPECT_FALSE(as_integer(Json("7")).has_value());
}

}  // namespace
}  // namespace hearth::coordinator::http
