// Filters, tests and methods of the subset. Errors say what was wrong; the interpreter puts line
// and construct before them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/jinja/value.h"

namespace hearth::model::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
};

// The arguments of a call in the order of its parameters; null where one is not given.
class Bound {
 public:
  static Result<Bound> bind(const Arguments& arguments,
                            std::initializer_list<std::string_view> parameters);
  const Value* get(std::size_t index) const { return values_[index]; }
  bool has(std::size_t index) const { return values_[index] != nullptr; }
  bool flag(std::size_t index, bool fallback) const {
    return has(index) ? truthy(*values_[index]) : fallback;
  }
  Result<std::int64_t> integer(std::size_t index, std::int64_t fallback) const;
  // A string; the error names the parameter.
  Result<TextPtr> text(std::size_t index) const;

 private:
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
};

using BuiltinFunction = Result<Value> (*)(Meter&, const Value&, const Arguments&);
struct Builtin {
  std::string_view name;
  BuiltinFunction call;
};

bool filter_exists(std::string_view name);
bool test_exists(std::string_view name);
Result<Value> apply_filter(Meter& meter, std::string_view name, const Value& input,
                           const Arguments& arguments);
Result<bool> apply_test(Meter& meter, std::string_view name, const Value& input,
                        const Arguments& arguments);

// Whether Python's type of this value has a method of this name, of the subset or not.
bool is_method(const Value& object, std::string_view name);
Result<Value> call_method(Meter& meter, const Value& object, std::string_view name,
                          const Arguments& arguments);

// object[key]: undefined when there is none. `name` (may be null) is for later errors.
Result<Value> get_item(Meter& meter, const Value& object, const Value& key,
                       const std::string* name);
// json.dumps(value, ensure_ascii, indent, separators, sort_keys), as Hugging Face's tojson.
Result<Value> filter_tojson(Meter& meter, const Value& input, const Arguments& arguments);

// Filters that work on strings, and those that work on lists (tables end with an empty name).
const Builtin* text_filters();
const Builtin* list_filters();

// Shared by filters and methods.
Result<Value> strip(Meter& meter, const Text& text, const Value* characters, bool left, bool right);
Result<Value> replace(Meter& meter, const Text& text, const Text& old, const Text& with,
                      std::int64_t count);
Result<Value> change_case(Meter& meter, const Text& text,
                          void (*change)(std::string&, std::uint32_t));
Result<Value> capitalize(Meter& meter, const Text& text);
Result<Value> join(Meter& meter, const Value& items, const Text& separator);

// The local calendar is UTC. Directives: a A b B d e H I j m M p S y Y and %, with '-' for no
// padding.
Result<std::string> format_time(std::string_view format, std::int64_t unix_seconds);

}  // namespace hearth::model::jinja
