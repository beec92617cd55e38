// Every syntax, from a small template that writes it, with the answer cut at every byte.
#include "model/chat/parser.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/limits.h"
#include "model/chat/syntax.h"

namespace hearth::model {
namespace {

ChatTool tool(const std::string& name) {
  ChatTool out;
  out.name = name;
  out.parameters =
      R"({"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}})";
  out.text = R"({"type":"function","function":{"name":")" + name + R"(","parameters":)" +
             out.parameters + "}}";
  return out;
}

struct Whole {
  std::string content = {};
  std::string reasoning = {};
  std::string calls = {};
  bool operator==(const Whole&) const = default;
};

void PrintTo(const Whole& whole, std::ostream* out) {
  *out << "content '" << whole.content << "' reasoning '" << whole.reasoning << "' calls "
       << whole.calls;
}

void add(const AnswerPart& part, Whole& whole) {
  whole.content += part.content;
  whole.reasoning += part.reasoning;
  for (const ChatToolCall& call : part.calls) {
    whole.calls += call.name + call.arguments + (call.id.empty() ? "" : "#" + call.id) + ";";
  }
}

AnswerRules rules(const std::string& tail = {}) {
  AnswerRules out;
  out.tools = {tool("weather"), tool("time")};
  out.prompt_tail = tail;
  return out;
}

Whole parse(const ChatSyntax& syntax, const AnswerRules& how,
            const std::vector<std::string>& pieces) {
  AnswerParser parser(std::make_shared<ChatSyntax>(syntax), how);
  Whole out;
  for (const std::string& piece : pieces) add(parser.push(piece), out);
  add(parser.finish(), out);
  return out;
}

// Whole, cut in two at every byte, and byte by byte.
Whole parse_every_way(const ChatSyntax& syntax, const AnswerRules& how, const std::string& text) {
  const Whole whole = parse(syntax, how, {text});
  std::vector<std::string> bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    EXPECT_EQ(parse(syntax, how, {text.substr(0, i), text.substr(i)}), whole) << "cut at " << i;
    bytes.push_back(text.substr(i, 1));
  }
  EXPECT_EQ(parse(syntax, how, bytes), whole) << "byte by byte";
  return whole;
}

ChatSyntax probe(const std::string& source) {
  const auto parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message);
  return find_chat_syntax(*parsed.value());
}

// A template whose calls are written by `call`, with `c` the function and `i` its place.
ChatSyntax probe_calls(const std::string& begin, const std::string& call,
                       const std::string& between, const std::string& end) {
  return probe("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if m.tool_calls %}" +
               begin + "{% for t in m.tool_calls %}{% set c = t.function %}" + call +
               "{% if not loop.last %}" + between + "{% endif %}{% endfor %}" + end +
               "{% endif %}<|end|>{% endfor %}");
}

const std::string kArgs = "{{ c.arguments if c.arguments is string else c.arguments | tojson }}";

struct Case {
  std::string name;
  ChatSyntax syntax;
  std::string answer;
  Whole expected;
  std::string tail = {};
};

// The calls that most cases make, and what the parser tells of them.
const std::string kParis = R"({"city": "Paris"})";
const std::string kJson = R"({"name": "weather", "arguments": {"city": "Paris"}})";
const std::string kOther = R"({"name": "time", "arguments": {}})";
const std::string kBoth = "weather" + kParis + ";time{};";

// Calls that are one JSON object.
std::vector<Case> object_cases() {
  const std::string object = "{\"name\": \"{{ c.name }}\", \"arguments\": " + kArgs + "}";
  std::vector<Case> out;
  out.push_back({"hermes",
                 probe_calls("", "\n<tool_call>\n" + object + "\n</tool_call>", "", ""),
                 "Let me see.\n<tool_call>\n" + kJson + "\n</tool_call>\n<tool_call>\n" + kOther +
                     "\n</tool_call>",
                 {"Let me see.", "", kBoth}});
  out.push_back(
      {"mistral list",
       probe_calls(
           "[TOOL_CALLS][",
           "{\"name\": \"{{ c.name }}\", \"arguments\": " + kArgs + ", \"id\": \"{{ t.id }}\"}",
           ", ", "]"),
       R"([TOOL_CALLS][{"name": "weather", "arguments": {"city": "Paris"}, "id": "abcdefghi"}])",
       {"", "", "weather" + kParis + "#abcdefghi;"}});
  out.push_back(
      {"llama 3",
       probe_calls("", "{\"name\": \"{{ c.name }}\", \"parameters\": " + kArgs + "}", "", ""),
       R"({"name": "weather", "parameters": {"city": "Paris"}})",
       {"", "", "weather" + kParis + ";"}});
  out.push_back({"command r",
                 probe_calls("<|START_ACTION|>[",
                             "\n    {\"tool_call_id\": \"{{ loop.index0 }}\", \"tool_name\": "
                             "\"{{ c.name }}\", \"parameters\": " +
                                 kArgs + "}",
                             ",", "\n]<|END_ACTION|>"),
                 "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"weather\", "
                 "\"parameters\": {\"city\": \"Paris\"}},\n    {\"tool_call_id\": \"1\", "
                 "\"tool_name\": \"time\", \"parameters\": {}}\n]<|END_ACTION|>",
                 {"", "", kBoth}});
  ChatSyntax granite;
  granite.section_begin = "<|tool_call|>[";
  granite.section_end = "]";
  out.push_back(
      {"granite", granite, "<|tool_call|>[" + kJson + ", " + kOther + "]", {"", "", kBoth}});
  return out;
}

// A name, then the arguments in JSON.
std::vector<Case> named_cases() {
  std::vector<Case> out;
  out.push_back({"mistral",
                 probe_calls("", "[TOOL_CALLS]{{ c.name }}[ARGS]" + kArgs, "", ""),
                 "Hm.[TOOL_CALLS]weather[ARGS]" + kParis + "[TOOL_CALLS]time[ARGS]{}",
                 {"Hm.", "", kBoth}});
  out.push_back(
      {"mistral with ids",
       probe_calls("", "[TOOL_CALLS]{{ c.name }}[CALL_ID]{{ t.id }}[ARGS]" + kArgs, "", ""),
       "[TOOL_CALLS]weather[CALL_ID]abcdefghi[ARGS]" + kParis,
       {"", "", "weather" + kParis + "#abcdefghi;"}});
  out.push_back(
      {"deepseek 3.1",
       probe_calls("<tools>", "<call>{{ c.name }}<sep>" + kArgs + "</call>", "", "</tools>"),
       "<tools><call>weather<sep>" + kParis + "</call><call>time<sep>{}</call></tools>",
       {"", "", kBoth}});
  out.push_back(
      {"deepseek r1",
       probe_calls("<tools>", "<call>function<sep>{{ c.name }}\n```json\n" + kArgs + "\n```</call>",
                   "\n", "</tools>"),
       "<tools><call>function<sep>weather\n```json\n" + kParis +
           "\n```</call>\n<call>function<sep>time\n```json\n{}\n```</call></tools>",
       {"", "", kBoth}});
  out.push_back({"kimi",
                 probe_calls("<|section_begin|>",
                             "<|call_begin|>functions.{{ c.name }}:{{ loop.index0 }}<|args|>" +
                                 kArgs + "<|call_end|>",
                             "", "<|section_end|>"),
                 "<|section_begin|><|call_begin|>functions.weather:0<|args|>" + kParis +
                     "<|call_end|><|section_end|>",
                 {"", "", "weather" + kParis + "#functions.weather:0;"}});
  out.push_back({"functionary 3.1",
                 probe_calls("", "<function={{ c.name }}>" + kArgs + "</function>", "", ""),
                 "<function=weather>" + kParis + "</function><function=time>{}</function>",
                 {"", "", kBoth}});
  ChatSyntax functionary;
  functionary.form = CallForm::kNamed;
  functionary.call_begin = ">>>";
  functionary.name_end = "\n";
  out.push_back({"functionary 3.2",
                 functionary,
                 "all\nHello\n>>>weather\n" + kParis,
                 {"Hello", "", "weather" + kParis + ";"},
                 "assistant\n\n>>>"});
  return out;
}

// Kimi K3: marks around content, and calls that are numbered.
const std::string kKimi3 =
    "{% for m in messages %}<|open|>message role=\"{{ m.role }}\"<|sep|>"
    "{% if m.role == 'assistant' %}<|open|>think<|sep|>{{ m.reasoning_content }}"
    "<|close|>think<|sep|><|open|>response<|sep|>{{ m.content }}<|close|>response<|sep|>"
    "{% if m.tool_calls %}<|open|>tools<|sep|>{% for t in m.tool_calls %}"
    "{% set c = t.function %}<|open|>call tool=\"{{ c.name }}\" index=\"{{ loop.index }}\"<|sep|>"
    "{% if c.arguments is string %}<|open|>json type=\"object\"<|sep|>{{ c.arguments }}"
    "<|close|>json<|sep|>{% else %}{% for k, v in c.arguments.items() %}"
    "<|open|>argument key=\"{{ k }}\" type=\"{{ 'string' if v is string else 'number' }}\"<|sep|>"
    "{{ v }}<|close|>argument<|sep|>{% endfor %}{% endif %}<|close|>call<|sep|>{% endfor %}"
    "<|close|>tools<|sep|>{% endif %}{% else %}{{ m.content }}{% endif %}"
    "<|close|>message<|sep|><|end_of_msg|>{% endfor %}{% if add_generation_prompt %}"
    "<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>{% endif %}";

// Arguments one by one, or not in JSON.
std::vector<Case> other_cases() {
  std::vector<Case> out;
  out.push_back({"glm",
                 probe_calls("",
                             "\n<tool_call>{{ c.name }}\n{% for k, v in c.arguments.items() %}"
                             "<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v if v is string else v | "
                             "tojson }}</arg_value>\n{% endfor %}</tool_call>",
                             "", ""),
                 "\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
                 "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
                 {"", "", R"(weather{"city": "Paris", "days": 3};)"}});
  out.push_back({"qwen3 coder",
                 probe_calls("",
                             "\n<tool_call>\n<function={{ c.name }}>\n{% for k, v in "
                             "c.arguments.items() %}<parameter={{ k }}>\n{{ v }}\n</parameter>\n"
                             "{% endfor %}</function>\n</tool_call>",
                             "", ""),
                 "Yes\n<tool_call>\n<function=weather>\n<parameter=city>\n<b>12</b>\nx\n"
                 "</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
                 {"Yes", "", R"(weather{"city": "<b>12</b>\nx", "days": 3};)"}});
  out.push_back({"gemma 4",
                 probe_calls("",
                             "<|tool_call>call:{{ c.name }}{ {%- for k, v in c.arguments.items() %}"
                             "{{ k }}:<|\"|>{{ v }}<|\"|>{% endfor %}}<tool_call|>",
                             "", ""),
                 "<|tool_call>call:weather{city:<|\"|>Pa}\"ris<|\"|>,days:3}<tool_call|>",
                 {"", "", R"(weather{"city": "Pa}\"ris", "days": 3};)"}});
  out.push_back({"pythonic",
                 probe_calls("<|tool_call_start|>[",
                             "{{ c.name }}({% for k, v in c.arguments.items() %}{{ k }}=\"{{ v }}\""
                             "{% endfor %})",
                             ", ", "]<|tool_call_end|>"),
                 "<|tool_call_start|>[weather(city='Pa)ris', days=3), time()]<|tool_call_end|>Done",
                 {"Done", "", R"(weather{"city": "Pa)ris", "days": 3};time{};)"}});
  ChatSyntax bare;
  bare.form = CallForm::kNamed;
  bare.arguments = ArgumentForm::kPython;
  out.push_back({"llama pythonic", bare, "[weather(city=\"Paris\"), time()]", {"", "", kBoth}});
  ChatSyntax harmony;
  harmony.form = CallForm::kHarmony;
  out.push_back(
      {"harmony",
       harmony,
       "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final"
       "<|message|>So.<|end|><|start|>assistant<|channel|>commentary to=functions.weather "
       "<|constrain|>json<|message|>" +
           kParis + "<|call|>",
       {"So.", "Hm.", "weather" + kParis + ";"},
       "<|start|>assistant"});
  return out;
}

// Calls and arguments in elements.
std::vector<Case> element_cases() {
  std::vector<Case> out;
  out.push_back(
      {"minimax m3",
       probe_calls("[.<calls>\n",
                   "[.<invoke name=\"{{ c.name }}\">{% for k, v in c.arguments.items() %}"
                   "[.<{{ k }}>{{ v }}[.</{{ k }}>{% endfor %}[.</invoke>\n",
                   "", "[.</calls>"),
       "</think>Yes.[.<calls>\n[.<invoke name=\"weather\">[.<city>12[.</city>[.<days>3[.</days>"
       "[.</invoke>\n[.<invoke name=\"time\">[.</invoke>\n[.</calls>",
       {"Yes.", "", R"(weather{"city": "12", "days": 3};time{};)"}});
  out.push_back(
      {"kimi k3",
       probe(kKimi3),
       "Hm.<|close|>think<|sep|><|open|>response<|sep|>Yes.<|close|>response<|sep|>"
       "<|open|>tools<|sep|><|open|>call tool=\"weather\" index=\"1\"<|sep|>"
       "<|open|>argument key=\"city\" type=\"string\"<|sep|>12<|close|>argument<|sep|>"
       "<|open|>argument key=\"days\" type=\"number\"<|sep|>3<|close|>argument<|sep|>"
       "<|open|>argument key=\"other\" type=\"string\"<|sep|>4<|close|>argument<|sep|>"
       "<|close|>call<|sep|><|open|>call tool=\"time\" index=\"2\"<|sep|><|close|>call<|sep|>"
       "<|close|>tools<|sep|><|close|>message<|sep|>",
       {"Yes.", "Hm.", R"(weather{"city": "12", "days": 3, "other": "4"};time{};)"},
       "<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>"});
  return out;
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (auto make : {object_cases, named_cases, other_cases, element_cases}) {
    for (Case& each : make()) out.push_back(std::move(each));
  }
  return out;
}

TEST(AnswerParserTest, EverySyntaxGivesItsCallsHoweverTheAnswerIsCut) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    EXPECT_EQ(parse_every_way(each.syntax, rules(each.tail), each.answer), each.expected);
  }
}

TEST(AnswerParserTest, ThoughtsAreToldApart) {
  const ChatSyntax syntax = probe("{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_EQ(parse_every_way(syntax, rules(), "<think>\nHm < x.\n</think>\n\nYes."),
            (Whole{"Yes.", "Hm < x.", ""}));
  EXPECT_EQ(parse_every_way(syntax, rules("<|assistant|>\n<think>\n"), "Hm.\n</think>\n\nYes."),
            (Whole{"Yes.", "Hm.", ""}));
  // A prompt that closed the thought leaves none to come.
  EXPECT_EQ(parse_every_way(syntax, rules("<think>\n\n</think>\n\n"), "Yes. <think>"),
            (Whole{"Yes. <think>", "", ""}));
  AnswerRules together = rules();
  together.separate_reasoning = false;
  EXPECT_EQ(parse_every_way(syntax, together, "<think>\nHm.\n</think>\n\nYes."),
            (Whole{"<think>\nHm.\n</think>\n\nYes.", "", ""}));
}

TEST(AnswerParserTest, WhatIsNoCallIsContent) {
  ChatSyntax hermes;
  hermes.call_begin = "<tool_call>\n";
  hermes.call_end = "\n</tool_call>";
  for (const std::string text :
       {"a <tool_call> b", "<tool_call>\n{\"name\": 3}\n</tool_call>", "<tool_call>{\"name\": \"w",
        "<tool_call>{]}", "1 < 2 <tool", "<tool_call>{\"name\": \"weather\", \"arguments\": 7}"}) {
    SCOPED_TRACE(text);
    const Whole whole = parse_every_way(hermes, rules(), text);
    EXPECT_EQ(whole.content, text);
    EXPECT_EQ(whole.calls, "");
  }
  ChatSyntax bare;  // JSON without marks
  for (const std::string text : {R"({"answer": 1})", R"({"name": "Bob", "age": 3})", "{", "[1]"}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(parse_every_way(bare, rules(), text), (Whole{text, "", ""}));
  }
  AnswerRules none = rules();
  none.tools.clear();
  EXPECT_EQ(parse_every_way(hermes, none, "<tool_call>\n{}\n</tool_call>").content,
            "<tool_call>\n{}\n</tool_call>");
}

TEST(AnswerParserTest, ACallThatAClientCannotReadIsContent) {
  ChatSyntax tagged;
  tagged.form = CallForm::kTagged;
  tagged.call_begin = "<tool_call>\n<function=";
  tagged.name_end = ">\n";
  tagged.parameter_begin = "<parameter=";
  tagged.key_end = ">\n";
  tagged.value_end = "\n</parameter>\n";
  tagged.call_end = "</function>\n</tool_call>";
  const auto call = [](std::size_t depth) {
    return "<tool_call>\n<function=weather>\n<parameter=days>\n" + std::string(depth, '[') +
           std::string(depth, ']') + "\n</parameter>\n</function>\n</tool_call>";
  };
  // The value stands one deeper in the object of the arguments.
  const Whole deepest = parse_every_way(tagged, rules(), call(limits::kJsonDepth));
  EXPECT_EQ(deepest.content, "");
  EXPECT_NE(deepest.calls, "");
  const Whole deeper = parse_every_way(tagged, rules(), call(limits::kJsonDepth + 1));
  EXPECT_EQ(deeper.content, call(limits::kJsonDepth + 1));
  EXPECT_EQ(deeper.calls, "");

  ChatSyntax harmony;
  harmony.form = CallForm::kHarmony;
  EXPECT_EQ(parse_every_way(harmony, rules(),
                            "<|channel|>commentary to=functions. <|message|>{}<|call|>"),
            (Whole{"{}", "", ""}));
}

TEST(AnswerParserTest, AHeaderOfTheLongestLengthIsReadHoweverItIsCut) {
  ChatSyntax harmony;
  harmony.form = CallForm::kHarmony;
  const std::string begin = "<|channel|>analysis";
  const auto answer = [&](std::size_t header) {
    return begin + std::string(header - begin.size(), ' ') + "<|message|>Hm.<|end|>";
  };
  EXPECT_EQ(parse_every_way(harmony, rules(), answer(512)), (Whole{"", "Hm.", ""}));
  EXPECT_EQ(parse_every_way(harmony, rules(), answer(513)).reasoning, "");
}

TEST(AnswerParserTest, TextThatCannotBecomeACallIsToldAtOnce) {
  ChatSyntax hermes;
  hermes.call_begin = "<tool_call>\n";
  hermes.call_end = "\n</tool_call>";
  AnswerParser parser(std::make_shared<ChatSyntax>(hermes), rules());
  EXPECT_EQ(parser.push("Hello").content, "Hello");
  EXPECT_EQ(parser.push(" there <").content, " there");
  EXPECT_EQ(parser.push("b>").content, " <b>");
}

TEST(AnswerParserTest, OneCallWhereSeveralAreNotWanted) {
  ChatSyntax hermes;
  hermes.call_begin = "<tool_call>\n";
  hermes.call_end = "\n</tool_call>";
  AnswerRules one = rules();
  one.parallel_calls = false;
  const std::string call = "<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>\n";
  EXPECT_EQ(parse_every_way(hermes, one, call + call), (Whole{"", "", "time{};"}));
}

// Qwen 3.5 and DeepSeek 4 often call without closing the thought that the prompt began.
TEST(AnswerParserTest, CallsThatEndAThoughtAreMade) {
  ChatSyntax hermes;
  hermes.call_begin = "<tool_call>\n";
  hermes.call_end = "\n</tool_call>";
  const AnswerRules thinks = rules("<think>\n");
  const std::string call = "<tool_call>\n" + kJson + "\n</tool_call>";
  const std::string other = "<tool_call>" + kOther + "</tool_call>\n";
  EXPECT_EQ(parse_every_way(hermes, thinks, "Hm.\n" + call + "\n" + other),
            (Whole{"", "Hm.", kBoth}));
  // Where something follows, the thought is about a call.
  EXPECT_EQ(parse_every_way(hermes, thinks, "I may " + call + " now.\n</think>\n\n" + call),
            (Whole{"", "I may " + call + " now.", "weather" + kParis + ";"}));
  EXPECT_EQ(parse_every_way(hermes, thinks, "Hm " + call + "</think>No."),
            (Whole{"No.", "Hm " + call, ""}));
  for (const std::string text : {"<tool_call>", "a <tool_call> b", "<tool_call>{]}"}) {
    EXPECT_EQ(parse_every_way(hermes, thinks, text), (Whole{"", text, ""}));
  }
  AnswerRules one = thinks;
  one.parallel_calls = false;
  EXPECT_EQ(parse_every_way(hermes, one, call + " or " + call),
            (Whole{"", call + " or", "weather" + kParis + ";"}));
}

// Models write marks with other white space than the template does, and leave out the outer tag.
TEST(AnswerParserTest, MarksMayVary) {
  const std::vector<Case> all = other_cases();
  const ChatSyntax& glm = all[0].syntax;
  const Whole expected{"", "", R"(weather{"city": "Paris", "days": 3};)"};
  EXPECT_EQ(parse_every_way(glm, rules(),
                            "<tool_call>weather<arg_key>city</arg_key><arg_value>Paris</arg_value>"
                            "<arg_key>days</arg_key> <arg_value>3</arg_value></tool_call>"),
            expected);
  const ChatSyntax& coder = all[1].syntax;
  EXPECT_EQ(parse_every_way(coder, rules(),
                            "I look.\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n"
                            "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"),
            (Whole{"I look.", "", expected.calls}));
  EXPECT_EQ(parse_every_way(coder, rules(), "<tool_call><function=time></function></tool_call>"),
            (Whole{"", "", "time{};"}));
}

TEST(AnswerParserTest, MarksAroundContentAreNoContent) {
  const ChatSyntax syntax = probe(kKimi3);
  EXPECT_EQ(syntax.content_begin, "<|open|>response<|sep|>");
  EXPECT_EQ(syntax.answer_end, "<|close|>message<|sep|>");
  AnswerRules none = rules("<|open|>think<|sep|>");
  none.tools.clear();
  const std::string answer = "<|open|>response<|sep|>The response.\n<|close|>response<|sep|>";
  EXPECT_EQ(parse_every_way(syntax, none, "<|close|>think<|sep|>" + answer),
            (Whole{"The response.\n", "", ""}));
  // The prompt has begun the content. Of the last mark, the answer may hold a part.
  none.prompt_tail = "<|open|>response<|sep|>";
  EXPECT_EQ(parse_every_way(syntax, none, "A < b.<|close|>response<|sep|><|close|>message<|sep|>"),
            (Whole{"A < b.", "", ""}));
}

// A newline that the template does not write around a value is part of it.
TEST(AnswerParserTest, ValuesKeepTheirNewlines) {
  ChatSyntax seed = other_cases()[1].syntax;
  seed.key_end = ">";
  seed.value_end = "</parameter>";
  const std::string text = "<tool_call>\n<function=weather>\n<parameter=city>a\n</parameter>\n";
  EXPECT_EQ(parse_every_way(seed, rules(), text + "</function>\n</tool_call>"),
            (Whole{"", "", R"(weather{"city": "a\n"};)"}));
}

TEST(ChatSyntaxTest, ATemplateWithoutToolsGetsThemDescribed) {
  const ChatSyntax syntax =
      probe("{% for m in messages %}{{ m.role }}:{{ m.content }}{% endfor %}");
  ASSERT_TRUE(syntax.describes_tools);
  ChatTemplateInput input;
  input.messages = {{"user", "Q"}, {"assistant", ""}, {"tool", "9"}};
  input.messages[1].tool_calls = {{"1", "time", "{}"}};
  input.tools = {tool("time")};
  describe_tools(syntax, input);
  ASSERT_EQ(input.messages.size(), 4U);
  EXPECT_NE(input.messages[0].content.find(tool("time").text), std::string::npos);
  EXPECT_EQ(input.messages[2].content,
            "<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>");
  EXPECT_EQ(input.messages[3].role, "user");
  EXPECT_EQ(input.messages[3].content, "<tool_response>\n9\n</tool_response>");
}

}  // namespace
}  // namespace hearth::model
