// ExpressionParser: the expressions of a template, from the shared cursor to nodes. It bounds how
// deep they nest, since the parser and the interpreter recurse as deep. Errors name the line.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/result.h"
#include "model/jinja/ast.h"
#include "model/jinja/cursor.h"
#include "model/jinja/symbol_table.h"

namespace hearth::model::jinja {

struct Spelling {
  std::string_view text;
  Operator op;
};

class ExpressionParser {
 public:
  // `in` and `symbols` outlive the parser; the statement parser moves the cursor between two calls.
  ExpressionParser(Cursor& in, SymbolTable& symbols) : in_(in), symbols_(symbols) {}

  // An expression, or several with commas as a tuple; stops at the name `end` if one is given.
  Result<ExprPtr> tuple(bool with_conditional, std::string_view end, bool in_parentheses = false);
  Result<ExprPtr> expression(bool with_conditional = true);
  // `| name(...) | name ...` applied to `input`, which may be null.
  Result<ExprPtr> filters(ExprPtr input);
  // The filters of a filter block: `name(...) | name ...`, the innermost without an input.
  Result<ExprPtr> first_filter();
  // A node for a construct of Jinja outside of the subset. Only a rendering that reaches it fails,
  // not the parser, because most renderings of a template may never reach it.
  static ExprPtr unsupported(std::uint32_t line, std::string what);

 private:
  using Rule = Result<ExprPtr> (ExpressionParser::*)();

  // Reads operands with `next` and the operators between them into one flat node, so that a long
  // chain stays one level deep. One function is for an operator that is a word, the other for
  // several signs.
  Result<ExprPtr> joined(Rule next, ExprKind kind, std::string_view word);
  Result<ExprPtr> computed(Rule next, ExprKind kind, std::span<const Spelling> signs);
  bool take_sign(Expr& node, std::span<const Spelling> signs);
  Result<ExprPtr> conditional_expression();
  Result<ExprPtr> disjunction();
  Result<ExprPtr> conjunction();
  Result<ExprPtr> negation();
  Result<ExprPtr> comparison();
  Result<ExprPtr> sum();
  Result<ExprPtr> concatenation();
  Result<ExprPtr> product();
  Result<ExprPtr> power();
  Result<ExprPtr> operand() { return unary(true); }
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

  static ExprPtr make(ExprKind kind, std::uint32_t line);
  static Result<ExprPtr> finish(ExprPtr node);  // sets and checks the height
  Status enter(std::uint32_t line);             // one level of nesting; leave() ends it
  void leave() {
    INVARIANT(depth_ > 0, "every level that was entered is left once");
    --depth_;
  }

  Cursor& in_;
  SymbolTable& symbols_;
  std::uint32_t depth_ = 0;
};

}  // namespace hearth::model::jinja
