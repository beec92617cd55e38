#include "coordinator/http/openai/tools.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace hearth::coordinator::http {
namespace {

ApiResult<GenerationRequest> parse_with(const std::string& fields) {
  auto body = parse_json(fields);
  EXPECT_TRUE(body.ok()) << fields;
  if (!body->contains("messages")) {
    (*body)["messages"] = Json::parse(R"([{"role":"user","content":"hi"}])");
  }
  return parse_chat_request(*body, ModelBounds{1000, 2048});
}

GenerationRequest parsed_with(const std::string& fields) {
  auto parsed = parse_with(fields);
  EXPECT_TRUE(parsed.ok()) << fields << ": " << (parsed.ok() ? "" : parsed.error().message);
  return parsed.ok() ? std::move(*parsed) : GenerationRequest{};
}

TEST(ToolsTest, RefusalsNameTheField) {
  const std::pair<const char*, const char*> refusals[] = {
      {R"({"tools": [{"type": "function"}]})", "tools[0].function"},
      {R"({"tools": [{"type": "browser"}]})", "tools[0].type"},
      {R"({"tools": [{"function": {"name": "a b"}}]})", "tools[0].function.name"},
      {R"({"tools": [{"function": {"name": "f", "parameters": 1}}]})",
       "tools[0].function.parameters"},
      {R"({"tools": [{"function": {"name": "f"}}, {"function": {"name": "f"}}]})", "tools"},
      {R"({"tool_choice": "required"})", "tool_choice"},
      {R"({"tool_choice": {"type": "function", "function": {"name": "f"}}})", "tool_choice"},
      {R"({"response_format": {"type": "yaml"}})", "response_format"},
      {R"({"reasoning": {"max_tokens": 9}})", "reasoning.max_tokens"},
      {R"({"reasoning": {"exclude": true}})", "reasoning.exclude"},
      {R"({"response_format": {"type": "json_schema"}})", "response_format"},
      {R"({"grammar": "root ::= \"a\"", "guided_choice": ["a"]})", "guided_choice"},
      {R"({"guided_choice": [1]})", "guided_choice"},
      {R"({"chat_template_kwargs": {"messages": []}})", "chat_template_kwargs"},
      {R"({"continue_final_message": true, "add_generation_prompt": true})",
       "continue_final_message"},
      {R"({"messages": [{"role": "assistant", "tool_calls": [
          {"function": {"name": "f", "arguments": "[1]"}}]}]})",
       "tool_calls[].function.arguments"},
      {R"({"messages": [{"role": "user", "content": "x", "tool_calls": [
          {"function": {"name": "f"}}]}]})",
       "messages[0].tool_calls"},
  };
  for (const auto& [fields, param] : refusals) {
    auto parsed = parse_with(fields);
    ASSERT_FALSE(parsed.ok()) << fields;
    EXPECT_EQ(parsed.error().status, 400U);
    EXPECT_EQ(parsed.error().param, param) << parsed.error().message;
  }
}

TEST(ToolsTest, ToolsKeepTheOrderOfTheirKeys) {
  const GenerationRequest request = parsed_with(R"({
    "tools": [{"type": "function", "function": {"name": "f", "strict": true,
      "parameters": {"type": "object", "properties": {"z": {}, "a": {}}}}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "parallel_tool_calls": false})");
  ASSERT_EQ(request.tools.size(), 1U);
  EXPECT_EQ(request.tools[0].parameters, R"({"type":"object","properties":{"z":{},"a":{}}})");
  EXPECT_TRUE(request.tools[0].text.starts_with(R"({"type":"function","function":{"name":"f")"));
  EXPECT_TRUE(request.tools[0].strict);
  EXPECT_EQ(request.tool_choice, ToolChoice::kNamed);
  EXPECT_EQ(request.tool_name, "f");
  EXPECT_FALSE(request.parallel_tool_calls);
  EXPECT_STREQ(field_that_needs_mask(request), "tool_choice");
}

TEST(ToolsTest, CallsAndResultsAreMessages) {
  const GenerationRequest request = parsed_with(R"({"messages": [
    {"role": "user", "content": "x"},
    {"role": "assistant", "reasoning_content": "hm", "content": null, "tool_calls": [
      {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "3"}]})");
  ASSERT_EQ(request.messages.size(), 3U);
  EXPECT_EQ(request.messages[1].reasoning, "hm");
  ASSERT_EQ(request.messages[1].tool_calls.size(), 1U);
  EXPECT_EQ(request.messages[1].tool_calls[0].name, "f");
  EXPECT_EQ(request.messages[1].tool_calls[0].arguments, R"({"a": 1})");
  EXPECT_EQ(request.messages[2].tool_call_id, "c1");
  EXPECT_TRUE(request.add_generation_prompt);
}

TEST(ToolsTest, ALastMessageOfTheAssistantIsContinued) {
  const std::string messages =
      R"("messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}])";
  const GenerationRequest continued = parsed_with("{" + messages + "}");
  EXPECT_TRUE(continued.continue_final_message);
  EXPECT_FALSE(continued.add_generation_prompt);
  EXPECT_FALSE(
      parsed_with("{" + messages + R"(, "add_generation_prompt": true})").continue_final_message);
  EXPECT_FALSE(parsed_with("{}").continue_final_message);
}

TEST(ToolsTest, FormatsHaveManyNames) {
  using Kind = model::GrammarSource::Kind;
  struct Format {
    const char* fields;
    Kind kind;
    const char* text;
    const char* field;
  };
  const Format formats[] = {
      {R"({"response_format": {"type": "json_object"}})", Kind::kJsonObject, "", "response_format"},
      {R"({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema":
          {"type": "object"}}}})",
       Kind::kJsonSchema, R"({"type":"object"})", "response_format"},
      {R"({"json_schema": {"z": 1, "a": 2}})", Kind::kJsonSchema, R"({"z":1,"a":2})",
       "json_schema"},
      {R"({"guided_json": "{}"})", Kind::kJsonSchema, "{}", "guided_json"},
      {R"({"guided_regex": "a+"})", Kind::kRegex, "a+", "guided_regex"},
      {R"({"guided_choice": ["a", "b"]})", Kind::kChoice, R"(["a","b"])", "guided_choice"},
      {R"({"grammar": "root ::= \"a\""})", Kind::kGbnf, "root ::= \"a\"", "grammar"},
      {R"({"structured_outputs": {"regex": "b"}})", Kind::kRegex, "b", "structured_outputs"},
  };
  for (const Format& format : formats) {
    const GenerationRequest request = parsed_with(format.fields);
    ASSERT_TRUE(request.format.has_value()) << format.fields;
    EXPECT_EQ(request.format->kind, format.kind) << format.fields;
    EXPECT_EQ(request.format->text, format.text);
    EXPECT_STREQ(field_that_needs_mask(request), format.field);
  }
  EXPECT_EQ(field_that_needs_mask(parsed_with("{}")), nullptr);
}

TEST(ToolsTest, TemplateVariables) {
  const GenerationRequest request = parsed_with(R"({"reasoning_effort": "low",
    "enable_thinking": true, "chat_template_kwargs": {"enable_thinking": false, "x": [1]}})");
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"reasoning_effort", "\"low\""}, {"enable_thinking", "false"}, {"x", "[1]"}};
  EXPECT_EQ(request.template_variables, expected);
}

TEST(ToolsTest, ReasoningAsAnObject) {
  const GenerationRequest request =
      parsed_with(R"({"reasoning": {"effort": "low", "summary": "auto", "enabled": true}})");
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"reasoning_effort", "\"low\""}, {"enable_thinking", "true"}};
  EXPECT_EQ(request.template_variables, expected);
  EXPECT_EQ(parsed_with(R"({"reasoning": {}})").template_variables.size(), 0U);
}

}  // namespace
}  // namespace hearth::coordinator::http
