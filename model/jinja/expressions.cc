#include "model/jinja/expressions.h"

#include <charconv>
#include <cmath>

#include "base/limits.h"
#include "model/jinja/builtins.h"

namespace hearth::model::jinja {
namespace {

// Parses operands by `next` and joins those that follow an operator into one flat node, so that a
// long chain stays one level deep.
template <typename Next, typename Match>
Result<ExprPtr> chain(ExprPtr first, Next next, Match match, ExprPtr node) {
  node->args.push_back(std::move(first));
  while (match(*node)) {
    TRY(ExprPtr operand, next());
    node->args.push_back(std::move(operand));
  }
  return node;
}

struct Spelling {
  std::string_view text;
  Operator op;
};

}  // namespace

std::string_view operator_name(Operator op) {
  constexpr std::string_view kNames[] = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kNames[static_cast<std::size_t>(op)];
}

Token ExpressionParser::take() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool ExpressionParser::at_name(std::string_view name) const {
  return current().kind == TokenKind::kName && current().text == name;
}
bool ExpressionParser::at_operator(std::string_view text) const {
  return current().kind == TokenKind::kOperator && current().text == text;
}
bool ExpressionParser::skip_name(std::string_view name) {
  if (!at_name(name)) return false;
  ++at_;
  return true;
}
bool ExpressionParser::skip_operator(std::string_view text) {
  if (!at_operator(text)) return false;
  ++at_;
  return true;
}

Status ExpressionParser::expect_operator(std::string_view text) {
  if (skip_operator(text)) return ok_status();
  return fail(current().line, "expected '" + std::string(text) + "', found " + describe_current());
}

Result<std::string> ExpressionParser::expect_name(std::string_view what) {
  if (current().kind == TokenKind::kName) return take().text;
  return fail(current().line,
              "expected the name of a " + std::string(what) + ", found " + describe_current());
}

std::uint32_t ExpressionParser::symbol(const std::string& name) {
  const auto [found, added] =
      symbol_ids_.try_emplace(name, static_cast<std::uint32_t>(symbols_.size()));
  if (added) symbols_.push_back(name);
  return found->second;
}

Error ExpressionParser::fail(std::uint32_t line, const std::string& what) const {
  return Error::invalid("chat template line " + std::to_string(line) + ": " + what);
}

Error ExpressionParser::unsupported(std::uint32_t line, const std::string& what) const {
  return {ErrorCode::kUnsupported,
          "chat template line " + std::to_string(line) + ": " + what + " is not supported"};
}

std::string ExpressionParser::describe_current() const {
  switch (current().kind) {
    case TokenKind::kVariableEnd: return "'}}'";
    case TokenKind::kBlockEnd: return "'%}'";
    case TokenKind::kEnd: return "the end of the template";
    case TokenKind::kString: return "a string";
    default: return "'" + current().text + "'";
  }
}

ExprPtr ExpressionParser::make(ExprKind kind, std::uint32_t line) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

Result<ExprPtr> ExpressionParser::finish(ExprPtr node) const {
  for (const ExprPtr& arg : node->args) {
    if (arg != nullptr) node->height = std::max(node->height, arg->height + 1);
  }
  for (const auto& [name, arg] : node->named) {
    node->height = std::max(node->height, arg->height + 1);
  }
  if (node->height > limits::kTemplateDepth) {
    return fail(node->line, "an expression is nested deeper than the limit of " +
                                std::to_string(limits::kTemplateDepth));
  }
  return node;
}

Status ExpressionParser::enter(std::uint32_t line) {
  if (++depth_ <= limits::kTemplateDepth) return ok_status();
  return fail(line, "an expression is nested deeper than the limit of " +
                        std::to_string(limits::kTemplateDepth));
}

Result<ExprPtr> ExpressionParser::tuple(bool with_conditional, std::string_view end,
                                        bool in_parentheses) {
  ExprPtr node = make(ExprKind::kTuple, current().line);
  bool comma = false;
  while (true) {
    const TokenKind kind = current().kind;
    if (kind == TokenKind::kVariableEnd || kind == TokenKind::kBlockEnd || at_operator(")") ||
        (!end.empty() && at_name(end))) {
      break;
    }
    TRY(ExprPtr item, expression(with_conditional));
    node->args.push_back(std::move(item));
    if (!skip_operator(",")) break;
    comma = true;
  }
  if (!comma && !node->args.empty()) return std::move(node->args[0]);
  if (!comma && !in_parentheses) {
    return fail(node->line, "expected an expression, found " + describe_current());
  }
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::expression(bool with_conditional) {
  TRY_VOID(enter(current().line));
  auto result = with_conditional ? conditional_expression() : disjunction();
  leave();
  return result;
}

Result<ExprPtr> ExpressionParser::conditional_expression() {
  TRY(ExprPtr value, disjunction());
  while (at_name("if")) {
    ExprPtr node = make(ExprKind::kConditional, take().line);
    ++conditional;
    TRY(ExprPtr condition, disjunction());
    node->args.push_back(std::move(value));
    node->args.push_back(std::move(condition));
    node->args.push_back(nullptr);
    if (skip_name("else")) {
      TRY(node->args[2], expression());
    }
    --conditional;
    TRY(value, finish(std::move(node)));
  }
  return value;
}

Result<ExprPtr> ExpressionParser::disjunction() {
  TRY(ExprPtr first, conjunction());
  if (!at_name("or")) return first;
  TRY(ExprPtr node,
      chain(
          std::move(first), [this] { return conjunction(); },
          [this](Expr&) { return skip_name("or"); }, make(ExprKind::kOr, current().line)));
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::conjunction() {
  TRY(ExprPtr first, negation());
  if (!at_name("and")) return first;
  TRY(ExprPtr node,
      chain(
          std::move(first), [this] { return negation(); },
          [this](Expr&) { return skip_name("and"); }, make(ExprKind::kAnd, current().line)));
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::negation() {
  if (!at_name("not")) return comparison();
  ExprPtr node = make(ExprKind::kNot, take().line);
  TRY_VOID(enter(node->line));
  TRY(ExprPtr operand, negation());
  leave();
  node->args.push_back(std::move(operand));
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::comparison() {
  constexpr Spelling kSpellings[] = {{"==", Operator::kEqual},  {"!=", Operator::kNotEqual},
                                     {"<", Operator::kLess},    {"<=", Operator::kLessEqual},
                                     {">", Operator::kGreater}, {">=", Operator::kGreaterEqual}};
  const std::uint32_t line = current().line;
  TRY(ExprPtr first, sum());
  const auto match = [&](Expr& node) {
    if (skip_name("in")) {
      node.ops.push_back(Operator::kIn);
      return true;
    }
    if (at_name("not") && look().kind == TokenKind::kName && look().text == "in") {
      at_ += 2;
      node.ops.push_back(Operator::kNotIn);
      return true;
    }
    for (const Spelling& spelling : kSpellings) {
      if (!skip_operator(spelling.text)) continue;
      node.ops.push_back(spelling.op);
      return true;
    }
    return false;
  };
  TRY(ExprPtr node,
      chain(
          std::move(first), [this] { return sum(); }, match, make(ExprKind::kCompare, line)));
  if (node->ops.empty()) return std::move(node->args[0]);
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::sum() {
  const std::uint32_t line = current().line;
  TRY(ExprPtr first, concatenation());
  const auto match = [this](Expr& node) {
    const bool add = at_operator("+");
    if (!add && !at_operator("-")) return false;
    ++at_;
    node.ops.push_back(add ? Operator::kAdd : Operator::kSubtract);
    return true;
  };
  TRY(ExprPtr node, chain(
                        std::move(first), [this] { return concatenation(); }, match,
                        make(ExprKind::kArithmetic, line)));
  if (node->ops.empty()) return std::move(node->args[0]);
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::concatenation() {
  TRY(ExprPtr first, product());
  if (!at_operator("~")) return first;
  TRY(ExprPtr node,
      chain(
          std::move(first), [this] { return product(); },
          [this](Expr&) { return skip_operator("~"); }, make(ExprKind::kConcat, current().line)));
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::product() {
  constexpr Spelling kSpellings[] = {{"*", Operator::kMultiply},
                                     {"/", Operator::kDivide},
                                     {"//", Operator::kFloorDivide},
                                     {"%", Operator::kModulo}};
  const std::uint32_t line = current().line;
  TRY(ExprPtr first, power());
  const auto match = [&](Expr& node) {
    for (const Spelling& spelling : kSpellings) {
      if (!skip_operator(spelling.text)) continue;
      node.ops.push_back(spelling.op);
      return true;
    }
    return false;
  };
  TRY(ExprPtr node,
      chain(
          std::move(first), [this] { return power(); }, match, make(ExprKind::kArithmetic, line)));
  if (node->ops.empty()) return std::move(node->args[0]);
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::power() {
  const std::uint32_t line = current().line;
  TRY(ExprPtr first, unary(true));
  const auto match = [this](Expr& node) {
    if (!skip_operator("**")) return false;
    node.ops.push_back(Operator::kPower);
    return true;
  };
  TRY(ExprPtr node, chain(
                        std::move(first), [this] { return unary(true); }, match,
                        make(ExprKind::kArithmetic, line)));
  if (node->ops.empty()) return std::move(node->args[0]);
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::unary(bool with_filter) {
  ExprPtr node;
  if (at_operator("-") || at_operator("+")) {
    const Token sign = take();
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
  const std::uint32_t line = current().line;
  switch (current().kind) {
    case TokenKind::kName: return name_expression(take());
    case TokenKind::kString: return string_expression(take());
    case TokenKind::kInteger:
    case TokenKind::kFloat: return number_expression(take());
    default: break;
  }
  if (skip_operator("(")) {
    TRY_VOID(enter(line));
    TRY(ExprPtr inner, tuple(true, "", true));
    leave();
    TRY_VOID(expect_operator(")"));
    return inner;
  }
  if (skip_operator("[")) return list(line);
  if (skip_operator("{")) return dict(line);
  return fail(line, "expected an expression, found " + describe_current());
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
      if (!skip_operator(".")) {
        return unsupported(token.line, "'loop' other than by its attributes");
      }
      TRY(node->name, expect_name("loop attribute"));
      return node;
    }
    node->name = name;
    node->symbol = symbol(name);
  }
  return node;
}

Result<ExprPtr> ExpressionParser::string_expression(const Token& token) {
  auto text = std::make_shared<Text>();
  text->bytes = token.text;
  while (current().kind == TokenKind::kString) text->bytes += take().text;
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
    return fail(token.line, "number '" + token.text + "' does not fit 64 bits");
  }
  return node;
}

Result<ExprPtr> ExpressionParser::list(std::uint32_t line) {
  ExprPtr node = make(ExprKind::kList, line);
  while (!at_operator("]")) {
    TRY(ExprPtr item, expression());
    node->args.push_back(std::move(item));
    if (!skip_operator(",")) break;
  }
  TRY_VOID(expect_operator("]"));
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::dict(std::uint32_t line) {
  ExprPtr node = make(ExprKind::kDict, line);
  while (!at_operator("}")) {
    TRY(ExprPtr key, expression());
    TRY_VOID(expect_operator(":"));
    TRY(ExprPtr value, expression());
    node->args.push_back(std::move(key));
    node->args.push_back(std::move(value));
    if (!skip_operator(",")) break;
  }
  TRY_VOID(expect_operator("}"));
  return finish(std::move(node));
}

}  // namespace hearth::model::jinja
