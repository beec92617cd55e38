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

// Gemma 4: keys without quotes, texts between marks of its own.
struct QuotedCalls : ::testing::Test {
  QuotedCalls() {
    syntax.form = CallForm::kNamed;
    syntax.arguments = ArgumentForm::kQuoted;
    syntax.call_begin = "<|tool_call>call:";
    syntax.call_end = "<tool_call|>";
    syntax.quote = "<|\"|>";
  }
  static AnswerConstraint asked(const std::string& parameters) {
    AnswerConstraint out = required();
    out.tools[0].parameters = parameters;
    return out;
  }
  static std::string call(const std::string& arguments) {
    return "<|tool_call>call:weather" + arguments + "<tool_call|>";
  }
  std::string refusal(const std::string& parameters) const {
    const auto grammar = answer_grammar(syntax, asked(parameters));
    return grammar.ok() ? "" : grammar.error().message;
  }
  // What the parser makes of a call that the grammar allows.
  std::string arguments_of(const AnswerConstraint& constraint, const std::string& text) const {
    AnswerRules rules;
    rules.tools = constraint.tools;
    AnswerParser parser(std::make_shared<ChatSyntax>(syntax), rules);
    AnswerPart first = parser.push(text);
    AnswerPart last = parser.finish();
    for (auto& each : last.calls) first.calls.push_back(std::move(each));
    EXPECT_EQ(first.calls.size(), 1U) << text;
    EXPECT_EQ(first.content + last.content, "");
    return first.calls.empty() ? "" : first.calls[0].arguments;
  }
  ChatSyntax syntax;
};

TEST_F(QuotedCalls, MatchTheSchema) {
  EXPECT_TRUE(allows(syntax, required(), call(R"({city:<|"|>Oslo, {\"}<|"|>,days:2})")));
  EXPECT_TRUE(allows(syntax, required(), call(R"({city:<|"|>Oslo<|"|>})")));
  EXPECT_FALSE(allows(syntax, required(), call("{}")));
  EXPECT_FALSE(allows(syntax, required(), call(R"({city:"Oslo"})")));
  EXPECT_FALSE(allows(syntax, required(), call(R"({city:2})")));
  EXPECT_FALSE(allows(syntax, required(), call(R"({city:<|"|>Oslo<|"|>,days:2.5})")));
  EXPECT_FALSE(allows(syntax, required(), call(R"({days:2})")));
  EXPECT_TRUE(allows(syntax, asked("{}"), call("{}")));
}

TEST_F(QuotedCalls, ListsObjectsAndChoicesAreReadBack) {
  const AnswerConstraint deep = asked(R"({"properties": {
      "to": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
      "at": {"type": "object", "properties": {"x": {"type": ["number", "null"]},
                                              "y": {"type": "boolean"}}, "required": ["x"]},
      "unit": {"enum": ["C", 7, null]}}, "required": ["to", "unit"]})");
  const std::string whole =
      call(R"({to:[<|"|>a<|"|>,<|"|>b]<|"|>],at:{x:-1.5,y:true},unit:<|"|>C<|"|>})");
  EXPECT_TRUE(allows(syntax, deep, whole));
  EXPECT_EQ(arguments_of(deep, whole),
            R"({"to": ["a", "b]"], "at": {"x": -1.5, "y": true}, "unit": "C"})");
  EXPECT_TRUE(allows(syntax, deep, call(R"({to:[<|"|>a<|"|>],at:{x:null},unit:7})")));
  EXPECT_TRUE(allows(syntax, deep, call(R"({to:[<|"|>a<|"|>],unit:null})")));
  for (const char* wrong :
       {R"({to:[],unit:7})", R"({to:[<|"|>a<|"|>,<|"|>a<|"|>,<|"|>a<|"|>],unit:7})",
        R"({to:[1],unit:7})", R"({to:[<|"|>a<|"|>],at:{y:true},unit:7})",
        R"({to:[<|"|>a<|"|>],unit:<|"|>F<|"|>})", R"({to:[<|"|>a<|"|>]})"}) {
    EXPECT_FALSE(allows(syntax, deep, call(wrong))) << wrong;
  }
}

TEST_F(QuotedCalls, WhatTheSchemaLeavesOpenIsAScalar) {
  const AnswerConstraint open = asked(R"({"properties": {
      "a": {"type": "array"}, "o": {"type": "object"}, "x": {}}, "required": ["a", "o", "x"]})");
  const std::string whole = call(R"({a:[<|"|>b<|"|>,3],o:{c:null,d:<|"|>e<|"|>},x:true})");
  EXPECT_TRUE(allows(syntax, open, whole));
  EXPECT_EQ(arguments_of(open, whole), R"({"a": ["b", 3], "o": {"c": null, "d": "e"}, "x": true})");
  EXPECT_TRUE(allows(syntax, open, call("{a:[],o:{},x:1}")));
  EXPECT_FALSE(allows(syntax, open, call("{a:[],o:{},x:[1]}")));
}

TEST_F(QuotedCalls, WhatHasNoFormIsRefusedByItsPath) {
  const auto of = [](const std::string& property) {
    return R"({"properties": {"a": )" + property + "}}";
  };
  EXPECT_NE(refusal(of(R"({"type": "string", "pattern": "x"})")).find("/properties/a/pattern"),
            std::string::npos);
  EXPECT_NE(refusal(of(R"({"anyOf": []})")).find("/properties/a"), std::string::npos);
  EXPECT_NE(refusal(of(R"({"type": "array", "items": {"type": "null"}, "maxItems": 1e9})"))
                .find("maxItems"),
            std::string::npos);
  EXPECT_NE(refusal(of(R"({"enum": [{}]})")).find("/properties/a/enum"), std::string::npos);
  EXPECT_NE(refusal(R"({"properties": {"a b": {"type": "null"}}})").find("a b"), std::string::npos);
  EXPECT_EQ(refusal(of(R"({"type": "integer", "minimum": 3})")), "");
  // Types that are named again and again, at every level, cost no more than once.
  std::string nested = R"({"type": "null"})";
  for (int level = 0; level < 50; ++level) {
    nested = R"({"type": ["array", "array", "array"], "items": )" + nested + "}";
  }
  EXPECT_EQ(refusal(of(nested)), "");
}

// MiniMax M3: values are elements.
struct ElementCalls : ::testing::Test {
  ElementCalls() {
    syntax.form = CallForm::kElements;
    syntax.section_begin = "[.<calls>\n";
    syntax.section_end = "[.</calls>";
    syntax.call_begin = "[.<invoke name=\"";
    syntax.name_end = "\">";
    syntax.parameter_begin = "[.<";
    syntax.key_end = ">";
    syntax.value_end = "[.</";
    syntax.call_end = "[.</invoke>\n";
  }
  // Written with '@' before each tag.
  static std::string call(const std::string& arguments) {
    std::string out;
    for (const char c :
         "@<calls>\n@<invoke name=\"weather\">" + arguments + "@</invoke>\n@</calls>") {
      out += c == '@' ? std::string("[.") : std::string(1, c);
    }
    return out;
  }
  std::string refusal(const std::string& property) const {
    AnswerConstraint asked = required();
    asked.tools[0].parameters = R"({"properties": {"a": )" + property + "}}";
    const auto grammar = answer_grammar(syntax, asked);
    return grammar.ok() ? "" : grammar.error().message;
  }
  ChatSyntax syntax;
};

TEST_F(ElementCalls, MatchTheSchema) {
  EXPECT_TRUE(allows(syntax, required(), call("@<city>Oslo <x>@</city>@<days>2@</days>")));
  EXPECT_TRUE(allows(syntax, required(), call("@<city>@</city>")));
  EXPECT_FALSE(allows(syntax, required(), call("")));
  EXPECT_FALSE(allows(syntax, required(), call("@<city>Oslo@</days>")));
  EXPECT_FALSE(allows(syntax, required(), call("@<city>Oslo@</city>@<days>two@</days>")));
  EXPECT_FALSE(allows(syntax, required(), call("@<city>Oslo@</city>@<other>2@</other>")));
}

TEST_F(ElementCalls, ListsAndObjectsAreReadBack) {
  AnswerConstraint deep = required();
  deep.tools[0].parameters = R"({"properties": {
      "to": {"type": "array", "maxItems": 2, "items": {"type": "object", "required": ["x"],
             "properties": {"x": {"type": "string"}, "y": {"type": "boolean"}}}},
      "unit": {"type": "string", "enum": ["C", "F"]}, "z": {"type": ["integer", "null"]}}})";
  const std::string whole = call(
      "@<to>@<item>@<x>1@</x>@</item>@<item>@<x>2@</x>@<y>true@</y>@</item>@</to>@<unit>C@</unit>"
      "@<z>null@</z>");
  EXPECT_TRUE(allows(syntax, deep, whole));
  EXPECT_TRUE(allows(syntax, deep, call("@<to>@</to>")));
  EXPECT_FALSE(allows(syntax, deep, call("@<to>@<item>@<y>true@</y>@</item>@</to>")));
  EXPECT_FALSE(allows(syntax, deep, call("@<unit>K@</unit>")));
  EXPECT_FALSE(
      allows(syntax, deep,
             call("@<to>@<item>@<x>1@</x>@</item>@<item>@<x>1@</x>@</item>@<item>@<x>1@</x>"
                  "@</item>@</to>")));
  AnswerRules rules;
  rules.tools = deep.tools;
  AnswerParser parser(std::make_shared<ChatSyntax>(syntax), rules);
  const AnswerPart part = parser.push(whole);
  ASSERT_EQ(part.calls.size(), 1U);
  EXPECT_EQ(part.calls[0].arguments,
            R"({"to": [{"x": "1"}, {"x": "2", "y": true}], "unit": "C", "z": null})");
}

TEST_F(ElementCalls, WhatHasNoFormIsRefusedByItsPath) {
  const auto names = [&](const std::string& property, const std::string& path) {
    EXPECT_NE(refusal(property).find(path), std::string::npos) << refusal(property);
  };
  names(R"({"type": "string", "pattern": "x"})", "/properties/a/pattern");
  names(R"({"anyOf": [{"type": "string"}, {"type": "null"}]})", "/properties/a/anyOf");
  names(R"({"type": "array", "items": {}, "uniqueItems": true})", "/properties/a/uniqueItems");
  names(R"({"type": "array", "items": {"type": "object", "properties": {"<": {}}}})",
        "/properties/a/item/properties/<");
  names(R"({"type": "object", "properties": {}, "minProperties": 1})",
        "/properties/a/minProperties");
  EXPECT_EQ(refusal(R"({"type": "object"})"), "");
}

// Kimi K3: content stands between marks, and so do the calls after it.
TEST(CallGrammar, ContentStandsBetweenItsMarks) {
  ChatSyntax syntax;
  syntax.form = CallForm::kTagged;
  syntax.section_begin = "<tools>";
  syntax.section_end = "</tools>";
  syntax.call_begin = "<call tool=\"";
  syntax.name_end = "\" index=\"";
  syntax.id_end = "\">";
  syntax.numbered = true;
  syntax.parameter_begin = "<argument key=\"";
  syntax.key_end = "\" type=\"string\">";
  syntax.type_word = "string";
  syntax.value_end = "</argument>";
  syntax.call_end = "</call>";
  syntax.content_begin = "<response>";
  syntax.content_end = "</response>";
  syntax.answer_end = "</message>";
  const std::string call =
      "<tools><call tool=\"weather\" index=\"1\"><argument key=\"city\" type=\"string\">Oslo"
      "</argument><argument key=\"days\" type=\"number\">2</argument></call></tools>";
  const std::string text = "<response>Hm.</response>";
  const std::vector<std::string> controls = {"<tools>", "<call", "<response>", "</response>"};
  AnswerConstraint asked = with_tokens(required(), controls, "");
  const auto expect = [&](bool yes, const std::string& answer) {
    EXPECT_EQ(allows(syntax, asked, with_controls(asked, answer)), yes) << answer;
  };
  expect(true, call);
  expect(true, text + call + "</message>");
  expect(false, text);
  expect(false, "Hm." + call);
  asked.calls_required = false;
  expect(true, text + "</message>");
  expect(true, text + call);
  expect(false, "Hm.");
  asked.prompt_tail = "<response>";
  expect(true, "Hm.</response>" + call);
  asked.tools.clear();
  asked.prompt_tail.clear();
  asked.content = GrammarSource{GrammarSource::Kind::kChoice, R"(["yes", "no"])"};
  expect(true, "<response>yes</response></message>");
  expect(false, text);
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
