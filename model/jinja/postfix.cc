// Expressions after a primary: attributes, subscripts, calls, filters and tests.
#include "model/jinja/expressions.h"

namespace hearth::model::jinja {

Result<ExprPtr> ExpressionParser::postfix(ExprPtr node) {
  while (true) {
    if (in_.at_operator(".")) {
      TRY(node, attribute(std::move(node)));
    } else if (in_.at_operator("[")) {
      TRY(node, subscript(std::move(node)));
    } else if (in_.at_operator("(")) {
      TRY(node, call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExprPtr> ExpressionParser::filter_or_test(ExprPtr node) {
  while (true) {
    if (in_.skip_operator("|")) {
      TRY(node, one_filter(std::move(node)));
    } else if (in_.at_name("is")) {
      TRY(node, test(std::move(node)));
    } else if (in_.at_operator("(")) {
      TRY(node, call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExprPtr> ExpressionParser::attribute(ExprPtr object) {
  const std::uint32_t line = in_.take().line;
  ExprPtr node = make(ExprKind::kAttribute, line);
  node->args.push_back(std::move(object));
  if (in_.current().kind == TokenKind::kInteger) {
    node->kind = ExprKind::kSubscript;
    TRY(ExprPtr index, number_expression(in_.take()));
    node->args.push_back(std::move(index));
  } else {
    TRY(node->name, in_.expect_name("attribute"));
  }
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::subscript(ExprPtr object) {
  ExprPtr node = make(ExprKind::kSubscript, in_.take().line);
  node->args.push_back(std::move(object));
  node->args.push_back(nullptr);
  if (!in_.at_operator(":")) {
    TRY(node->args[1], expression());
  }
  if (in_.at_operator(":")) {
    node->kind = ExprKind::kSlice;
    for (int part = 2; part < 4; ++part) {
      node->args.push_back(nullptr);
      if (!in_.skip_operator(":") || in_.at_operator(":") || in_.at_operator("]")) continue;
      TRY(node->args.back(), expression());
    }
  }
  while (in_.skip_operator(",")) {
    node->kind = ExprKind::kUnsupported;
    node->name = "a subscript of several parts";
    TRY(ExprPtr part, expression());
    node->args.push_back(std::move(part));
  }
  TRY_VOID(in_.expect_operator("]"));
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::call(ExprPtr callee) {
  ExprPtr node = make(ExprKind::kCall, in_.current().line);
  node->args.push_back(std::move(callee));
  TRY_VOID(arguments(*node));
  return finish(std::move(node));
}

Status ExpressionParser::arguments(Expr& node) {
  TRY_VOID(in_.expect_operator("("));
  while (!in_.at_operator(")")) {
    const bool unpacked = in_.skip_operator("*") || in_.skip_operator("**");
    if (unpacked) {
      node.kind = ExprKind::kUnsupported;
      node.name = "an argument list unpacked with '*'";
    }
    const bool named = in_.current().kind == TokenKind::kName &&
                       in_.next().kind == TokenKind::kOperator && in_.next().text == "=";
    if (named) {
      std::string name = in_.take().text;
      in_.take();
      TRY(ExprPtr value, expression());
      node.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!node.named.empty() && !unpacked) {
        return in_.fail(node.line, "an argument without a name follows one with a name");
      }
      TRY(ExprPtr value, expression());
      node.args.push_back(std::move(value));
    }
    if (!in_.skip_operator(",")) break;
  }
  return in_.expect_operator(")");
}

Result<std::string> ExpressionParser::dotted_name(std::string_view what) {
  TRY(std::string name, in_.expect_name(what));
  while (in_.skip_operator(".")) {
    TRY(const std::string part, in_.expect_name(what));
    name += "." + part;
  }
  return name;
}

Result<ExprPtr> ExpressionParser::one_filter(ExprPtr input) {
  ExprPtr node = make(ExprKind::kFilter, in_.current().line);
  TRY(node->name, dotted_name("filter"));
  node->args.push_back(std::move(input));
  if (in_.at_operator("(")) TRY_VOID(arguments(*node));
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::filters(ExprPtr input) {
  while (in_.skip_operator("|")) {
    TRY(input, one_filter(std::move(input)));
  }
  return input;
}

Result<ExprPtr> ExpressionParser::first_filter() {
  TRY(ExprPtr first, one_filter(nullptr));
  return filters(std::move(first));
}

Result<ExprPtr> ExpressionParser::test(ExprPtr input) {
  ExprPtr node = make(ExprKind::kTest, in_.take().line);
  const bool negated = in_.skip_name("not");
  TRY(node->name, dotted_name("test"));
  node->args.push_back(std::move(input));
  const TokenKind kind = in_.current().kind;
  const bool value = kind == TokenKind::kString || kind == TokenKind::kInteger ||
                     kind == TokenKind::kFloat || in_.at_operator("[") || in_.at_operator("{") ||
                     (kind == TokenKind::kName && !in_.at_name("else") && !in_.at_name("or") &&
                      !in_.at_name("and"));
  if (in_.at_operator("(")) {
    TRY_VOID(arguments(*node));
  } else if (value) {
    if (in_.at_name("is")) return in_.fail(node->line, "tests cannot be chained with 'is'");
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
