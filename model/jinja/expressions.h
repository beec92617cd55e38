// The expression half of the parser, and the cursor over the tokens that both halves share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "model/jinja/ast.h"
#include "model/jinja/lexer.h"

namespace hearth::model::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  Token take();
  bool at_name(std::string_view name) const;
  bool at_operator(std::string_view text) const;
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view text);
  Status expect_operator(std::string_view text);
  Result<std::string> expect_name(std::string_view what);
  std::uint32_t symbol(const std::string& name);
  std::vector<std::string> take_symbols() { return std::move(symbols_); }

  Error fail(std::uint32_t line, const std::string& what) const;
  Error unsupported(std::uint32_t line, const std::string& what) const;
  std::string describe_current() const;

  // An expression, or several with commas as a tuple; stops at the name `end` if one is given.
  Result<ExprPtr> tuple(bool with_conditional, std::string_view end, bool in_parentheses = false);
  Result<ExprPtr> expression(bool with_conditional = true);
  // `| name(...) | name ...` applied to `input`, which may be null.
  Result<ExprPtr> filters(ExprPtr input);
  // The filters of a filter block: `name(...) | name ...`, the innermost without an input.
  Result<ExprPtr> first_filter();

  // Above zero: what is parsed may never be reached (an if around it).
  int conditional = 0;

 private:
  Result<ExprPtr> conditional_expression();
  Result<ExprPtr> disjunction();
  Result<ExprPtr> conjunction();
  Result<ExprPtr> negation();
  Result<ExprPtr> comparison();
  Result<ExprPtr> sum();
  Result<ExprPtr> concatenation();
  Result<ExprPtr> product();
  Result<ExprPtr> power();
  Result<ExprPtr> unary(bool with_filter);
  Result<ExprPtr> primary();
  Result<ExprPtr> name_expression(const Token& token);
  Result<ExprPtr> string_expression(const Token& token);
  Result<ExprPtr> number_expression(const Token& token);
  Result<ExprPtr> list(std::uint32_t line);
  Result<ExprPtr> dict(std::uint32_t line);
  Result<ExprPtr> postfix(ExprPtr node);
  Result<ExprPtr> filter_or_test(ExprPtr node);
  Result<ExprPtr> attribute(ExprPtr node);
  Result<ExprPtr> subscript(ExprPtr node);
  Result<ExprPtr> call(ExprPtr node);
  Status arguments(Expr& node);
  Result<ExprPtr> one_filter(ExprPtr input);  // after the '|'
  Result<ExprPtr> test(ExprPtr input);
  Result<std::string> dotted_name(std::string_view what);

  ExprPtr make(ExprKind kind, std::uint32_t line) const;
  Result<ExprPtr> finish(ExprPtr node) const;  // sets and checks the height
  Status enter(std::uint32_t line);            // one level of nesting; leave() ends it
  void leave() { --depth_; }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::uint32_t depth_ = 0;
  std::vector<std::string> symbols_;
  std::unordered_map<std::string, std::uint32_t> symbol_ids_;
};

}  // namespace hearth::model::jinja
