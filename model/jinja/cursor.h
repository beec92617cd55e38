// Cursor: the current place of the parser in a template's tokens, and errors that name its line.
// The statement parser and the expression parser share one. It never moves past the last token, the
// end of the source.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "model/jinja/lexer.h"

namespace hearth::model::jinja {

class Cursor {
 public:
  explicit Cursor(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
    INVARIANT(!tokens_.empty() && tokens_.back().kind == TokenKind::kEnd,
              "the last token is the end of the source");
  }

  const Token& current() const { return tokens_[at_]; }
  // The token after the current one.
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  Token take() {
    Token token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    INVARIANT(at_ < tokens_.size(), "the cursor stays within the tokens");
    return token;
  }
  bool at_name(std::string_view name) const { return at(TokenKind::kName, name); }
  bool at_operator(std::string_view text) const { return at(TokenKind::kOperator, text); }
  // If the current token is this one: moves past it and returns true.
  bool skip_name(std::string_view name) { return skip(TokenKind::kName, name); }
  bool skip_operator(std::string_view text) { return skip(TokenKind::kOperator, text); }
  Status expect_operator(std::string_view text) {
    if (skip_operator(text)) return ok_status();
    return fail(current().line,
                "expected '" + std::string(text) + "', found " + describe_current());
  }
  Result<std::string> expect_name(std::string_view what) {
    if (current().kind == TokenKind::kName) return take().text;
    return fail(current().line,
                "expected the name of a " + std::string(what) + ", found " + describe_current());
  }

  // kInvalidInput; kUnsupported for constructs of Jinja outside of the subset.
  static Error fail(std::uint32_t line, const std::string& what) {
    return Error::invalid("chat template line ", line, ": ", what);
  }
  static Error unsupported(std::uint32_t line, const std::string& what) {
    return {ErrorCode::kUnsupported, fail(line, what + " is not supported").message};
  }
  std::string describe_current() const {
    switch (current().kind) {
      case TokenKind::kVariableEnd: return "'}}'";
      case TokenKind::kBlockEnd: return "'%}'";
      case TokenKind::kEnd: return "the end of the template";
      case TokenKind::kString: return "a string";
      default: return "'" + current().text + "'";
    }
  }

 private:
  bool at(TokenKind kind, std::string_view text) const {
    return current().kind == kind && current().text == text;
  }
  bool skip(TokenKind kind, std::string_view text) {
    if (!at(kind, text)) return false;
    ++at_;
    INVARIANT(at_ < tokens_.size(), "the end of the source stands behind every other token");
    return true;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace hearth::model::jinja
