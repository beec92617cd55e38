// Arithmetic, comparison and slices.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "model/jinja/evaluator.h"
#include "model/jinja/text.h"

namespace hearth::model::jinja {
namespace {

constexpr std::size_t kRepeatLimit = 1'000'000;

Error cannot(Operator op, const Value& left, const Value& right) {
  return Error::invalid("cannot apply '", operator_name(op), "' to a ", type_name(left), " and a ",
                        type_name(right));
}

Result<Value> whole_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    REQUIRE(base != 0, "zero has no negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) {
      REQUIRE(!__builtin_mul_overflow(result, base, &result), "the result does not fit 64 bits");
    }
    if (exponent > 1) {
      REQUIRE(!__builtin_mul_overflow(base, base, &base), "the result does not fit 64 bits");
    }
  }
  return Value(result);
}

Result<Value> whole_result(Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  bool overflow = false;
  switch (op) {
    case Operator::kAdd: overflow = __builtin_add_overflow(a, b, &out); break;
    case Operator::kSubtract: overflow = __builtin_sub_overflow(a, b, &out); break;
    case Operator::kMultiply: overflow = __builtin_mul_overflow(a, b, &out); break;
    case Operator::kPower: return whole_power(a, b);
    default:
      REQUIRE(b != 0, "division by zero");
      if (op == Operator::kDivide) return Value(static_cast<double>(a) / static_cast<double>(b));
      if (b == -1) {
        overflow = op == Operator::kFloorDivide && __builtin_sub_overflow(0, a, &out);
        break;
      }
      out = op == Operator::kModulo ? a % b : a / b;
      // Python rounds down; the remainder has the sign of the divisor.
      if (a % b != 0 && (a % b < 0) != (b < 0)) out += op == Operator::kModulo ? b : -1;
  }
  REQUIRE(!overflow, "the result does not fit 64 bits");
  return Value(out);
}

Result<Value> real_power(double base, double exponent) {
  REQUIRE(base != 0 || !(exponent < 0), "zero has no negative power");
  const double power = std::pow(base, exponent);
  const bool finite = std::isfinite(base) && std::isfinite(exponent);
  REQUIRE(!finite || std::isfinite(power), "the power must be a finite real number");
  return Value(power);
}

// As Python: the remainder is exact and has the divisor's sign, and the quotient goes with it.
double floor_quotient(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Result<Value> real_result(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd: return Value(a + b);
    case Operator::kSubtract: return Value(a - b);
    case Operator::kMultiply: return Value(a * b);
    case Operator::kPower: return real_power(a, b);
    default: break;
  }
  REQUIRE(b != 0, "division by zero");
  if (op == Operator::kDivide) return Value(a / b);
  if (op == Operator::kFloorDivide) return Value(floor_quotient(a, b));
  double rest = std::fmod(a, b);
  if (rest == 0) return Value(std::copysign(0.0, b));
  if ((rest < 0) != (b < 0)) rest += b;
  return Value(rest);
}

Result<Value> repeated(Meter& meter, const Value& value, std::int64_t times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  REQUIRE(count <= kRepeatLimit, "repeats more often than the limit of 1000000");
  if (const Text* text = as_text(value)) {
    TextBuilder out(meter);
    for (std::size_t i = 0; i < count && !out.failed(); ++i) out.append(*text);
    return out.finish();
  }
  const List& list = *as_list(value);
  TRY_VOID(meter.create(count * list.items.size() * sizeof(Value)));
  std::vector<Value> items;
  for (std::size_t i = 0; i < count; ++i) {
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return make_list(meter, std::move(items), list.tuple);
}

Result<Value> joined_lists(Meter& meter, const List& left, const List& right) {
  TRY_VOID(meter.create((left.items.size() + right.items.size()) * sizeof(Value)));
  std::vector<Value> items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return make_list(meter, std::move(items), left.tuple);
}

// Start, stop and step of a slice over `size` items, as Python clips them.
struct Steps {
  std::int64_t start = 0;
  std::int64_t stop = 0;
  std::int64_t step = 1;
};

Result<Steps> clipped(std::int64_t size, const Value (&parts)[3]) {
  std::optional<std::int64_t> given[3];
  for (int i = 0; i < 3; ++i) {
    if (std::holds_alternative<None>(parts[i])) continue;
    given[i] = whole_of(parts[i]);
    REQUIRE(given[i].has_value(), "a part of the slice must be an integer");
  }
  Steps steps;
  steps.step = given[2].value_or(1);
  REQUIRE(steps.step != 0, "the step of the slice is zero");
  // Beyond the length a larger step takes no other item, and a smaller number cannot overflow.
  steps.step = std::clamp<std::int64_t>(steps.step, -size - 1, size + 1);
  const bool down = steps.step < 0;
  const auto clip = [&](std::int64_t at) {
    if (at < 0) at = at < -size ? -1 : at + size;
    return std::clamp<std::int64_t>(at, down ? -1 : 0, down ? size - 1 : size);
  };
  steps.start = given[0] ? clip(*given[0]) : down ? size - 1 : 0;
  steps.stop = given[1] ? clip(*given[1]) : down ? -1 : size;
  return steps;
}

Result<Value> text_slice(Meter& meter, const Text& text, const Value (&parts)[3]) {
  TRY_VOID(meter.scan(2 * text.bytes.size()));
  const auto size = static_cast<std::int64_t>(count_characters(text.bytes));
  TRY(const Steps steps, clipped(size, parts));
  if (steps.step == 1) {
    const std::size_t begin = character_offset(text.bytes, static_cast<std::size_t>(steps.start));
    if (steps.stop <= steps.start) return make_text(meter, "");
    const std::size_t length = character_offset(std::string_view(text.bytes).substr(begin),
                                                static_cast<std::size_t>(steps.stop - steps.start));
    return make_part(meter, text, begin, begin + length);
  }
  TRY_VOID(meter.create(text.bytes.size() * sizeof(std::size_t)));
  std::vector<std::size_t> offsets;
  for (std::size_t at = 0; at < text.bytes.size();) {
    offsets.push_back(at);
    at += character_at(text.bytes, at).length;
  }
  offsets.push_back(text.bytes.size());
  TextBuilder out(meter);
  for (std::int64_t i = steps.start; steps.step > 0 ? i < steps.stop : i > steps.stop;
       i += steps.step) {
    if (out.failed()) break;
    out.append(text, offsets[static_cast<std::size_t>(i)],
               offsets[static_cast<std::size_t>(i) + 1]);
  }
  return out.finish();
}

}  // namespace

Result<Value> calculate(Meter& meter, Operator op, const Value& left, const Value& right) {
  REQUIRE(!is_undefined(left), undefined_message(left));
  REQUIRE(!is_undefined(right), undefined_message(right));
  const auto a = whole_of(left);
  const auto b = whole_of(right);
  if (a && b) return whole_result(op, *a, *b);
  const auto x = real_of(left);
  const auto y = real_of(right);
  if (x && y) return real_result(op, *x, *y);
  const bool left_sequence = as_text(left) != nullptr || as_list(left) != nullptr;
  const bool right_sequence = as_text(right) != nullptr || as_list(right) != nullptr;
  if (op == Operator::kMultiply && left_sequence && b) return repeated(meter, left, *b);
  if (op == Operator::kMultiply && right_sequence && a) return repeated(meter, right, *a);
  if (op == Operator::kModulo && as_text(left) != nullptr) {
    return Error{ErrorCode::kUnsupported, "'%' on a string is not supported"};
  }
  if (op != Operator::kAdd || left.index() != right.index()) return cannot(op, left, right);
  if (const Text* text = as_text(left)) {
    TextBuilder out(meter);
    out.append(*text);
    out.append(*as_text(right));
    return out.finish();
  }
  const List* list = as_list(left);
  if (list == nullptr || list->tuple != as_list(right)->tuple) return cannot(op, left, right);
  return joined_lists(meter, *list, *as_list(right));
}

Result<bool> compare_by(Meter& meter, Operator op, const Value& left, const Value& right) {
  if (op == Operator::kEqual || op == Operator::kNotEqual) {
    TRY(const bool same, equal(meter, left, right));
    return same == (op == Operator::kEqual);
  }
  if (op == Operator::kIn || op == Operator::kNotIn) {
    TRY(const bool found, contains(meter, right, left));
    return found == (op == Operator::kIn);
  }
  TRY(const int order, compare(meter, left, right));
  switch (op) {
    case Operator::kLess: return order < 0;
    case Operator::kLessEqual: return order <= 0;
    case Operator::kGreater: return order > 0;
    default: return order >= 0;
  }
}

Result<Value> Evaluator::arithmetic(const Expr& expr) {
  INVARIANT(expr.args.size() == expr.ops.size() + 1, "an operator stands between two operands");
  TRY(Value total, evaluate(*expr.args[0]));
  for (std::size_t i = 1; i < expr.args.size();) {
    TRY(Value operand, evaluate(*expr.args[i]));
    if (expr.ops[i - 1] != Operator::kAdd || as_text(total) == nullptr ||
        as_text(operand) == nullptr) {
      TRY(total, calculate(meter_, expr.ops[i - 1], total, operand));
      ++i;
      continue;
    }
    // A run of additions of strings copies each of them once.
    TextBuilder out(meter_);
    out.append(*as_text(total));
    while (true) {
      out.append(*as_text(operand));
      if (++i >= expr.args.size() || expr.ops[i - 1] != Operator::kAdd) break;
      TRY(operand, evaluate(*expr.args[i]));
      if (as_text(operand) != nullptr) continue;
      TRY(const Value text, out.finish());
      return calculate(meter_, Operator::kAdd, text, operand);  // an error: a string plus none
    }
    TRY(total, out.finish());
  }
  return total;
}

Result<Value> Evaluator::sign(const Expr& expr) {
  TRY(const Value value, evaluate(*expr.args[0]));
  const Value zero = std::int64_t{0};
  REQUIRE(!is_undefined(value), undefined_message(value));
  if (const auto* real = std::get_if<double>(&value)) {
    return Value(expr.kind == ExprKind::kNegate ? -*real : *real);
  }
  return calculate(meter_, expr.kind == ExprKind::kNegate ? Operator::kSubtract : Operator::kAdd,
                   zero, value);
}

Result<Value> Evaluator::comparison(const Expr& expr) {
  INVARIANT(expr.args.size() == expr.ops.size() + 1, "an operator stands between two operands");
  TRY(Value left, evaluate(*expr.args[0]));
  for (std::size_t i = 0; i < expr.ops.size(); ++i) {
    TRY(Value right, evaluate(*expr.args[i + 1]));
    const Operator op = expr.ops[i];
    const bool ordered = op >= Operator::kLess && op <= Operator::kGreaterEqual;
    REQUIRE(!ordered || !is_undefined(left), undefined_message(left));
    REQUIRE(!ordered || !is_undefined(right), undefined_message(right));
    TRY(const bool holds, compare_by(meter_, op, left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Evaluator::slice(const Expr& expr) {
  INVARIANT(expr.args.size() == 4,
            "a slice has an object and three parts, each of which may be null");
  TRY(const Value object, evaluate(*expr.args[0]));
  REQUIRE(!is_undefined(object), undefined_message(object));
  Value parts[3] = {None{}, None{}, None{}};
  for (std::size_t i = 0; i < 3; ++i) {
    if (expr.args[i + 1] == nullptr) continue;
    TRY(parts[i], evaluate(*expr.args[i + 1]));
  }
  if (const Text* text = as_text(object)) return text_slice(meter_, *text, parts);
  const List* list = as_list(object);
  if (list == nullptr) return Value(Undefined{});
  TRY(const Steps steps, clipped(static_cast<std::int64_t>(list->items.size()), parts));
  std::vector<Value> items;
  for (std::int64_t i = steps.start; steps.step > 0 ? i < steps.stop : i > steps.stop;
       i += steps.step) {
    items.push_back(list->items[static_cast<std::size_t>(i)]);
  }
  return make_list(meter_, std::move(items), list->tuple);
}

}  // namespace hearth::model::jinja
