#include "model/jinja/expressions.h"

#include <charconv>

#include "base/limits.h"
#include "model/jinja/builtins.h"

namespace hearth::model::jinja {
namespace {

constexpr Spelling kComparisonSigns[] = {
    {"==", Operator::kEqual},     {"!=", Operator::kNotEqual}, {"<", Operator::kLess},
    {"<=", Operator::kLessEqual}, {">", Operator::kGreater},   {">=", Operator::kGreaterEqual}};
constexpr Spelling kSumSigns[] = {{"+", Operator::kAdd}, {"-", Operator::kSubtract}};
constexpr Spelling kProductSigns[] = {{"*", Operator::kMultiply},
                                      {"/", Operator::kDivide},
                                      {"//", Operator::kFloorDivide},
                                      {"%", Operator::kModulo}};
constexpr Spelling kPowerSigns[] = {{"**", Operator::kPower}};

}  // namespace

std::string_view operator_name(Operator op) {
  constexpr std::string_view kNames[] = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kNames[static_cast<std::size_t>(op)];
}

ExprPtr ExpressionParser::make(ExprKind kind, std::uint32_t line) {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

ExprPtr ExpressionParser::unsupported(std::uint32_t line, std::string what) {
  ExprPtr node = make(ExprKind::kUnsupported, line);
  node->name = std::move(what);
  return node;
}

Result<ExprPtr> ExpressionParser::finish(ExprPtr node) {
  INVARIANT(node != nullptr && node->height == 1, "a node is finished once");
  for (const ExprPtr& arg : node->args) {
    if (arg != nullptr) node->height = std::max(node->height, arg->height + 1);
  }
  for (const auto& [name, arg] : node->named) {
    node->height = std::max(node->height, arg->height + 1);
  }
  if (node->height > limits::kTemplateDepth) {
    return Cursor::fail(node->line, "an expression is nested deeper than the limit of " +
                                        std::to_string(limits::kTemplateDepth));
  }
  return node;
}

Status ExpressionParser::enter(std::uint32_t line) {
  if (++depth_ <= limits::kTemplateDepth) return ok_status();
  return in_.fail(line, "an expression is nested deeper than the limit of " +
                            std::to_string(limits::kTemplateDepth));
}

Result<ExprPtr> ExpressionParser::tuple(bool with_conditional, std::string_view end,
                                        bool in_parentheses) {
  ExprPtr node = make(ExprKind::kTuple, in_.current().line);
  bool comma = false;
  while (true) {
    const TokenKind kind = in_.current().kind;
    if (kind == TokenKind::kVariableEnd || kind == TokenKind::kBlockEnd || in_.at_operator(")") ||
        (!end.empty() && in_.at_name(end))) {
      break;
    }
    TRY(ExprPtr item, expression(with_conditional));
    node->args.push_back(std::move(item));
    if (!in_.skip_operator(",")) break;
    comma = true;
  }
  if (!comma && !node->args.empty()) return std::move(node->args[0]);
  if (!comma && !in_parentheses) {
    return in_.fail(node->line, "expected an expression, found " + in_.describe_current());
  }
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::expression(bool with_conditional) {
  TRY_VOID(enter(in_.current().line));
  auto result = with_conditional ? conditional_expression() : disjunction();
  leave();
  return result;
}

Result<ExprPtr> ExpressionParser::conditional_expression() {
  TRY(ExprPtr value, disjunction());
  while (in_.at_name("if")) {
    ExprPtr node = make(ExprKind::kConditional, in_.take().line);
    TRY(ExprPtr condition, disjunction());
    node->args.push_back(std::move(value));
    node->args.push_back(std::move(condition));
    node->args.push_back(nullptr);
    if (in_.skip_name("else")) {
      TRY(node->args[2], expression());
    }
    TRY(value, finish(std::move(node)));
  }
  return value;
}

Result<ExprPtr> ExpressionParser::joined(Rule next, ExprKind kind, std::string_view word) {
  TRY(ExprPtr first, (this->*next)());
  const auto follows = [&] { return in_.at_name(word) || in_.at_operator(word); };
  if (!follows()) return first;
  ExprPtr node = make(kind, in_.current().line);
  node->args.push_back(std::move(first));
  while (follows()) {
    in_.take();
    TRY(ExprPtr operand, (this->*next)());
    node->args.push_back(std::move(operand));
  }
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::computed(Rule next, ExprKind kind,
                                           std::span<const Spelling> signs) {
  ExprPtr node = make(kind, in_.current().line);
  do {
    TRY(ExprPtr operand, (this->*next)());
    node->args.push_back(std::move(operand));
  } while (take_sign(*node, signs));
  if (node->ops.empty()) return std::move(node->args[0]);
  return finish(std::move(node));
}

// If one of these operators follows: moves past it and returns true. Comparisons also have 'in' and
// 'not in'.
bool ExpressionParser::take_sign(Expr& node, std::span<const Spelling> signs) {
  if (node.kind == ExprKind::kCompare) {
    const bool negated =
        in_.at_name("not") && in_.next().kind == TokenKind::kName && in_.next().text == "in";
    if (negated) in_.take();
    if (in_.skip_name("in")) {
      node.ops.push_back(negated ? Operator::kNotIn : Operator::kIn);
      return true;
    }
  }
  for (const Spelling& sign : signs) {
    if (!in_.skip_operator(sign.text)) continue;
    node.ops.push_back(sign.op);
    return true;
  }
  return false;
}

Result<ExprPtr> ExpressionParser::disjunction() {
  return joined(&ExpressionParser::conjunction, ExprKind::kOr, "or");
}

Result<ExprPtr> ExpressionParser::conjunction() {
  return joined(&ExpressionParser::negation, ExprKind::kAnd, "and");
}

Result<ExprPtr> ExpressionParser::negation() {
  if (!in_.at_name("not")) return comparison();
  ExprPtr node = make(ExprKind::kNot, in_.take().line);
  TRY_VOID(enter(node->line));
  TRY(ExprPtr operand, negation());
  leave();
  node->args.push_back(std::move(operand));
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::comparison() {
  return computed(&ExpressionParser::sum, ExprKind::kCompare, kComparisonSigns);
}

Result<ExprPtr> ExpressionParser::sum() {
  return computed(&ExpressionParser::concatenation, ExprKind::kArithmetic, kSumSigns);
}

Result<ExprPtr> ExpressionParser::concatenation() {
  return joined(&ExpressionParser::product, ExprKind::kConcat, "~");
}

Result<ExprPtr> ExpressionParser::product() {
  return computed(&ExpressionParser::power, ExprKind::kArithmetic, kProductSigns);
}

Result<ExprPtr> ExpressionParser::power() {
  return computed(&ExpressionParser::operand, ExprKind::kArithmetic, kPowerSigns);
}

Result<ExprPtr> ExpressionParser::unary(bool with_filter) {
  ExprPtr node;
  if (in_.at_operator("-") || in_.at_operator("+")) {
    const Token sign = in_.take();
    node = make(sign.text == "-" ? ExprKind::kNegate : ExprKind::kPlus, sign.line);
    TRY_VOID(enter(sign.line));
    TRY(ExprPtr operand, unary(false));
    leave();
    node->args.push_back(std::move(operand));
    TRY(node, finish(std::move(node)));
  } else {
    TRY(node, primary());
  }
  TRY(node, postfix(std::move(node)));
  if (with_filter) return filter_or_test(std::move(node));
  return node;
}

Result<ExprPtr> ExpressionParser::primary() {
  const std::uint32_t line = in_.current().line;
  switch (in_.current().kind) {
    case TokenKind::kName: return name_expression(in_.take());
    case TokenKind::kString: return string_expression(in_.take());
    case TokenKind::kInteger:
    case TokenKind::kFloat: return number_expression(in_.take());
    default: break;
  }
  if (in_.skip_operator("(")) {
    TRY_VOID(enter(line));
    TRY(ExprPtr inner, tuple(true, "", true));
    leave();
    TRY_VOID(in_.expect_operator(")"));
    return inner;
  }
  if (in_.skip_operator("[")) return list(line);
  if (in_.skip_operator("{")) return dict(line);
  return in_.fail(line, "expected an expression, found " + in_.describe_current());
}

Result<ExprPtr> ExpressionParser::name_expression(const Token& token) {
  ExprPtr node = make(ExprKind::kConstant, token.line);
  const std::string& name = token.text;
  if (name == "true" || name == "True") {
    node->constant = true;
  } else if (name == "false" || name == "False") {
    node->constant = false;
  } else if (name == "none" || name == "None") {
    node->constant = None{};
  } else {
    node->kind = name == "loop" ? ExprKind::kLoop : ExprKind::kName;
    if (node->kind == ExprKind::kLoop) {
      if (in_.skip_operator(".")) {
        TRY(node->name, in_.expect_name("loop attribute"));
      }
      return node;
    }
    node->name = name;
    node->symbol = symbols_.of(name);
  }
  return node;
}

Result<ExprPtr> ExpressionParser::string_expression(const Token& token) {
  auto text = std::make_shared<Text>();
  text->bytes = token.text;
  while (in_.current().kind == TokenKind::kString) text->bytes += in_.take().text;
  ExprPtr node = make(ExprKind::kConstant, token.line);
  node->constant = TextPtr(std::move(text));
  return node;
}

Result<ExprPtr> ExpressionParser::number_expression(const Token& token) {
  ExprPtr node = make(ExprKind::kConstant, token.line);
  const char* end = token.text.data() + token.text.size();
  std::from_chars_result read{};
  if (token.kind == TokenKind::kInteger) {
    std::int64_t whole = 0;
    read = std::from_chars(token.text.data(), end, whole);
    node->constant = whole;
  } else {
    double real = 0;
    read = std::from_chars(token.text.data(), end, real);
    node->constant = real;
  }
  if (read.ec != std::errc() || read.ptr != end) {
    return in_.fail(token.line, "number '" + token.text + "' does not fit 64 bits");
  }
  return node;
}

Result<ExprPtr> ExpressionParser::list(std::uint32_t line) {
  ExprPtr node = make(ExprKind::kList, line);
  while (!in_.at_operator("]")) {
    TRY(ExprPtr item, expression());
    node->args.push_back(std::move(item));
    if (!in_.skip_operator(",")) break;
  }
  TRY_VOID(in_.expect_operator("]"));
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::dict(std::uint32_t line) {
  ExprPtr node = make(ExprKind::kDict, line);
  while (!in_.at_operator("}")) {
    TRY(ExprPtr key, expression());
    TRY_VOID(in_.expect_operator(":"));
    TRY(ExprPtr value, expression());
    node->args.push_back(std::move(key));
    node->args.push_back(std::move(value));
    if (!in_.skip_operator(",")) break;
  }
  TRY_VOID(in_.expect_operator("}"));
  return finish(std::move(node));
}

}  // namespace hearth::model::jinja
