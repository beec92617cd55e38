// Expressions after a primary: attributes, subscripts, calls, filters and tests.
#include "model/jinja/builtins.h"
#include "model/jinja/expressions.h"

namespace hearth::model::jinja {

Result<ExprPtr> ExpressionParser::postfix(ExprPtr node) {
  while (true) {
    if (at_operator(".")) {
      TRY(node, attribute(std::move(node)));
    } else if (at_operator("[")) {
      TRY(node, subscript(std::move(node)));
    } else if (at_operator("(")) {
      TRY(node, call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExprPtr> ExpressionParser::filter_or_test(ExprPtr node) {
  while (true) {
    if (skip_operator("|")) {
      TRY(node, one_filter(std::move(node)));
    } else if (at_name("is")) {
      TRY(node, test(std::move(node)));
    } else if (at_operator("(")) {
      TRY(node, call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExprPtr> ExpressionParser::attribute(ExprPtr object) {
  const std::uint32_t line = take().line;
  ExprPtr node = make(ExprKind::kAttribute, line);
  node->args.push_back(std::move(object));
  if (current().kind == TokenKind::kInteger) {
    node->kind = ExprKind::kSubscript;
    TRY(ExprPtr index, number_expression(take()));
    node->args.push_back(std::move(index));
  } else {
    TRY(node->name, expect_name("attribute"));
  }
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::subscript(ExprPtr object) {
  ExprPtr node = make(ExprKind::kSubscript, take().line);
  node->args.push_back(std::move(object));
  node->args.push_back(nullptr);
  if (!at_operator(":")) {
    TRY(node->args[1], expression());
  }
  if (at_operator(":")) {
    node->kind = ExprKind::kSlice;
    for (int part = 2; part < 4; ++part) {
      node->args.push_back(nullptr);
      if (!skip_operator(":") || at_operator(":") || at_operator("]")) continue;
      TRY(node->args.back(), expression());
    }
  }
  if (at_operator(",")) return unsupported(node->line, "a subscript of several parts");
  TRY_VOID(expect_operator("]"));
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::call(ExprPtr callee) {
  ExprPtr node = make(ExprKind::kCall, current().line);
  node->args.push_back(std::move(callee));
  TRY_VOID(arguments(*node));
  return finish(std::move(node));
}

Status ExpressionParser::arguments(Expr& node) {
  TRY_VOID(expect_operator("("));
  while (!at_operator(")")) {
    if (at_operator("*") || at_operator("**")) {
      return unsupported(node.line, "an argument list unpacked with '" + current().text + "'");
    }
    const bool named = current().kind == TokenKind::kName && look().kind == TokenKind::kOperator &&
                       look().text == "=";
    if (named) {
      std::string name = take().text;
      take();
      TRY(ExprPtr value, expression());
      node.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!node.named.empty()) {
        return fail(node.line, "an argument without a name follows one with a name");
      }
      TRY(ExprPtr value, expression());
      node.args.push_back(std::move(value));
    }
    if (!skip_operator(",")) break;
  }
  return expect_operator(")");
}

Result<std::string> ExpressionParser::dotted_name(std::string_view what) {
  TRY(std::string name, expect_name(what));
  while (skip_operator(".")) {
    TRY(const std::string part, expect_name(what));
    name += "." + part;
  }
  return name;
}

Result<ExprPtr> ExpressionParser::one_filter(ExprPtr input) {
  ExprPtr node = make(ExprKind::kFilter, current().line);
  TRY(node->name, dotted_name("filter"));
  node->args.push_back(std::move(input));
  if (conditional == 0 && !filter_exists(node->name)) {
    return unsupported(node->line, "filter '" + node->name + "'");
  }
  if (at_operator("(")) TRY_VOID(arguments(*node));
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::filters(ExprPtr input) {
  while (skip_operator("|")) {
    TRY(input, one_filter(std::move(input)));
  }
  return input;
}

Result<ExprPtr> ExpressionParser::first_filter() {
  TRY(ExprPtr first, one_filter(nullptr));
  return filters(std::move(first));
}

Result<ExprPtr> ExpressionParser::test(ExprPtr input) {
  ExprPtr node = make(ExprKind::kTest, take().line);
  const bool negated = skip_name("not");
  TRY(node->name, dotted_name("test"));
  node->args.push_back(std::move(input));
  if (conditional == 0 && !test_exists(node->name)) {
    return unsupported(node->line, "test '" + node->name + "'");
  }
  const TokenKind kind = current().kind;
  const bool value =
      kind == TokenKind::kString || kind == TokenKind::kInteger || kind == TokenKind::kFloat ||
      at_operator("[") || at_operator("{") ||
      (kind == TokenKind::kName && !at_name("else") && !at_name("or") && !at_name("and"));
  if (at_operator("(")) {
    TRY_VOID(arguments(*node));
  } else if (value) {
    if (at_name("is")) return fail(node->line, "tests cannot be chained with 'is'");
    TRY(ExprPtr argument, primary());
    TRY(argument, postfix(std::move(argument)));
    node->args.push_back(std::move(argument));
  }
  TRY(node, finish(std::move(node)));
  if (!negated) return node;
  ExprPtr inverse = make(ExprKind::kNot, node->line);
  inverse->args.push_back(std::move(node));
  return finish(std::move(inverse));
}

}  // namespace hearth::model::jinja
