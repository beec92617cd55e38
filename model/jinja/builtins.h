// Filters, tests and methods of the subset. The interpreter prefixes their errors with line and
// construct.
#pragma once

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
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

// The names of a function's parameters, empty ones last; "*": any arguments, which it reads itself.
using Parameters = std::array<std::string_view, 4>;

// The arguments of a call in the order of its parameters; null where one is not given.
class Bound {
 public:
  static Result<Bound> bind(const Arguments& arguments, const Parameters& parameters);
  const Value* get(std::size_t index) const { return values_[index]; }
  bool has(std::size_t index) const { return values_[index] != nullptr; }
  // Given, and not as none.
  bool has_value(std::size_t index) const {
    return has(index) && !std::holds_alternative<None>(*values_[index]);
  }
  bool flag(std::size_t index) const { return has(index) && truthy(*values_[index]); }
  Result<std::int64_t> integer(std::size_t index, std::int64_t fallback) const;
  // A string; the error names the parameter.
  Result<TextPtr> text(std::size_t index) const;
  const Arguments& all() const { return *all_; }

 private:
  Parameters names_{};
  std::array<const Value*, 4> values_{};
  const Arguments* all_ = nullptr;
};

// A filter or method.
struct Builtin {
  std::string_view name;
  Result<Value> (*call)(Meter& meter, const Value& input, const Bound& bound);
  Parameters parameters = {};
};

// The row of a table with this name, or null.
template <typename Rows>
constexpr auto find_named(const Rows& rows, std::string_view name) -> decltype(std::data(rows)) {
  const auto row = std::find_if(std::begin(rows), std::end(rows),
                                [name](const auto& one) { return one.name == name; });
  return row == std::end(rows) ? nullptr : &*row;
}

Result<Value> apply_filter(Meter& meter, std::string_view name, const Value& input,
                           const Arguments& arguments);
Result<bool> apply_test(Meter& meter, std::string_view name, const Value& input,
                        const Arguments& arguments);

// Whether Python's type of this value has a method of this name, inside or outside of the subset.
bool is_method(const Value& object, std::string_view name);
Result<Value> call_method(Meter& meter, const Value& object, std::string_view name,
                          const Arguments& arguments);

// object[key]: undefined when the object has no such key. `name` (may be null) is for later errors.
Result<Value> get_item(Meter& meter, const Value& object, const Value& key,
                       const std::string* name);
// json.dumps(value, ensure_ascii, indent, separators, sort_keys), as Hugging Face's tojson.
Result<Value> filter_tojson(Meter& meter, const Value& input, const Bound& bound);

// Filters that work on strings, and those that work on lists.
std::span<const Builtin> text_filters();
std::span<const Builtin> list_filters();

// Shared by filters and methods.
Result<Value> replace(Meter& meter, const Text& text, const Text& old, const Text& with,
                      std::int64_t count);
// Words begin with an upper case letter and continue in lower case; `ends_word`: the characters
// between words. `apart`: the rest of each word is converted as a separate text.
Result<Value> title(Meter& meter, const Text& text, bool apart,
                    bool (*ends_word)(std::uint32_t code));
Result<Value> join(Meter& meter, const Value& items, const Text& separator);

// The local calendar is UTC. Directives: those of strftime in the C locale without zones (z, Z) and
// white space (n, t), with '-' for no padding.
Result<std::string> format_time(std::string_view format, std::int64_t unix_seconds);

}  // namespace hearth::model::jinja
