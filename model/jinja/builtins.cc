#include "model/jinja/builtins.h"

#include <array>
#include <chrono>

#include "model/jinja/text.h"

namespace hearth::model::jinja {
namespace {

using Test = Result<bool> (*)(Meter&, const Value&, const Value*);

const Builtin* find_filter(std::string_view name) {
  for (const Builtin* table : {text_filters(), list_filters()}) {
    for (; table->call != nullptr; ++table) {
      if (table->name == name) return table;
    }
  }
  return nullptr;
}

Result<bool> ordered(Meter& meter, const Value& a, const Value* b, bool less, bool same) {
  REQUIRE(b != nullptr, "needs an argument");
  TRY(const int order, compare(meter, a, *b));
  return order == 0 ? same : (order < 0) == less;
}

Result<bool> equals(Meter& meter, const Value& a, const Value* b) {
  REQUIRE(b != nullptr, "needs an argument");
  return equal(meter, a, *b);
}

bool is_integer(const Value& value) { return std::holds_alternative<std::int64_t>(value); }

bool is_sequence(const Value& value) {
  return is_undefined(value) || as_text(value) != nullptr || as_list(value) != nullptr ||
         as_dict(value) != nullptr;
}

bool is_callable(const Value& value) {
  return std::holds_alternative<const Macro*>(value) || std::holds_alternative<Function>(value);
}

Result<bool> divisible(const Value& value, const Value* by) {
  const auto* number = std::get_if<std::int64_t>(&value);
  const auto* divisor = by != nullptr ? std::get_if<std::int64_t>(by) : nullptr;
  REQUIRE(number != nullptr && divisor != nullptr && *divisor != 0,
          "needs two integers, the second not zero");
  return *divisor == -1 || *number % *divisor == 0;
}

Result<bool> parity(const Value& value, std::int64_t wanted) {
  const auto* number = std::get_if<std::int64_t>(&value);
  REQUIRE(number != nullptr, "needs an integer");
  return (*number & 1) == wanted;
}

Result<bool> same_case(Meter& meter, const Value& value, bool upper) {
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

struct NamedTest {
  std::string_view name;
  Test call;
};

constexpr NamedTest kTests[] = {
    {"defined",
     [](Meter&, const Value& v, const Value*) { return Result<bool>(!is_undefined(v)); }},
    {"undefined",
     [](Meter&, const Value& v, const Value*) { return Result<bool>(is_undefined(v)); }},
    {"none", [](Meter&, const Value& v,
                const Value*) { return Result<bool>(std::holds_alternative<None>(v)); }},
    {"string",
     [](Meter&, const Value& v, const Value*) { return Result<bool>(as_text(v) != nullptr); }},
    {"number",
     [](Meter&, const Value& v, const Value*) {
       return Result<bool>(is_integer(v) || std::holds_alternative<double>(v) ||
                           std::holds_alternative<bool>(v));
     }},
    {"integer", [](Meter&, const Value& v, const Value*) { return Result<bool>(is_integer(v)); }},
    {"float", [](Meter&, const Value& v,
                 const Value*) { return Result<bool>(std::holds_alternative<double>(v)); }},
    {"boolean", [](Meter&, const Value& v,
                   const Value*) { return Result<bool>(std::holds_alternative<bool>(v)); }},
    {"true",
     [](Meter&, const Value& v, const Value*) {
       return Result<bool>(std::holds_alternative<bool>(v) && truthy(v));
     }},
    {"false",
     [](Meter&, const Value& v, const Value*) {
       return Result<bool>(std::holds_alternative<bool>(v) && !truthy(v));
     }},
    {"mapping",
     [](Meter&, const Value& v, const Value*) { return Result<bool>(as_dict(v) != nullptr); }},
    {"iterable", [](Meter&, const Value& v, const Value*) { return Result<bool>(is_sequence(v)); }},
    {"sequence", [](Meter&, const Value& v, const Value*) { return Result<bool>(is_sequence(v)); }},
    {"callable", [](Meter&, const Value& v, const Value*) { return Result<bool>(is_callable(v)); }},
    {"odd", [](Meter&, const Value& v, const Value*) { return parity(v, 1); }},
    {"even", [](Meter&, const Value& v, const Value*) { return parity(v, 0); }},
    {"divisibleby", [](Meter&, const Value& v, const Value* a) { return divisible(v, a); }},
    {"lower", [](Meter& m, const Value& v, const Value*) { return same_case(m, v, false); }},
    {"upper", [](Meter& m, const Value& v, const Value*) { return same_case(m, v, true); }},
    {"in",
     [](Meter& m, const Value& v, const Value* a) {
       if (a == nullptr) return Result<bool>(Error::invalid("needs an argument"));
       return contains(m, *a, v);
     }},
    {"eq", equals},
    {"equalto", equals},
    {"ne",
     [](Meter& m, const Value& v, const Value* a) {
       Result<bool> same = equals(m, v, a);
       if (same.ok()) same = !same.value();
       return same;
     }},
    {"lt", [](Meter& m, const Value& v, const Value* a) { return ordered(m, v, a, true, false); }},
    {"lessthan",
     [](Meter& m, const Value& v, const Value* a) { return ordered(m, v, a, true, false); }},
    {"le", [](Meter& m, const Value& v, const Value* a) { return ordered(m, v, a, true, true); }},
    {"gt", [](Meter& m, const Value& v, const Value* a) { return ordered(m, v, a, false, false); }},
    {"greaterthan",
     [](Meter& m, const Value& v, const Value* a) { return ordered(m, v, a, false, false); }},
    {"ge", [](Meter& m, const Value& v, const Value* a) { return ordered(m, v, a, false, true); }},
};

const NamedTest* find_test(std::string_view name) {
  for (const NamedTest& one : kTests) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

}  // namespace

Result<Bound> Bound::bind(const Arguments& arguments,
                          std::initializer_list<std::string_view> parameters) {
  Bound bound;
  bound.names_ = parameters;
  bound.values_.assign(parameters.size(), nullptr);
  REQUIRE(arguments.positional.size() <= parameters.size(),
          "takes at most " + std::to_string(parameters.size()) + " arguments, not " +
              std::to_string(arguments.positional.size()));
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    bound.values_[i] = &arguments.positional[i];
  }
  for (const auto& [name, value] : arguments.named) {
    std::size_t index = 0;
    while (index < bound.names_.size() && bound.names_[index] != name) ++index;
    REQUIRE(index < bound.names_.size(), "has no parameter '" + std::string(name) + "'");
    REQUIRE(bound.values_[index] == nullptr,
            "parameter '" + std::string(name) + "' is given twice");
    bound.values_[index] = &value;
  }
  return bound;
}

Result<std::int64_t> Bound::integer(std::size_t index, std::int64_t fallback) const {
  if (!has(index)) return fallback;
  const auto* whole = std::get_if<std::int64_t>(get(index));
  REQUIRE(whole != nullptr, "parameter '" + std::string(names_[index]) + "' is no integer");
  return *whole;
}

Result<TextPtr> Bound::text(std::size_t index) const {
  REQUIRE(has(index), "parameter '" + std::string(names_[index]) + "' is missing");
  const auto* text = std::get_if<TextPtr>(get(index));
  REQUIRE(text != nullptr, "parameter '" + std::string(names_[index]) + "' is no string");
  return *text;
}

bool filter_exists(std::string_view name) { return find_filter(name) != nullptr; }
bool test_exists(std::string_view name) { return find_test(name) != nullptr; }

Result<Value> apply_filter(Meter& meter, std::string_view name, const Value& input,
                           const Arguments& arguments) {
  const Builtin* filter = find_filter(name);
  if (filter == nullptr) {
    return Error{ErrorCode::kUnsupported, "filter '" + std::string(name) + "' is not supported"};
  }
  return filter->call(meter, input, arguments);
}

Result<bool> apply_test(Meter& meter, std::string_view name, const Value& input,
                        const Arguments& arguments) {
  const NamedTest* test = find_test(name);
  if (test == nullptr) {
    return Error{ErrorCode::kUnsupported, "test '" + std::string(name) + "' is not supported"};
  }
  REQUIRE(arguments.named.empty() && arguments.positional.size() <= 1,
          "test '" + std::string(name) + "' takes at most one argument");
  return test->call(meter, input,
                    arguments.positional.empty() ? nullptr : &arguments.positional[0]);
}

Result<Value> get_item(Meter& meter, const Value& object, const Value& key,
                       const std::string* name) {
  REQUIRE(!is_undefined(object), "an attribute of an undefined value");
  const Value absent = Undefined{name};
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
