#include "model/jinja/cursor.h"

namespace hearth::model::jinja {

Token Cursor::take() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  INVARIANT(at_ < tokens_.size(), "the cursor stays within the tokens");
  return token;
}

bool Cursor::at_name(std::string_view name) const {
  return current().kind == TokenKind::kName && current().text == name;
}

bool Cursor::at_operator(std::string_view text) const {
  return current().kind == TokenKind::kOperator && current().text == text;
}

bool Cursor::skip_name(std::string_view name) {
  if (!at_name(name)) return false;
  ++at_;
  INVARIANT(at_ < tokens_.size(), "the end of the source stands behind every name");
  return true;
}

bool Cursor::skip_operator(std::string_view text) {
  if (!at_operator(text)) return false;
  ++at_;
  INVARIANT(at_ < tokens_.size(), "the end of the source stands behind every operator");
  return true;
}

Status Cursor::expect_operator(std::string_view text) {
  if (skip_operator(text)) return ok_status();
  return fail(current().line, "expected '" + std::string(text) + "', found " + describe_current());
}

Result<std::string> Cursor::expect_name(std::string_view what) {
  if (current().kind == TokenKind::kName) return take().text;
  return fail(current().line,
              "expected the name of a " + std::string(what) + ", found " + describe_current());
}

Error Cursor::fail(std::uint32_t line, const std::string& what) {
  return Error::invalid("chat template line " + std::to_string(line) + ": " + what);
}

Error Cursor::unsupported(std::uint32_t line, const std::string& what) {
  return {ErrorCode::kUnsupported,
          "chat template line " + std::to_string(line) + ": " + what + " is not supported"};
}

std::string Cursor::describe_current() const {
  switch (current().kind) {
    case TokenKind::kVariableEnd: return "'}}'";
    case TokenKind::kBlockEnd: return "'%}'";
    case TokenKind::kEnd: return "the end of the template";
    case TokenKind::kString: return "a string";
    default: return "'" + current().text + "'";
  }
}

}  // namespace hearth::model::jinja
