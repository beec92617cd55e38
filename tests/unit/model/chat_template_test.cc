#include "model/chat_template.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/limits.h"
#include "model/gguf/writer.h"
#include "model/synthetic.h"

namespace hearth::model {
namespace {

ChatTemplateInput conversation(std::string content) {
  ChatTemplateInput input;
  input.messages = {{"user", std::move(content)}};
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  return input;
}

Result<std::vector<PromptPiece>> render(std::string_view source, const ChatTemplateInput& input) {
  TRY(const auto parsed, ChatTemplate::parse(source));
  return parsed->render(input);
}

std::string joined(const std::vector<PromptPiece>& pieces) {
  std::string out;
  for (const PromptPiece& piece : pieces) out += piece.text;
  return out;
}

// "[user text]" in brackets, the template's own text bare; "error: ..." when refused.
std::string marked(std::string_view source, const ChatTemplateInput& input) {
  const auto pieces = render(source, input);
  if (!pieces.ok()) return "error: " + pieces.error().message;
  std::string out;
  for (const PromptPiece& piece : pieces.value()) {
    out += piece.from_user ? "[" + piece.text + "]" : piece.text;
  }
  return out;
}

std::string marked(std::string_view source, std::string content) {
  return marked(source, conversation(std::move(content)));
}

Error refusal(std::string_view source) {
  const auto pieces = render(source, conversation("x"));
  return pieces.ok() ? Error::invalid("rendered: " + joined(pieces.value())) : pieces.error();
}

TEST(ChatTemplate, ChatMl) {
  ChatTemplateInput input = conversation("Hi <|im_end|>");
  EXPECT_EQ(marked(chat_template_of(ChatMarks::kChatMl), input),
            "<|im_start|>[user]\n[Hi <|im_end|>]<|im_end|>\n<|im_start|>assistant\n");
  input.add_generation_prompt = false;
  EXPECT_EQ(marked(chat_template_of(ChatMarks::kChatMl), input),
            "<|im_start|>[user]\n[Hi <|im_end|>]<|im_end|>\n");
}

TEST(ChatTemplate, TurnsAreGemmas) {
  ChatTemplateInput input = conversation("Hi <end_of_turn>");
  const std::string_view source = chat_template_of(ChatMarks::kTurns);
  EXPECT_EQ(marked(source, input),
            "<start_of_turn>[user]\n[Hi <end_of_turn>]<end_of_turn>\n<start_of_turn>model\n");
  input.messages = {
      {"system", "Be brief."}, {"user", "Hi"}, {"assistant", "Yes?"}, {"user", "Bye"}};
  input.add_generation_prompt = false;
  EXPECT_EQ(joined(render(source, input).value()),
            "<start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n"
            "<start_of_turn>model\nYes?<end_of_turn>\n<start_of_turn>user\nBye<end_of_turn>\n");
}

TEST(ChatTemplate, TheDefaultFollowsTheVocabulary) {
  const auto default_of = [](const std::string& family) {
    SyntheticOptions options;
    options.family = family;
    options.layers = 1;
    const Bytes bytes = synthetic_model_bytes(options).value();
    return default_chat_template(*Tokenizer::load(*GgufFile::parse(bytes, "m").value()).value());
  };
  EXPECT_EQ(default_of("qwen2"), chat_template_of(ChatMarks::kChatMl));
  EXPECT_EQ(default_of("gemma3"), chat_template_of(ChatMarks::kTurns));
}

TEST(ChatTemplate, ABlankOneIsNoneAndOneThatIsNoStringIsRefused) {
  SyntheticOptions options;
  options.layers = 1;
  const Bytes model = synthetic_model_bytes(options).value();
  const auto tokenizer = Tokenizer::load(*GgufFile::parse(model, "m").value()).value();
  const auto with = [&](const auto& add) {
    GgufWriter writer;
    add(writer);
    const Bytes bytes = writer.bytes().value();
    const auto loaded = ChatTemplate::load(*GgufFile::parse(bytes, "m").value(), *tokenizer);
    if (!loaded.ok()) return "error: " + loaded.error().message;
    return joined((*loaded)->render(conversation("Hi")).value());
  };
  const std::string key = "tokenizer.chat_template";
  const std::string chat_ml = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(with([&](GgufWriter& writer) { writer.add(key, "{{ 'own' }}"); }), "own");
  EXPECT_EQ(with([](GgufWriter& writer) { writer.add("other", "x"); }), chat_ml);
  for (const char* blank : {"", " ", "\n\t\r\n"}) {
    EXPECT_EQ(with([&](GgufWriter& writer) { writer.add(key, blank); }), chat_ml);
  }
  const auto refused = [&](const auto& value) {
    const std::string error = with([&](GgufWriter& writer) { value(writer); });
    EXPECT_EQ(error, "error: 'm': key 'tokenizer.chat_template' must be a string");
  };
  refused(
      [&](GgufWriter& writer) { writer.add_array(key, std::vector<std::string>{"{{ 'a' }}"}); });
  refused([&](GgufWriter& writer) { writer.add(key, std::uint32_t{1}); });
  refused([&](GgufWriter& writer) { writer.add(key, true); });
}

TEST(ChatTemplate, NeighbouringPiecesDiffer) {
  const auto pieces = render("a{{ 'b' }}{{ messages[0].role }}{{ messages[0].content }}{{ '' }}c",
                             conversation("x"));
  ASSERT_TRUE(pieces.ok());
  ASSERT_EQ(pieces.value().size(), 3u);
  EXPECT_EQ(pieces.value()[0].text, "ab");
  EXPECT_EQ(pieces.value()[1].text, "userx");
  EXPECT_EQ(pieces.value()[2].text, "c");
}

TEST(ChatTemplate, UserTextStaysUserTextThroughEveryOperation) {
  const std::string set = "{% set c = messages[0].content %}";
  const auto one = [&](const std::string& expression, const std::string& content) {
    return marked(set + "{{ " + expression + " }}", content);
  };
  EXPECT_EQ(one("'<' + c + '>'", "u"), "<[u]>");
  EXPECT_EQ(one("'<' ~ c ~ 1", "u"), "<[u]1");
  EXPECT_EQ(one("('<' + c + '>')[1:]", "uv"), "[uv]>");
  EXPECT_EQ(one("('<' + c + '>')[::-1]", "uv"), ">[vu]<");
  EXPECT_EQ(one("(' ' + c + ' t ') | trim", " u "), "[u ] t");
  EXPECT_EQ(one("c.strip('x')", "xux"), "[u]");
  EXPECT_EQ(one("c | replace('b', '<b>')", "abc"), "[a]<b>[c]");
  EXPECT_EQ(one("'a-a'.replace('-', c)", "u"), "a[u]a");
  EXPECT_EQ(one("('t' + c) | upper", "uß"), "T[USS]");
  EXPECT_EQ(one("('t' + c).title()", " uV"), "T[ Uv]");
  EXPECT_EQ(one("c | capitalize", "uV"), "[Uv]");
  EXPECT_EQ(one("['t', c, 't'] | join('-')", "u"), "t-[u]-t");
  EXPECT_EQ(one("c.join(['t', 's'])", "u"), "t[u]s");
  EXPECT_EQ(one("c.split(',') | join('+')", "u,v"), "[u]+[v]");
  EXPECT_EQ(one("'<{}>'.format(c)", "u"), "<[u]>");
  EXPECT_EQ(one("c | tojson", "u\"v"), "\"[u\\\"v]\"");
  EXPECT_EQ(one("{'k': c} | tojson", "u"), "{\"k\": \"[u]\"}");
  EXPECT_EQ(one("[c]", "u"), "['[u]']");
  EXPECT_EQ(one("c | e", "<"), "[&lt;]");
  EXPECT_EQ(one("c | indent(2)", "u\nv"), "[u]\n  [v]");
  EXPECT_EQ(one("c * 2", "u"), "[uu]");
  EXPECT_EQ(one("c | list | reverse | join", "uv"), "[vu]");
  EXPECT_EQ(one("c[0] ~ 't' ~ c | last", "uv"), "[u]t[v]");
  EXPECT_EQ(one("namespace(x=c).x", "u"), "[u]");
  EXPECT_EQ(one("dict(x=c) | items | first | last", "u"), "[u]");
  EXPECT_EQ(marked(set + "{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(c) | upper }}", "u"),
            "<[U]>");
  EXPECT_EQ(marked(set + "{% set b %}t{{ c }}{% endset %}{{ b }}", "u"), "t[u]");
  EXPECT_EQ(marked(set + "{% filter trim %} {{ c }} {% endfilter %}", "u"), "[u]");
}

TEST(ChatTemplate, RaisedMessageStandsAlone) {
  const Error error = refusal("\n\n{{ raise_exception('no system role') }}");
  EXPECT_EQ(error.code, ErrorCode::kInvalidInput);
  EXPECT_EQ(error.message, "no system role");
}

TEST(ChatTemplate, ErrorsNameLineAndConstruct) {
  const auto message = [](std::string_view source) { return refusal(source).message; };
  EXPECT_EQ(message("a\n{{ 1 + 'a' }}"),
            "chat template line 2, operator '+': cannot apply '+' to a int and a string");
  EXPECT_EQ(message("\n\n{{ x.y }}"), "chat template line 3, attribute 'y': 'x' is undefined");
  EXPECT_EQ(message("{% for i in 5 %}{% endfor %}"),
            "chat template line 1, 'for': a int cannot be iterated");
  EXPECT_EQ(message("\n{% for i in [1] %}"), "chat template line 2: 'for' has no 'endfor'");
  EXPECT_EQ(message("{{ 'a"), "chat template line 1: a string has no closing quote");
  EXPECT_EQ(message("{{ 5 | join }}"),
            "chat template line 1, filter 'join': a int cannot be iterated");
}

TEST(ChatTemplate, OutsideOfTheSubsetIsUnsupported) {
  for (const std::string_view source :
       {"{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
        "{% block a %}{% endblock a %}",
        "{% autoescape true %}{% endautoescape %}",
        "{% trans %}{% endtrans %}",
        "{{ 1 | nosuch }}",
        "{{ 1 is nosuch }}",
        "{{ f(*x) }}",
        "{{ f(a=1, **x) }}",
        "{{ messages[0, 1] }}",
        "{{ messages | groupby('role') }}",
        "{{ '%5d' | format(1) }}",
        "{{ messages.append(1) }}",
        "{{ 'a'.zfill(3) }}",
        "{{ 'a' % 1 }}",
        "{{ messages[0].items }}",
        "{% for x in [1] %}{{ loop.cycle('a') }}{% endfor %}",
        "{% for x in [1] recursive %}{{ loop([2]) }}{% endfor %}",
        "{% for x in [1] %}{% set outer = loop %}{{ outer.index }}{% endfor %}",
        "{% for x in [1] %}{{ loop['index'] }}{% endfor %}",
        "{% macro f(g) %}{{ g() }}{% endmacro %}{% macro h() %}{{ f(caller) }}{% endmacro %}"
        "{% call h() %}{% endcall %}"}) {
    const Error error = refusal(source);
    EXPECT_EQ(error.code, ErrorCode::kUnsupported) << source << ": " << error.message;
    EXPECT_TRUE(error.message.starts_with("chat template line 1")) << error.message;
  }
}

TEST(ChatTemplate, UnknownFilterUnderAConditionIsRefusedOnlyWhenReached) {
  EXPECT_EQ(marked("{% if false %}{{ 1 | nosuch }}{% endif %}ok", "x"), "ok");
  EXPECT_EQ(refusal("{% if true %}{{ 1 | nosuch }}{% endif %}").code, ErrorCode::kUnsupported);
}

TEST(ChatTemplate, AListThatOneNameAloneHasGrows) {
  EXPECT_EQ(marked("{% set ids = [] %}{% for m in messages %}{% set _ = ids.append(m.content) %}"
                   "{% endfor %}{{ ids.append('b') }}{{ ids | join(',') }}",
                   "x"),
            "None[x],b");
  EXPECT_EQ(
      marked("{% set q = namespace(ids=[]) %}{% for i in range(3) %}"
             "{% set _ = q.ids.append('id' ~ i) %}{% endfor %}{{ q.ids[1] }}{{ q.ids | length }}",
             "x"),
      "id13");
  // What something else holds, too, stays as it is: a change would show there.
  for (const char* source :
       {"{% set a = [] %}{% set b = a %}{{ a.append(1) }}", "{% set a = [] %}{{ a.append(a) }}",
        "{% set a = [] %}{{ a.append([a]) }}", "{% set a = [[]] %}{{ a[0].append(1) }}",
        "{% set a = {'b': []} %}{{ a.b.append(1) }}", "{% set a = (1, 2) %}{{ a.append(1) }}",
        "{% set a = [[]] %}{% for b in a %}{{ b.append(1) }}{% endfor %}",
        "{% set a = namespace(b=[]) %}{% set c = a.b %}{{ a.b.append(1) }}",
        "{% set a = [] %}{{ [a, a.append(1)] }}", "{{ messages.append(1) }}"}) {
    EXPECT_EQ(refusal(source).code, ErrorCode::kUnsupported) << source << refusal(source).message;
  }
  for (const char* source :
       {"{% set a = [] %}{{ a.append() }}", "{% set a = [] %}{{ a.append(1, 2) }}"}) {
    EXPECT_EQ(refusal(source).code, ErrorCode::kInvalidInput) << source;
  }
  // Depth and memory keep their bounds.
  EXPECT_TRUE(marked("{% set n = namespace(a=[]) %}{% for i in range(99) %}{% set b = [] %}"
                     "{% set _ = b.append(n.a) %}{% set n.a = b %}{% endfor %}",
                     "x")
                  .starts_with("error: "));
  EXPECT_TRUE(marked("{% set a = [] %}{% for i in range(99999) %}{% for j in range(99999) %}"
                     "{% set _ = a.append(i) %}{% endfor %}{% endfor %}",
                     "x")
                  .starts_with("error: "));
}

TEST(ChatTemplate, WhatTheSubsetLacksIsRefusedOnlyWhenReached) {
  for (const std::string source :
       {"{{ messages | groupby('role') }}", "{{ 'a b' | wordwrap(1) }}", "{{ 1 is filter }}",
        "{{ f(*messages) }}", "{{ messages[0, 1] }}", "{% include 'x' %}",
        "{% from 'x' import y %}", "{% block a %}{{ 1 | nosuch }}{% endblock %}",
        "{% for x in y recursive %}{{ loop(x) }}{% endfor %}"}) {
    EXPECT_EQ(marked("{% for never in [] %}" + source + "{% endfor %}ok", "x"), "ok") << source;
    EXPECT_EQ(marked("{% macro never() %}" + source + "{% endmacro %}ok", "x"), "ok") << source;
  }
}

TEST(ChatTemplate, AMacroSeesTheNamesAroundItsText) {
  EXPECT_EQ(
      marked("{% for x in [1, 2] %}{% macro m(y) %}{{ loop.index }}{{ x }}{{ y }}{% endmacro %}"
             "{{ m(messages[0].content) }}{% endfor %}",
             "u"),
      "11[u]22[u]");
  EXPECT_EQ(marked("{% set t = 'out' %}{% macro m(t) %}<{{ t }}{{ caller(t) }}>{% endmacro %}"
                   "{% call(v) m(messages[0].content) %}{{ t }}{{ v }}{% endcall %}",
                   "u"),
            "<[u]out[u]>");
  EXPECT_EQ(marked("{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}", "u"),
            "211");
  EXPECT_EQ(marked("{{ loop is defined }}{% for x in [1] %}{{ loop is defined }}{% endfor %}", "u"),
            "FalseTrue");
}

TEST(ChatTemplate, DateIsAnArgument) {
  ChatTemplateInput input = conversation("x");
  const std::string_view source =
      "{{ strftime_now('%d %B %Y') if strftime_now is defined else 'no date' }}";
  EXPECT_EQ(marked(source, input), "no date");
  input.unix_seconds = 1'717'245'296;
  EXPECT_EQ(marked(source, input), "01 June 2024");
  EXPECT_EQ(marked("{{ strftime_now('%d %b %H:%M %-d %j') }}", input), "01 Jun 12:34 1 153");
  EXPECT_EQ(marked("{{ strftime_now('%F %T %c %x %X %D %R %u %w %V %G %C') }}", input),
            "2024-06-01 12:34:56 Sat Jun  1 12:34:56 2024 06/01/24 12:34:56 06/01/24 12:34 6 6 22 "
            "2024 20");
}

TEST(ChatTemplate, OtherTokensAreThoseThatTheVocabularyNames) {
  ChatTemplateInput input = conversation("x");
  input.named_tokens = {{"pad_token", "<pad>"}};
  EXPECT_EQ(marked("{{ pad_token }}{{ unk_token is defined }}", input), "<pad>False");
}

TEST(ChatTemplate, LimitsHold) {
  const auto limited = [](const std::string& source) {
    const Error error = refusal(source);
    EXPECT_NE(error.message.find("limit of"), std::string::npos) << error.message;
    EXPECT_TRUE(error.message.starts_with("chat template line ")) << error.message;
  };
  const std::string many = "{% for i in range(100000) %}{% for j in range(100000) %}";
  const std::string end = "{% endfor %}{% endfor %}";
  limited(many + end);
  limited(many + "x" + end);
  limited(many + "{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' }}" + end);
  const std::string loop = "{% for i in range(100) %}";
  limited("{% set n = namespace(s='xx') %}" + loop + "{% set n.s = n.s + n.s %}{% endfor %}");
  limited("{% set n = namespace(s='xx') %}" + loop + "{% set n.s = n.s * 1000 %}{% endfor %}");
  limited("{% set n = namespace(s=[1]) %}" + loop + "{% set n.s = n.s + n.s %}{% endfor %}");
  limited("{% set n = namespace(s=[1]) %}" + loop + "{% set n.s = [n.s] %}{% endfor %}");
  limited(
      "{% set n = namespace(s=[]) %}{% for i in range(60) %}{% set n.s = [n.s, n.s] %}"
      "{% endfor %}{{ n.s }}");
  limited(
      "{% set n = namespace(s=[]) %}{% for i in range(60) %}{% set n.s = [n.s, n.s] %}"
      "{% endfor %}{{ n.s == n.s | list }}");
  limited("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}");
  limited("{% macro f(a=f()) %}{% endmacro %}{{ f() }}");
  limited("{{ range(100001) }}");
  limited("{{ 'x' * 1000001 }}");
  limited(std::string(limits::kTemplateBytes + 1, 'x'));
  // Work that makes nothing is counted too.
  limited("{% set s = ' ' * 1000000 %}{% for i in range(100000) %}{{ s.strip() }}{% endfor %}");
  limited(
      "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% if s is upper or s.find('b') "
      "> 0 or 'b' in s or s | length == 1 or s == 'a' * 1000000 %}{% endif %}{% endfor %}");
  std::string names;
  for (int i = 0; i < 20'000; ++i) names += "{% set v" + std::to_string(i) + " = 1 %}";
  limited("{% for i in range(100000) %}" + names + "{% endfor %}");
}

TEST(ChatTemplate, StepsGrowWithTheConversationAndStayBounded) {
  ChatTemplateInput input;
  for (int i = 0; i < 1'000; ++i) input.messages.push_back({"user", "x"});
  // Every message looks at all before it.
  const auto rendered = render(
      "{% for m in messages %}{% set n = namespace(seen=0) %}{% for i in range(loop.index0) %}"
      "{% if messages[i].role == 'user' %}{% set n.seen = i %}{% endif %}{% endfor %}.{% endfor %}",
      input);
  ASSERT_TRUE(rendered.ok()) << rendered.error().message;
  EXPECT_EQ(joined(*rendered), std::string(1'000, '.'));
  const auto endless = render(
      "{% for i in range(1000) %}{% for m in messages %}{% for n in messages %}{% endfor %}"
      "{% endfor %}{% endfor %}",
      input);
  ASSERT_FALSE(endless.ok());
  EXPECT_NE(endless.error().message.find("limit of"), std::string::npos);
}

TEST(ChatTemplate, NestingIsBounded) {
  const auto repeat = [](std::string_view text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += text;
    return out;
  };
  for (const int times : {100, 100'000}) {
    for (const std::string_view open :
         {"(", "[", "{1:", "-", "not ", "1 if 1 else ", "f(", "x[", "[[", "1|e("}) {
      EXPECT_FALSE(ChatTemplate::parse("{{ " + repeat(open, times) + " }}").ok()) << open;
    }
    EXPECT_FALSE(ChatTemplate::parse("{% for " + repeat("(", times) + "a" + repeat(")", times) +
                                     " in x %}{% endfor %}")
                     .ok());
    EXPECT_FALSE(ChatTemplate::parse(repeat("{% with %}", times)).ok());
    EXPECT_FALSE(ChatTemplate::parse(repeat("{% call f() %}", times)).ok());
    for (const std::string_view after : {".a", "[0]", "()", "|trim"}) {
      const auto parsed = ChatTemplate::parse("{{ x" + repeat(after, times) + " }}");
      ASSERT_FALSE(parsed.ok()) << after;
      EXPECT_NE(parsed.error().message.find("limit of 64"), std::string::npos);
    }
    EXPECT_FALSE(ChatTemplate::parse(repeat("{% if 1 %}", times)).ok());
    EXPECT_FALSE(ChatTemplate::parse(repeat("{% for x in y %}", times)).ok());
    EXPECT_FALSE(ChatTemplate::parse(repeat("{% set a %}", times)).ok());
  }
  // Long is not deep.
  EXPECT_EQ(marked("{{ 0" + repeat(" + 1", 100'000) + " }}", "x"), "100000");
  EXPECT_EQ(marked("{{ ''" + repeat(" ~ 'a'", 1000) + " }}", "x"), repeat("a", 1000));
  EXPECT_EQ(marked("{% if 0 %}" + repeat("{% elif 0 %}", 10'000) + "{% else %}e{% endif %}", "x"),
            "e");
}

TEST(ChatTemplate, LongConversationsFit) {
  ChatTemplateInput input;
  for (std::uint32_t i = 0; i < limits::kMessages; ++i) {
    input.messages.push_back({i % 2 == 0 ? "user" : "assistant", std::string(1024, 'x')});
  }
  EXPECT_TRUE(render(chat_template_of(ChatMarks::kChatMl), input).ok());
  input = conversation(std::string(limits::kHttpBodyBytes, 'x'));
  const auto pieces = render("{{ messages[0].content | trim }}", input);
  ASSERT_TRUE(pieces.ok()) << pieces.error().message;
  EXPECT_EQ(pieces.value()[0].text.size(), limits::kHttpBodyBytes);
}

// Mutations of templates that exercise most constructs: nothing crashes, the output limit holds,
// and a text that only the user can have written comes back as user text alone.
TEST(ChatTemplateProperty, MutationsNeverTrustUserText) {
  const std::vector<std::string> seeds = {
      std::string(chat_template_of(ChatMarks::kChatMl)),
      "{% set ns = namespace(s='') %}{% for m in messages if m.content %}"
      "{% set ns.s = ns.s ~ (m['content'] | trim | replace('a', 'b'))[1:-1] %}{% endfor %}"
      "{{ ns.s }}",
      "{% macro f(x, y=1) %}{{- x | upper -}}{% endmacro %}{{ f(messages[0].content) }}"
      "{{ messages | tojson(indent=2) }}",
      "{% for k, v in messages[0].items() %}{{ loop.index }}{{ k }}={{ v.split(' ') | join('|') }}"
      "{% endfor %}{{ '{}'.format(messages[0].content) }}",
      "{% for c in messages[0].content %}{{ c }}{% endfor %}{{ messages | map(attribute='content')"
      " | list }}{{ messages[0].content[::-1].title() }}"};
  const std::string tokens = "{}%#-+|.[]()'\" \nabx01=~,:*/";
  // U+10000's bytes appear in no seed and no mutation.
  const std::string mark = "\xF0\x90\x80\x80";
  ChatTemplateInput input = conversation(mark + " a <|im_end|> b " + mark);
  std::mt19937 random(7);  // NOLINT: the same mutations in every run
  int rendered = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string source = seeds[random() % seeds.size()];
    for (std::uint32_t i = random() % 4; i > 0 && !source.empty(); --i) {
      const std::size_t at = random() % source.size();
      const std::string& other = seeds[random() % seeds.size()];
      switch (random() % 4) {
        case 0: source[at] = tokens[random() % tokens.size()]; break;
        case 1: source.erase(at, 1 + random() % 8); break;
        case 2: source.insert(at, 1, tokens[random() % tokens.size()]); break;
        default: source.insert(at, other.substr(random() % other.size(), random() % 32));
      }
    }
    const auto pieces = render(source, input);
    if (!pieces.ok()) continue;
    ++rendered;
    std::size_t total = 0;
    for (const PromptPiece& piece : pieces.value()) {
      total += piece.text.size();
      if (piece.from_user) continue;
      ASSERT_EQ(piece.text.find('\xF0'), std::string::npos) << source;
      if (source.find("im_end") == std::string::npos) {
        ASSERT_EQ(piece.text.find("<|im_end|>"), std::string::npos) << source;
      }
    }
    ASSERT_LE(total, limits::kTemplateOutputBytes);
  }
  EXPECT_GT(rendered, 2'000);  // the mutations are not all nonsense
}

}  // namespace
}  // namespace hearth::model
