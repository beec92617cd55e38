#include "model/chat/syntax.h"

#include <gtest/gtest.h>

#include <string>

namespace hearth::model {
namespace {

ChatSyntax syntax_of(const std::string& source) {
  const auto parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message);
  return find_chat_syntax(*parsed.value());
}

TEST(ChatSyntaxTest, AModelThinksWhereItsTemplateWritesThoughts) {
  const ChatSyntax plain =
      syntax_of("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}");
  EXPECT_FALSE(plain.thinks);
  EXPECT_TRUE(plain.describes_tools);
  const ChatSyntax history = syntax_of(
      "{% for m in messages %}{% if m.reasoning_content %}[THINK]{{ m.reasoning_content }}[/THINK]"
      "{% endif %}{{ m.content }}{% endfor %}");
  EXPECT_TRUE(history.thinks);
  EXPECT_EQ(history.think_end, "[/THINK]");
  EXPECT_TRUE(syntax_of("{% for m in messages %}{{ m.content }}{% endfor %}"
                        "{% if add_generation_prompt %}<think>\n{% endif %}")
                  .thinks);
  EXPECT_TRUE(
      syntax_of("{% for m in messages %}<|start|>{{ m.role }}{% if m.tool_calls %}{% for t in "
                "m.tool_calls %} "
                "to=functions.{{ t.function.name }}<|channel|>commentary json<|message|>"
                "{{ t.function.arguments | tojson }}<|call|>{% endfor %}{% endif %}<|message|>"
                "{{ m.content }}<|end|>{% endfor %}")
          .thinks);
}

// A template that writes an object between marks, and a text as it is.
TEST(ChatSyntaxTest, MarksForEachArgumentAreThoseThatTheModelWrites) {
  const ChatSyntax syntax = syntax_of(
      "{% for m in messages %}{{ m.content }}{% for t in m.tool_calls or [] %}"
      "{% set a = t.function.arguments %}<call f=\"{{ t.function.name }}\" i=\"{{ loop.index }}\">"
      "{% if a is string %}<json>{{ a }}</json>{% else %}{% for k, v in a.items() %}"
      "<arg key=\"{{ k }}\" text=\"{{ 'true' if v is string else 'false' }}\">{{ v }}</arg>"
      "{% endfor %}{% endif %}</call>{% endfor %}{% endfor %}");
  EXPECT_EQ(syntax.form, CallForm::kTagged);
  EXPECT_TRUE(syntax.object_arguments);
  EXPECT_TRUE(syntax.numbered);
  EXPECT_EQ(syntax.name_end, "\" i=\"");
  EXPECT_EQ(syntax.type_word, "true");
  EXPECT_EQ(syntax.parameter_begin, "<arg key=\"");
  EXPECT_EQ(syntax.content_begin, "");
}

TEST(ChatSyntaxTest, MarksAreThoseThatSpecialTokensMaySpell) {
  ChatSyntax syntax;
  syntax.section_begin = "[TOOL_CALLS][";
  syntax.separator = " ";
  const std::vector<std::string> marks = syntax.marks();
  EXPECT_EQ(marks, (std::vector<std::string>{"[TOOL_CALLS][", "<think>", "</think>"}));
}

}  // namespace
}  // namespace hearth::model
