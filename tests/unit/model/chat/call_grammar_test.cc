#include "model/chat/call_grammar.h"

#include <gtest/gtest.h>

#include "model/chat/parser.h"
#include "model/chat_template.h"
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

// Kimi K2: the name is in the id, once.
TEST(CallGrammar, ANameInAnIdIsWrittenOnce) {
  const auto parsed = ChatTemplate::parse(
      "{% for m in messages %}{{ m.content }}{% if m.tool_calls %}<calls>"
      "{% for c in m.tool_calls %}<call>functions.{{ c.function.name }}:{{ loop.index0 }}<args>"
      "{{ c.function.arguments | tojson }}</call>{% endfor %}</calls>{% endif %}{% endfor %}");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const ChatSyntax syntax = find_chat_syntax(**parsed);
  ASSERT_TRUE(syntax.name_in_id);
  const std::string begin = "<calls><call>functions.weather:";
  EXPECT_TRUE(allows(syntax, required(), begin + R"(0<args>{"city": "Oslo"}</call></calls>)"));
  EXPECT_FALSE(allows(syntax, required(), begin + R"(0<args>{"city": 1}</call></calls>)"));
  EXPECT_FALSE(
      allows(syntax, required(),
             R"(<calls><call>functions.functions.weather:0<args>{"city": "Oslo"}</call></calls>)"));
}

// The text with its control tokens as a grammar reads them.
std::string with_controls(const AnswerConstraint& asked, std::string text) {
  for (const ControlToken& each : asked.controls) {
    for (std::size_t at = 0; (at = text.find(each.text, at)) != std::string::npos;) {
      text.replace(at, each.text.size(), control_token_bytes(each.token));
    }
  }
  return text;
}

AnswerConstraint with_tokens(AnswerConstraint asked, const std::vector<std::string>& texts,
                             const std::string& end) {
  TokenId id = 300;
  for (const std::string& text : texts) asked.controls.push_back({text, id++, text == end});
  return asked;
}

TEST(CallGrammar, AMarkIsTheControlTokenAndNotItsText) {
  ChatSyntax syntax;  // Mistral
  syntax.section_begin = "[TOOL_CALLS][";
  syntax.section_end = "]";
  syntax.separator = ", ";
  AnswerConstraint asked = with_tokens(required(), {"[TOOL_CALLS]", "[TOOL"}, "");
  const std::string call = R"({"name": "weather", "arguments": {"city": "Oslo"}})";
  const std::string good = "[TOOL_CALLS][" + call + "]";
  EXPECT_TRUE(allows(syntax, asked, with_controls(asked, good)));
  EXPECT_FALSE(allows(syntax, asked, good)) << "a text that spells it is no mark";
  asked.calls_required = false;
  EXPECT_TRUE(allows(syntax, asked, "No."));
  EXPECT_TRUE(allows(syntax, asked, with_controls(asked, "Hm. " + good)));
  EXPECT_FALSE(allows(syntax, asked, good)) << "the parser would take it for a call";
  EXPECT_FALSE(allows(syntax, asked, with_controls(asked, "a[TOOL")));
  asked.prompt_tail = "[THINK]";
  syntax.think_begin = "[THINK]";
  syntax.think_end = "[/THINK]";
  asked.controls.push_back({"[/THINK]", 400, false});
  EXPECT_TRUE(allows(syntax, asked, with_controls(asked, "Hm.[/THINK] " + good)));
  EXPECT_FALSE(allows(syntax, asked, with_controls(asked, good)));
}

TEST(CallGrammar, AnEndTokenInACallIsRefused) {
  ChatSyntax syntax;
  syntax.call_begin = "<call>";
  syntax.call_end = "<eot>";
  const auto grammar =
      answer_grammar(syntax, with_tokens(required(), {"<call>", "<eot>"}, "<eot>"));
  ASSERT_FALSE(grammar.ok());
  EXPECT_EQ(grammar.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(grammar.error().message.find("'<eot>'"), std::string::npos);
}

TEST(CallGrammar, HarmonyCallsAreMessages) {
  ChatSyntax syntax;
  syntax.form = CallForm::kHarmony;
  const std::vector<std::string> texts = {"<|start|>", "<|end|>",     "<|message|>",
                                          "<|call|>",  "<|channel|>", "<|constrain|>"};
  AnswerConstraint asked = with_tokens(required(), texts, "<|call|>");
  asked.prompt_tail = "<|start|>assistant";
  const auto expect = [&](bool yes, const std::string& text) {
    EXPECT_EQ(allows(syntax, asked, with_controls(asked, text)), yes) << text;
  };
  const std::string thought = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
  const std::string body = R"(<|message|>{"city": "Oslo"})";
  const std::string call = "<|channel|>commentary to=functions.weather <|constrain|>json" + body;
  expect(true, call);
  expect(true, thought + call);
  expect(true, thought + " to=functions.weather<|channel|>commentary json" + body);
  expect(true, "<|channel|>commentary to=functions.weather" + body);
  expect(false, thought);
  expect(false, "<|channel|>commentary to=functions.time" + body);
  expect(false, R"(<|channel|>commentary to=functions.weather<|message|>{"city": 1})");
  const std::string final_text = "<|channel|>final<|message|>No.";
  expect(false, final_text);
  asked.calls_required = false;
  expect(true, final_text);
  expect(true, thought + call);
  asked.tools.clear();
  asked.content = GrammarSource{GrammarSource::Kind::kChoice, R"(["yes", "no"])"};
  expect(true, thought + "<|channel|>final<|message|>yes");
  expect(false, final_text);
  asked.prompt_tail = "<|start|>assistant<|channel|>final<|message|>I say: ";
  expect(true, "yes");
  expect(false, thought);
}

// What the grammar lets a model write is what the parser reads.
TEST(CallGrammar, HarmonyIsParsedAsItIsGenerated) {
  ChatSyntax syntax;
  syntax.form = CallForm::kHarmony;
  for (const char* header : {"<|channel|>commentary to=functions.weather <|constrain|>json",
                             " to=functions.weather<|channel|>commentary json",
                             "<|channel|>commentary to=functions.weather"}) {
    AnswerRules rules;
    rules.tools = required().tools;
    rules.prompt_tail = "<|start|>assistant";
    AnswerParser parser(std::make_shared<ChatSyntax>(syntax), rules);
    AnswerPart part = parser.push("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant" +
                                  std::string(header) + R"(<|message|>{"city": "Oslo"})");
    const AnswerPart last = parser.finish();
    part.calls.insert(part.calls.end(), last.calls.begin(), last.calls.end());
    ASSERT_EQ(part.calls.size(), 1U) << header;
    EXPECT_EQ(part.calls[0].name, "weather");
    EXPECT_EQ(part.calls[0].arguments, R"({"city": "Oslo"})");
    EXPECT_EQ(part.reasoning + last.reasoning, "Hm.");
    EXPECT_EQ(part.content + last.content, "");
  }
}

}  // namespace
}  // namespace hearth::model
