#include "model/grammar/schema.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/limits.h"
#include "model/grammar/grammar_state.h"

namespace hearth::model {
namespace {

void expect(const std::string& schema, const std::vector<std::string>& in,
            const std::vector<std::string>& out) {
  SCOPED_TRACE(schema);
  const auto grammar = compile_grammar({GrammarSource::Kind::kJsonSchema, schema});
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  const auto allows = [&](const std::string& text) {
    GrammarState state(**grammar);
    return state.accept(text) && state.may_end();
  };
  for (const std::string& text : in) EXPECT_TRUE(allows(text)) << text;
  for (const std::string& text : out) EXPECT_FALSE(allows(text)) << text;
}

std::string error_of(const std::string& schema) {
  const auto grammar = compile_grammar({GrammarSource::Kind::kJsonSchema, schema});
  return grammar.ok() ? "" : grammar.error().message;
}

TEST(Schema, SpacesAreAtMostOneBehindCommaAndColon) {
  expect("true", {R"({"a":1,"b":[1,2]})", R"({"a": 1, "b": [1, 2]})"},
         {R"( {"a":1})", R"({ "a":1})", R"({"a" :1})", R"({"a":  1})", R"([1 ,2])", "[1,2] ", "[ ]",
          "{\n}"});
}

TEST(Schema, StringsHaveEscapesAndAreUtf8) {
  expect(R"({"type":"string"})", {R"("a\n\u00e9\ud83d\ude00/\/")", "\"\xC3\xA9\""},
         {"\"\n\"", "\"\xC3\"", R"("\ud83d")", R"("\ude00")", R"("\x")", R"("a)"});
  expect(R"({"type":"string","minLength":2,"maxLength":3})", {R"("ab")", R"("é\ud83d\ude00x")"},
         {R"("a")", R"("abcd")"});
  expect(R"({"pattern":"^[a\n\"]+$","type":"string"})", {R"("a\n\"")"}, {R"("b")", R"("")"});
  expect(R"({"type":"string","pattern":"a","maxLength":2})", {R"("ba")", R"("a")"},
         {R"("bba")", R"("b")"});
  expect(R"({"enum":["a\u0001b"]})", {R"("a\u0001b")"}, {R"("a")"});
}

TEST(Schema, NumbersKeepTheirBounds) {
  expect(R"({"type":"integer","minimum":-12,"exclusiveMaximum":105})",
         {"-12", "0", "99", "104", "-9", "-1"}, {"-13", "105", "1000", "01", "-0", "1.0", "-100"});
  expect(R"({"type":"number","minimum":0.5,"maximum":12.25})",
         {"0.5", "0.50", "12.25", "12.250", "3", "3.00", "12.2"},
         {"0.49", "12.251", "13", "-1", "0"});
  expect(R"({"type":"number","maximum":-1.5})", {"-1.5", "-2", "-10.01"},
         {"-1.49", "0", "1.5", "-1"});
  expect(R"({"multipleOf":0.25,"type":"number"})", {"0.25", "1", "1.5", "-0.75", "2.50"},
         {"0.2", "1.3", "0.125"});
  expect(R"({"multipleOf":7,"type":"integer","minimum":1})", {"7", "21", "7007"}, {"0", "8", "-7"});
  expect(R"({"type":"number"})", {"1e5", "-0.5E-7", "0"}, {"1.", ".5", "01", "+1"});
  expect(R"({"type":"number","not":{"const":1.5}})", {"1", "1.25"}, {"1.5", "1.50"});
}

TEST(Schema, MembersComeInDeclaredOrder) {
  const std::string schema = R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2},
      "c":{"const":3}},"required":["b"],"additionalProperties":false})";
  expect(schema, {R"({"b":2})", R"({"a":1,"b":2})", R"({"a":1, "b":2, "c":3})", R"({"b":2,"c":3})"},
         {"{}", R"({"a":1})", R"({"b":2,"a":1})", R"({"b":2,"b":2})", R"({"b":2,})",
          R"({"b":2,"d":1})"});
  expect(
      R"({"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":{"const":1}})",
      {"{}", R"({"a":null,"x":1})", R"({"ab":1})"}, {R"({"a":1})", R"({"x":null})"});
  expect(R"({"type":"object","patternProperties":{"^n":{"const":1},"x$":{"type":"integer"}},
             "additionalProperties":false})",
         {R"({"n":1,"ax":7})", R"({"nx":1})"}, {R"({"nx":7})", R"({"b":1})", R"({"n":2})"});
  expect(R"({"type":"object","required":["z","a"]})", {R"({"z":1,"a":{}})"},
         {"{}", R"({"a":1,"z":1})"});
  expect(R"({"type":"object","propertyNames":{"maxLength":2},"maxProperties":2})",
         {R"({"ab":1,"c":2})"}, {R"({"abc":1})", R"({"a":1,"b":2,"c":3})"});
  expect(R"({"type":"object","dependentRequired":{"a":["b"]},"properties":{"a":true,"b":true},
             "additionalProperties":false})",
         {"{}", R"({"b":1})", R"({"a":1,"b":1})"}, {R"({"a":1})"});
}

// Members that are all optional, with names of their own.
std::string optional_members(std::uint32_t count, const std::string& begin) {
  std::string out = R"({"type":"object","properties":{)";
  for (std::uint32_t i = 0; i < count; ++i) {
    out += (i > 0 ? ",\"" : "\"") + begin + std::to_string(i) + R"(":{"type":"integer"})";
  }
  return out + "}}";
}

TEST(Schema, ManyMembersMayBeAbsent) {
  expect(optional_members(60, "some_long_name_"),
         {"{}", R"({"some_long_name_0":1,"some_long_name_7":2,"some_long_name_59":3})",
          R"({"some_long_name_59":3,"some_long_name_60":"free"})",
          R"({"some_long_name_3\u001f":1,"some_long_name_3\u000A":1,"some_long_name_\n":[]})",
          R"({"some_long_name_1Ã©":true})"},
         {R"({"some_long_name_7":2,"some_long_name_6":1})", R"({"some_long_name_7":"x"})",
          R"({"some_long_name_60":1,"some_long_name_7":2})", R"({"some_long_name_3\u0020":1})",
          R"({"some_long_name_7":1,"some_long_name_7":1})", R"({"some_long_name_3\u001g":1})",
          "{\"some_long_name_1\xC3\":true}"});
}

TEST(Schema, ManyMembersOfDifferentNamesFit) {
  for (const std::uint32_t count : {10U, 30U, 50U}) {
    std::string schema = R"({"type":"object","properties":{)";
    for (std::uint32_t i = 0; i < count; ++i) {
      schema += (i > 0 ? ",\"" : "\"") + std::string(3, static_cast<char>('a' + i % 26)) +
                "_long_name_" + std::to_string(i) + R"(":{"type":"integer"})";
    }
    expect(schema + "}}", {R"({"aaa_long_name_0":1,"jjj_long_name_9":2,"jjj_long_name_":"free"})"},
           {R"({"jjj_long_name_9":2,"aaa_long_name_0":1})"});
  }
}

// The form of these is past its limit where free names have an edge for each first byte of UTF-8.
TEST(Schema, FreeNamesOfManyObjectsTakeLittleRoom) {
  std::string schema = R"({"type":"array","prefixItems":[)";
  for (char each = 'a'; each < 'h'; ++each) {
    schema += (each > 'a' ? "," : "") + optional_members(12, "the_name_" + std::string(6, each));
  }
  schema += "]}";
  const auto grammar = compile_grammar({GrammarSource::Kind::kJsonSchema, schema});
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  EXPECT_LE((*grammar)->bytes().size(), limits::kGrammarBytes);
  EXPECT_GT((*grammar)->bytes().size(), limits::kGrammarBytes / 2) << "too small to need it";
  expect(schema,
         {R"([{"the_name_aaaaaa3":1,"the_name_aaaaaa11":2,"the_":[]},{"the_name_é":1,"é":2}])",
          "[{},{},{\"the_name_cccccc\xF0\x9F\x98\x80\":true}]"},
         {R"([{"the_name_aaaaaa11":2,"the_name_aaaaaa3":1}])", "[{\"the_name_\xC3\":true}]",
          "[{\"\xED\xA0\x80\":true}]", "[{\"\xC0\x80\":true}]"});
}

TEST(Schema, ArraysCount) {
  expect(R"({"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":3})",
         {"[true]", "[true,false, true]"}, {"[]", "[1]", "[true,true,true,true]", "[true,]"});
  expect(
      R"({"type":"array","prefixItems":[{"const":1},{"const":2}],
      "items":{"const":3},"minItems":1})",
      {"[1]", "[1,2]", "[1,2,3,3]"}, {"[]", "[2]", "[1,3]", "[1,2,2]"});
  expect(R"({"type":"array","contains":{"const":5},"minContains":2,"items":{"type":"integer"}})",
         {"[5,5]", "[1,5,2,5,5]"}, {"[5]", "[5,\"a\",5]"});
  expect(R"({"type":"array","contains":{"const":5},"maxContains":1,"maxItems":3})",
         {"[5]", "[1,5,null]"}, {"[]", "[5,5]", "[1,1,1,5]"});
}

TEST(Schema, LogicIsExact) {
  expect(R"({"oneOf":[{"type":"integer","multipleOf":2},{"type":"integer","multipleOf":3}]})",
         {"2", "3", "4", "9"}, {"6", "1", "12"});
  expect(
      R"({"allOf":[{"properties":{"a":{"minimum":3}}},
      {"properties":{"a":{"maximum":5,"type":"integer"}}}],
             "type":"object","required":["a"],"maxProperties":1})",
      {R"({"a":4})"}, {R"({"a":6})", R"({"a":2})"});
  expect(R"({"type":["string","null"],"not":{"enum":["x",null]}})", {R"("y")", R"("")"},
         {R"("x")", "null"});
  expect(R"({"if":{"type":"string"},"then":{"maxLength":1},"else":{"const":7}})", {R"("a")", "7"},
         {R"("ab")", "8", "null"});
  expect(
      R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"v":{"type":"integer"}},
      "required":["k","v"],
             "additionalProperties":
      false},{"type":"object","properties":{"k":{"const":"b"}},"required":["k"],
             "additionalProperties":false}]})",
      {R"({"k":"a","v":1})", R"({"k":"b"})"}, {R"({"k":"b","v":1})", R"({"k":"a"})"});
}

TEST(Schema, ReferencesMayRecur) {
  expect(
      R"({"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":{"kids":{
      "type":"array",
             "items":{"$ref":"#/$defs/tree"}}},"required":["kids"],"additionalProperties":
      false}}})",
      {R"({"kids":[]})", R"({"kids":[{"kids":[]},{"kids":[{"kids":[]}]}]})"},
      {"{}", R"({"kids":[{}]})"});
  expect(
      R"({"$defs":{"n":{"$anchor":"num","type":"integer"}},
      "items":{"$ref":"#num"},"type":"array"})",
      {"[1]"}, {"[true]"});
}

TEST(Schema, FormatsAreAsserted) {
  expect(R"({"type":"string","format":"date"})", {R"("2024-02-29")", R"("2023-12-31")"},
         {R"("2023-02-29")", R"("2023-04-31")", R"("1900-02-29")"});
  expect(R"({"type":"string","format":"date-time"})", {R"("2024-02-29T23:59:59.5+01:00")"},
         {R"("2024-02-29")"});
  expect(R"({"type":"string","format":"my-own"})", {R"("x")"}, {"1"});
}

TEST(Schema, ErrorsNameKeywordAndPlace) {
  EXPECT_EQ(error_of(R"({"properties":{"a/b":{"pattern":"("}}})"),
            "JSON schema: pattern: regular expression: a missing closing parenthesis at byte 1 "
            "(at #/properties/a~1b/pattern)");
  EXPECT_EQ(error_of(R"({"items":{"uniqueItems":true}})"),
            "JSON schema: uniqueItems: is supported only for arrays of at most one element (at "
            "#/items/uniqueItems)");
  EXPECT_EQ(error_of(R"({"$ref":"http://example.com/x"})"),
            "JSON schema: $ref: a reference to another document, http://example.com/x (at #/$ref)");
  EXPECT_EQ(error_of(R"({"$ref":"#/$defs/x"})"),
            "JSON schema: $ref: the reference #/$defs/x leads nowhere (at #/$ref)");
  EXPECT_EQ(error_of(R"({"$ref":"#"})"),
            "JSON schema: $ref: a schema refers to itself for one value (at #/$ref)");
  EXPECT_EQ(error_of(R"({"type":"text"})"), "JSON schema: type: there is no type text (at #/type)");
  EXPECT_EQ(error_of("{"), "JSON schema: not JSON from byte 2 on");
  EXPECT_EQ(error_of("[]"), "JSON schema: must be an object or a boolean");
  EXPECT_EQ(error_of("false"), "the grammar allows no text at all");
  // The keyword that takes the last value is named.
  const std::string none = "no value is left, so the grammar allows no text at all";
  EXPECT_EQ(error_of(R"({"type":"integer","minimum":5,"maximum":4})"),
            "JSON schema: maximum: " + none + " (at #/maximum)");
  EXPECT_EQ(error_of(R"({"enum":[]})"), "JSON schema: enum: " + none + " (at #/enum)");
  EXPECT_EQ(error_of(R"({"allOf":[{"type":"string"},{"type":"null"}]})"),
            "JSON schema: allOf: " + none + " (at #/allOf)");
  EXPECT_EQ(error_of(R"({"not":{}})"), "JSON schema: not: " + none + " (at #/not)");
}

}  // namespace
}  // namespace hearth::model
