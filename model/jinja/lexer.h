// A template's source to tokens, with Jinja's white space control (trim_blocks and lstrip_blocks
// on, one trailing newline dropped).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hearth::model::jinja {

enum class TokenKind : std::uint8_t {
  kData,           // text: what is written out
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,   // text: unescaped
  kInteger,  // text: digits as written
  kFloat,
  kOperator,  // text: the operator
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::uint32_t line = 1;
  std::string text;
};

// The last token is kEnd. Errors name the line.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace hearth::model::jinja
