#include "model/chat/call_grammar.h"

#include <gtest/gtest.h>

#include "model/grammar/grammar_state.h"

namespace hearth::model {
namespace {

AnswerConstraint required() {
  ChatTool tool;
  tool.name = "weather";
  tool.parameters = R"({"properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                        "required": ["city"], "additionalProperties": false})";
  AnswerConstraint out;
  out.tools = {tool};
  out.calls_required = true;
  return out;
}

bool allows(const ChatSyntax& syntax, const AnswerConstraint& asked, std::string_view text) {
  const auto grammar = answer_grammar(syntax, asked);
  EXPECT_TRUE(grammar.ok()) << (grammar.ok() ? "" : grammar.error().message);
  if (!grammar.ok()) return false;
  GrammarState state(**grammar);
  return state.accept(text) && state.may_end();
}

TEST(CallGrammar, AnObjectIsOfTheSchema) {
  ChatSyntax syntax;
  syntax.call_begin = "<tool_call>";
  syntax.call_end = "</tool_call>";
  const auto call = [](const std::string& name, const std::string& arguments) {
    return "<tool_call>{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}</tool_call>";
  };
  const std::string good = call("weather", R"({"city": "Oslo"})");
  EXPECT_TRUE(allows(syntax, required(), good));
  EXPECT_TRUE(allows(syntax, required(), good + good));
  EXPECT_FALSE(allows(syntax, required(), "No."));
  EXPECT_FALSE(allows(syntax, required(), call("time", R"({"city": "Oslo"})")));
  EXPECT_FALSE(allows(syntax, required(), call("weather", R"({"city": 1})")));
  AnswerConstraint one = required();
  one.parallel_calls = false;
  EXPECT_FALSE(allows(syntax, one, good + good));
  one.calls_required = false;
  EXPECT_TRUE(allows(syntax, one, "No."));
  EXPECT_TRUE(allows(syntax, one, "Yes. " + good));
  one.prompt_tail = "<think>";
  EXPECT_TRUE(allows(syntax, one, "Hm.</think>\n" + good));
}

TEST(CallGrammar, PythonCallsNeedTheirArguments) {
  ChatSyntax syntax;
  syntax.form = CallForm::kNamed;
  syntax.arguments = ArgumentForm::kPython;
  syntax.separator = ", ";
  EXPECT_TRUE(allows(syntax, required(), R"([weather(city="Oslo", days=2)])"));
  EXPECT_TRUE(allows(syntax, required(), R"([weather(city="Oslo"), weather(city="Bern")])"));
  EXPECT_FALSE(allows(syntax, required(), "[weather(days=2)]"));
}

TEST(CallGrammar, HarmonyIsRefused) {
  ChatSyntax syntax;
  syntax.form = CallForm::kHarmony;
  const auto grammar = answer_grammar(syntax, required());
  ASSERT_FALSE(grammar.ok());
  EXPECT_EQ(grammar.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace hearth::model
