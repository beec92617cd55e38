#include "model/jinja/builtins.h"

#include "model/jinja/evaluator.h"
#include "model/jinja/text.h"

namespace hearth::model::jinja {
namespace {

template <typename T>
bool holds(const Value& value) {
  return std::holds_alternative<T>(value);
}

bool is_number(const Value& value) {
  return holds<std::int64_t>(value) || holds<double>(value) || holds<bool>(value);
}

bool is_sequence(const Value& value) {
  return is_undefined(value) || as_text(value) != nullptr || as_list(value) != nullptr ||
         as_dict(value) != nullptr;
}

bool is_callable(const Value& value) {
  return holds<const Macro*>(value) || holds<Function>(value);
}

Result<bool> divisible(Meter&, const Value& value, const Value* by) {
  const auto* number = std::get_if<std::int64_t>(&value);
  const auto* divisor = by != nullptr ? std::get_if<std::int64_t>(by) : nullptr;
  REQUIRE(number != nullptr && divisor != nullptr && *divisor != 0,
          "needs two integers, the second not zero");
  return *divisor == -1 || *number % *divisor == 0;
}

template <std::int64_t wanted>
Result<bool> parity(Meter&, const Value& value, const Value*) {
  const auto* number = std::get_if<std::int64_t>(&value);
  REQUIRE(number != nullptr, "needs an integer");
  return (*number & 1) == wanted;
}

template <bool upper>
Result<bool> same_case(Meter& meter, const Value& value, const Value*) {
  TRY(const Value text, to_text(meter, value));
  TRY_VOID(meter.scan(as_text(text)->bytes.size()));
  bool cased = false;
  for (std::size_t at = 0; at < as_text(text)->bytes.size();) {
    const Character one = character_at(as_text(text)->bytes, at);
    if ((upper ? to_upper(one.code) : to_lower(one.code)) != one.code) return false;
    cased = cased || (upper ? to_lower(one.code) : to_upper(one.code)) != one.code;
    at += one.length;
  }
  return cased;
}

struct Predicate {
  std::string_view name;
  bool (*holds)(const Value&);
};
constexpr Predicate kPredicates[] = {
    {"defined", [](const Value& v) { return !is_undefined(v); }},
    {"undefined", is_undefined},
    {"none", holds<None>},
    {"string", holds<TextPtr>},
    {"number", is_number},
    {"integer", holds<std::int64_t>},
    {"float", holds<double>},
    {"boolean", holds<bool>},
    {"true", [](const Value& v) { return holds<bool>(v) && truthy(v); }},
    {"false", [](const Value& v) { return holds<bool>(v) && !truthy(v); }},
    {"mapping", holds<DictPtr>},
    {"iterable", is_sequence},
    {"sequence", is_sequence},
    {"callable", is_callable},
};

struct Comparison {
  std::string_view name;
  Operator op;
};
constexpr Comparison kComparisons[] = {
    {"in", Operator::kIn},          {"eq", Operator::kEqual},   {"equalto", Operator::kEqual},
    {"ne", Operator::kNotEqual},    {"lt", Operator::kLess},    {"lessthan", Operator::kLess},
    {"le", Operator::kLessEqual},   {"gt", Operator::kGreater}, {"greaterthan", Operator::kGreater},
    {"ge", Operator::kGreaterEqual}};

struct OtherTest {
  std::string_view name;
  Result<bool> (*call)(Meter&, const Value& value, const Value* argument);
};
constexpr OtherTest kOtherTests[] = {{"odd", parity<1>},
                                     {"even", parity<0>},
                                     {"divisibleby", divisible},
                                     {"lower", same_case<false>},
                                     {"upper", same_case<true>}};

const Builtin* find_filter(std::string_view name) {
  const Builtin* text = find_named(text_filters(), name);
  return text != nullptr ? text : find_named(list_filters(), name);
}

}  // namespace

Result<Bound> Bound::bind(const Arguments& arguments, const Parameters& parameters) {
  Bound bound;
  bound.names_ = parameters;
  bound.all_ = &arguments;
  if (parameters[0] == "*") return bound;
  const auto count = static_cast<std::size_t>(std::find(parameters.begin(), parameters.end(), "") -
                                              parameters.begin());
  REQUIRE(arguments.positional.size() <= count, "takes at most ", count, " arguments, not ",
          arguments.positional.size());
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    bound.values_[i] = &arguments.positional[i];
  }
  for (const auto& [name, value] : arguments.named) {
    const auto index = static_cast<std::size_t>(
        std::find(parameters.begin(), parameters.begin() + count, name) - parameters.begin());
    REQUIRE(index < count, "has no parameter '", name, "'");
    REQUIRE(bound.values_[index] == nullptr, "parameter '", name, "' is given twice");
    bound.values_[index] = &value;
  }
  return bound;
}

Result<std::int64_t> Bound::integer(std::size_t index, std::int64_t fallback) const {
  if (!has(index)) return fallback;
  const auto* whole = std::get_if<std::int64_t>(get(index));
  REQUIRE(whole != nullptr, "parameter '", names_[index], "' must be an integer");
  return *whole;
}

Result<TextPtr> Bound::text(std::size_t index) const {
  REQUIRE(has(index), "parameter '", names_[index], "' is missing");
  const auto* text = std::get_if<TextPtr>(get(index));
  REQUIRE(text != nullptr, "parameter '", names_[index], "' must be a string");
  return *text;
}

Result<Value> apply_filter(Meter& meter, std::string_view name, const Value& input,
                           const Arguments& arguments) {
  const Builtin* filter = find_filter(name);
  if (filter == nullptr) {
    return Error::of(ErrorCode::kUnsupported, "filter '", name, "' is not supported");
  }
  TRY(const Bound bound, Bound::bind(arguments, filter->parameters));
  return filter->call(meter, input, bound);
}

Result<bool> apply_test(Meter& meter, std::string_view name, const Value& input,
                        const Arguments& arguments) {
  const Comparison* const comparison = find_named(kComparisons, name);
  const Predicate* const predicate = find_named(kPredicates, name);
  const OtherTest* const other = find_named(kOtherTests, name);
  if (comparison == nullptr && predicate == nullptr && other == nullptr) {
    return Error::of(ErrorCode::kUnsupported, "test '", name, "' is not supported");
  }
  REQUIRE(arguments.named.empty() && arguments.positional.size() <= 1, "test '", name,
          "' takes at most one argument");
  const Value* argument = arguments.positional.empty() ? nullptr : &arguments.positional[0];
  if (predicate != nullptr) return predicate->holds(input);
  if (other != nullptr) return other->call(meter, input, argument);
  REQUIRE(argument != nullptr, "needs an argument");
  return compare_by(meter, comparison->op, input, *argument);
}

Result<Value> get_item(Meter& meter, const Value& object, const Value& key,
                       const std::string* name) {
  REQUIRE(!is_undefined(object), "an attribute of an undefined value");
  const Value absent = Undefined{name};
  if (const auto* function = std::get_if<Function>(&object);
      function != nullptr && *function == Function::kLoop) {
    return Error{ErrorCode::kUnsupported, "'loop' as a value is not supported"};
  }
  if (const Dict* dict = as_dict(object)) {
    TRY(const Value* found, find_key(meter, *dict, key));
    return found != nullptr ? *found : absent;
  }
  if (auto* const* space = std::get_if<Namespace*>(&object)) {
    const Text* wanted = as_text(key);
    if (wanted == nullptr) return absent;
    TRY_VOID(meter.steps(1 + (*space)->items.size() / 16));
    const Value* found = find_name(**space, wanted->bytes);
    return found != nullptr ? *found : absent;
  }
  const auto* index = std::get_if<std::int64_t>(&key);
  if (index == nullptr) return absent;
  if (const List* list = as_list(object)) {
    const auto size = static_cast<std::int64_t>(list->items.size());
    const std::int64_t at = *index < 0 ? *index + size : *index;
    return at >= 0 && at < size ? list->items[static_cast<std::size_t>(at)] : absent;
  }
  if (const Text* text = as_text(object)) {
    TRY_VOID(meter.scan(text->bytes.size()));
    const auto size = static_cast<std::int64_t>(count_characters(text->bytes));
    const std::int64_t at = *index < 0 ? *index + size : *index;
    if (at < 0 || at >= size) return absent;
    const std::size_t begin = character_offset(text->bytes, static_cast<std::size_t>(at));
    return make_part(meter, *text, begin, begin + character_at(text->bytes, begin).length);
  }
  return absent;
}

}  // namespace hearth::model::jinja
