#include "model/jinja/evaluator.h"

#include "base/check.h"

namespace hearth::model::jinja {

std::string describe(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kName: return "name '" + expr.name + "'";
    case ExprKind::kLoop: return "'loop." + expr.name + "'";
    case ExprKind::kAttribute: return "attribute '" + expr.name + "'";
    case ExprKind::kFilter: return "filter '" + expr.name + "'";
    case ExprKind::kTest: return "test '" + expr.name + "'";
    case ExprKind::kCall:
      return "call of '" + (expr.args[0]->name.empty() ? "expression" : expr.args[0]->name) + "'";
    case ExprKind::kSubscript:
    case ExprKind::kSlice: return "subscript";
    case ExprKind::kCompare:
    case ExprKind::kArithmetic: return "operator '" + std::string(operator_name(expr.ops[0])) + "'";
    case ExprKind::kConcat: return "operator '~'";
    case ExprKind::kNegate: return "operator '-'";
    case ExprKind::kList: return "list";
    case ExprKind::kDict: return "dict";
    default: return "expression";
  }
}

std::string undefined_message(const Value& value) {
  const std::string* name = std::get<Undefined>(value).name;
  return name != nullptr ? "'" + *name + "' is undefined" : "the value is undefined";
}

Result<Value> Evaluator::evaluate(const Expr& expr) {
  if (expr.kind == ExprKind::kConstant) {
    TRY_VOID(meter_.steps(1));
    return expr.constant;
  }
  Status entered = nesting_.enter();
  if (!entered.ok()) return nesting_.located(std::move(entered).error(), expr.line, describe(expr));
  Result<Value> result = evaluate_kind(expr);
  nesting_.leave();
  if (result.ok()) return result;
  return nesting_.located(std::move(result).error(), expr.line, describe(expr));
}

// `block_` is restored before the error goes up, so that it never points past its block.
Result<Value> Evaluator::filtered(const Expr& filters, const Value& input) {
  const Value* outer = std::exchange(block_, &input);
  Result<Value> result = evaluate(filters);
  INVARIANT(block_ == &input, "inner filter blocks have ended");
  block_ = outer;
  return result;
}

Result<Value> Evaluator::evaluate_kind(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kConstant: return expr.constant;
    case ExprKind::kName: return variables_.lookup(expr.symbol);
    case ExprKind::kLoop: return loop_attribute(expr);
    case ExprKind::kList:
    case ExprKind::kTuple: return sequence(expr);
    case ExprKind::kDict: return dict(expr);
    case ExprKind::kSubscript: return subscript(expr);
    case ExprKind::kSlice: return slice(expr);
    case ExprKind::kAttribute: return attribute(expr);
    case ExprKind::kCall: return call(expr);
    case ExprKind::kFilter: return filter(expr);
    case ExprKind::kTest: return test(expr);
    case ExprKind::kNot: {
      TRY(const Value value, evaluate(*expr.args[0]));
      return Value(!truthy(value));
    }
    case ExprKind::kNegate:
    case ExprKind::kPlus: return sign(expr);
    case ExprKind::kAnd:
    case ExprKind::kOr: return logic(expr);
    case ExprKind::kConcat: return concat(expr);
    case ExprKind::kConditional: return conditional(expr);
    case ExprKind::kCompare: return comparison(expr);
    case ExprKind::kArithmetic: return arithmetic(expr);
    case ExprKind::kUnsupported:
      return Error::of(ErrorCode::kUnsupported, expr.name, " is not supported");
  }
  return Value(None{});
}

Result<Value> Evaluator::loop_attribute(const Expr& expr) {
  const Variables::Loop* loop = variables_.loop();
  static const std::string kLoopName = "loop";
  if (expr.name.empty()) return loop != nullptr ? Value(Function::kLoop) : Undefined{&kLoopName};
  REQUIRE(loop != nullptr, "'loop' is undefined");
  INVARIANT(!loop->ended(), "the body of a loop runs for one of its items");
  const auto index = static_cast<std::int64_t>(loop->index());
  const auto length = static_cast<std::int64_t>(loop->items().size());
  const std::string& name = expr.name;
  if (name == "index0") return Value(index);
  if (name == "index") return Value(index + 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index + 1 == length);
  if (name == "length") return Value(length);
  if (name == "depth" || name == "depth0") return Value(std::int64_t{name == "depth"});
  if (name == "revindex") return Value(length - index);
  if (name == "revindex0") return Value(length - index - 1);
  if (name == "previtem") {
    return index > 0 ? loop->items()[loop->index() - 1] : Value(Undefined{&name});
  }
  if (name == "nextitem") {
    return index + 1 < length ? loop->items()[loop->index() + 1] : Value(Undefined{&name});
  }
  return Error{ErrorCode::kUnsupported, "this attribute of a loop is not supported"};
}

Result<Value> Evaluator::sequence(const Expr& expr) {
  std::vector<Value> items;
  for (const ExprPtr& arg : expr.args) {
    TRY(Value item, evaluate(*arg));
    items.push_back(std::move(item));
  }
  return make_list(meter_, std::move(items), expr.kind == ExprKind::kTuple);
}

Result<Value> Evaluator::dict(const Expr& expr) {
  std::vector<std::pair<Value, Value>> items;
  INVARIANT(expr.args.size() % 2 == 0, "every key of a dict has a value");
  for (std::size_t i = 0; i + 1 < expr.args.size(); i += 2) {
    TRY(Value key, evaluate(*expr.args[i]));
    TRY(Value value, evaluate(*expr.args[i + 1]));
    items.emplace_back(std::move(key), std::move(value));
  }
  return make_dict(meter_, std::move(items));
}

Result<Value> Evaluator::subscript(const Expr& expr) {
  TRY(const Value object, evaluate(*expr.args[0]));
  TRY(const Value key, evaluate(*expr.args[1]));
  REQUIRE(!is_undefined(object), undefined_message(object));
  return get_item(meter_, object, key, nullptr);
}

Result<Value> Evaluator::attribute(const Expr& expr) {
  TRY(const Value object, evaluate(*expr.args[0]));
  REQUIRE(!is_undefined(object), undefined_message(object));
  if (is_method(object, expr.name)) {
    return Error{ErrorCode::kUnsupported, "a method that is not called is not supported"};
  }
  const bool named = as_dict(object) != nullptr || std::holds_alternative<Namespace*>(object) ||
                     std::holds_alternative<Function>(object);
  if (!named) return Value(Undefined{&expr.name});
  Text name;
  name.bytes = expr.name;
  return get_item(meter_, object, TextPtr(std::make_shared<const Text>(std::move(name))),
                  &expr.name);
}

Result<Arguments> Evaluator::arguments(const Expr& expr) {
  Arguments out;
  for (std::size_t i = 1; i < expr.args.size(); ++i) {
    TRY(Value value, evaluate(*expr.args[i]));
    out.positional.push_back(std::move(value));
  }
  for (const auto& [name, arg] : expr.named) {
    TRY(Value value, evaluate(*arg));
    out.named.emplace_back(name, std::move(value));
  }
  return out;
}

// Whether only this name, or this attribute of a namespace, holds the list. If another value held
// it, the list would change there as well, and could contain itself.
Result<bool> Evaluator::holds_alone(const Expr& place, const Value& object) const {
  const auto* list = std::get_if<ListPtr>(&object);
  if (list == nullptr || (*list)->tuple || list->use_count() != 2) return false;
  if (place.kind == ExprKind::kName) return true;
  if (place.kind != ExprKind::kAttribute || place.args[0]->kind != ExprKind::kName) return false;
  TRY(const Value space, variables_.lookup(place.args[0]->symbol));
  return std::holds_alternative<Namespace*>(space);
}

Result<Value> Evaluator::append_to(const Value& object, const Arguments& given) {
  TRY(const Bound bound, Bound::bind(given, {"object"}));
  REQUIRE(bound.has(0), "'append' takes a value");
  // Lists are created mutable and are shared as constant values.
  const auto list = std::const_pointer_cast<List>(std::get<ListPtr>(object));
  TRY_VOID(append_item(meter_, *list, *bound.get(0)));
  return Value(None{});
}

Result<Value> Evaluator::call(const Expr& expr) {
  const Expr& callee = *expr.args[0];
  if (callee.kind == ExprKind::kAttribute) {
    TRY(const Value object, evaluate(*callee.args[0]));
    REQUIRE(!is_undefined(object), undefined_message(object));
    if (is_method(object, callee.name)) {
      TRY(const Arguments given, arguments(expr));
      if (callee.name == "append") {
        TRY(const bool own, holds_alone(*callee.args[0], object));
        if (own) return append_to(object, given);
      }
      return call_method(meter_, object, callee.name, given);
    }
    REQUIRE(as_text(object) == nullptr && as_list(object) == nullptr, "a ", type_name(object),
            " has no method '", callee.name, "'");
  }
  TRY(const Value function, evaluate(callee));
  REQUIRE(!is_undefined(function), undefined_message(function));
  TRY(const Arguments given, arguments(expr));
  return call_value(function, given);
}

Result<Value> Evaluator::call_value(const Value& callee, const Arguments& given) {
  if (const auto* macro = std::get_if<const Macro*>(&callee)) return call_macro(**macro, given);
  if (const auto* function = std::get_if<Function>(&callee)) return call_function(*function, given);
  return Error::invalid("a ", type_name(callee), " cannot be called");
}

Status Evaluator::bind_parameters(const Macro& macro, const Arguments& given) {
  REQUIRE(given.positional.size() <= macro.parameters.size(), "macro '", macro.name,
          "' takes at most ", macro.parameters.size(), " arguments, not ", given.positional.size());
  TRY_VOID(meter_.steps(given.named.size() * macro.parameters.size() / 16));
  for (const auto& [name, value] : given.named) {
    const auto* block = name == "caller" ? std::get_if<const Macro*>(&value) : nullptr;
    if (block != nullptr && (*block)->of_call) {
      TRY_VOID(variables_.set((*block)->symbol, value));
      continue;
    }
    bool known = false;
    for (std::size_t i = 0; i < macro.parameters.size() && !known; ++i) {
      known = macro.parameters[i].name == name && i >= given.positional.size();
    }
    REQUIRE(known, "macro '", macro.name, "' has no free parameter '", name, "'");
  }
  for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    const Value* found = i < given.positional.size() ? &given.positional[i] : nullptr;
    for (const auto& [name, value] : given.named) {
      if (parameter.name == name) found = &value;
    }
    if (found == nullptr && parameter.fallback != nullptr) {
      TRY(Value fallback, evaluate(*parameter.fallback));
      TRY_VOID(variables_.set(parameter.symbol, std::move(fallback)));
    } else {
      TRY_VOID(variables_.set(parameter.symbol,
                              found != nullptr ? *found : Value(Undefined{&parameter.name})));
    }
  }
  return ok_status();
}

// A macro sees its parameters and the names around its text, but no names at the place of its call.
Result<Value> Evaluator::call_macro(const Macro& macro, const Arguments& given) {
  TRY(Variables::Scope* const around, variables_.around(macro));
  const Variables::Scope frame(variables_, around);
  if (macro.of_call) TRY_VOID(variables_.set(macro.symbol, Undefined{&macro.name}));
  TRY_VOID(bind_parameters(macro, given));
  return capture_(macro.body);
}

Result<Value> Evaluator::call_function(Function function, const Arguments& given) {
  if (function == Function::kLoop) {
    return Error{ErrorCode::kUnsupported, "a call of a recursive 'for' is not supported"};
  }
  if (function == Function::kNamespace) return variables_.make_namespace(given);
  if (function == Function::kDict) {
    REQUIRE(given.positional.empty(), "takes arguments with names only");
    std::vector<std::pair<Value, Value>> items;
    for (const auto& [name, value] : given.named) {
      TRY(Value key, make_text(meter_, name));
      items.emplace_back(std::move(key), value);
    }
    return make_dict(meter_, std::move(items));
  }
  if (function == Function::kRaiseException) {
    TRY(const Bound bound, Bound::bind(given, {"message"}));
    TRY(const Value message, to_text(meter_, bound.has(0) ? *bound.get(0) : Value(Undefined{})));
    nesting_.leave_unplaced();
    return Error::invalid(as_text(message)->bytes);
  }
  if (function == Function::kStrftimeNow) {
    INVARIANT(unix_seconds_.has_value(), "the function exists where the time is given");
    TRY(const Bound bound, Bound::bind(given, {"format"}));
    TRY(const TextPtr format, bound.text(0));
    TRY(const std::string text, format_time(format->bytes, *unix_seconds_));
    return make_text(meter_, text, !format->user.empty());
  }
  TRY(const Bound bound, Bound::bind(given, {"start", "stop", "step"}));
  TRY(std::int64_t start, bound.integer(0, 0));
  TRY(std::int64_t stop, bound.integer(1, 0));
  TRY(const std::int64_t step, bound.integer(2, 1));
  REQUIRE(bound.has(0) && step != 0, "needs a limit, and a step that is not zero");
  if (!bound.has(1)) std::swap(start, stop);
  constexpr std::size_t kLongest = 100'000;  // as Jinja's sandbox has it
  std::vector<Value> items;
  for (std::int64_t at = start; step > 0 ? at < stop : at > stop;) {
    REQUIRE(items.size() < kLongest, "a range is longer than the limit of 100000");
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return make_list(meter_, std::move(items));
}

Result<Value> Evaluator::filter(const Expr& expr) {
  Value input;
  if (expr.args[0] == nullptr) {
    INVARIANT(block_ != nullptr, "a filter without an input belongs to a block");
    input = *block_;
  } else {
    TRY(input, evaluate(*expr.args[0]));
  }
  TRY(const Arguments given, arguments(expr));
  return apply_filter(meter_, expr.name, input, given);
}

Result<Value> Evaluator::test(const Expr& expr) {
  TRY(const Value input, evaluate(*expr.args[0]));
  TRY(const Arguments given, arguments(expr));
  TRY(const bool holds, apply_test(meter_, expr.name, input, given));
  return Value(holds);
}

Result<Value> Evaluator::logic(const Expr& expr) {
  INVARIANT(expr.args.size() >= 2, "'and' and 'or' have two operands");
  for (std::size_t i = 0;; ++i) {
    TRY(Value value, evaluate(*expr.args[i]));
    if (i + 1 == expr.args.size() || truthy(value) == (expr.kind == ExprKind::kOr)) return value;
  }
}

Result<Value> Evaluator::concat(const Expr& expr) {
  TextBuilder out(meter_);
  for (const ExprPtr& arg : expr.args) {
    TRY(const Value value, evaluate(*arg));
    append_str(out, value);
  }
  return out.finish();
}

Result<Value> Evaluator::conditional(const Expr& expr) {
  TRY(const Value condition, evaluate(*expr.args[1]));
  if (truthy(condition)) return evaluate(*expr.args[0]);
  if (expr.args[2] != nullptr) return evaluate(*expr.args[2]);
  return Value(Undefined{});
}

}  // namespace hearth::model::jinja
