// An expression as a template renders it, and rows of expressions with what Jinja 3.1 makes of
// them.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>

#include "model/chat_template.h"

namespace hearth::model {

// "error: ..." when refused. `content` is the user's text, as `c` in the expression.
inline std::string rendered(std::string_view expression, std::string_view content = "") {
  const auto parsed =
      ChatTemplate::parse("{% set c = messages[0].content %}{{ " + std::string(expression) + " }}");
  if (!parsed.ok()) return "error: " + parsed.error().message;
  ChatTemplateInput input;
  input.messages = {{"user", std::string(content)}};
  const auto pieces = parsed.value()->render(input);
  if (!pieces.ok()) return "error: " + pieces.error().message;
  std::string out;
  for (const PromptPiece& piece : *pieces) out += piece.text;
  return out;
}

struct JinjaRow {
  std::string_view expression;
  std::string_view result;
};

inline void expect_rows(std::span<const JinjaRow> rows) {
  for (const JinjaRow& row : rows) {
    EXPECT_EQ(rendered(row.expression), row.result) << row.expression;
  }
}

}  // namespace hearth::model
