// Cursor: the place in a template's tokens where parsing has come to, and the errors that name its
// line. The statement parser and the expression parser share one. It never moves past the last
// token, the end of the source.
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
  Token take();
  bool at_name(std::string_view name) const;
  bool at_operator(std::string_view text) const;
  // True, and past the token, if the current token is this one.
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view text);
  Status expect_operator(std::string_view text);
  Result<std::string> expect_name(std::string_view what);

  // kInvalidInput, and kUnsupported for what Jinja has and the subset does not.
  static Error fail(std::uint32_t line, const std::string& what);
  static Error unsupported(std::uint32_t line, const std::string& what);
  std::string describe_current() const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace hearth::model::jinja
