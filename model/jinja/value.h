// Values of a template, and the meter that bounds the cost of creating them. A string records which
// of its bytes came from the request; every operation on strings preserves this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace hearth::model::jinja {

// Counts the steps and the bytes of one rendering. Freed memory is not subtracted: the sums bound
// time and memory together. Errors name the limit; the interpreter adds line and construct.
class Meter {
 public:
  // A conversation of more messages may take more steps; at most kMessages of base/limits.h count.
  explicit Meter(std::size_t messages = 0);
  Status steps(std::uint64_t count);
  // Work over this many bytes that creates nothing: searching, comparing, counting.
  Status scan(std::size_t bytes);
  Status create(std::size_t bytes);

 private:
  std::uint64_t steps_max_;
  std::uint64_t work_ = 0;  // in bytes looked at; a step counts as several
  std::uint64_t bytes_ = 0;
};

// Bytes [begin, end) of a text that came from the request.
struct Span {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

struct Text {
  std::string bytes;
  std::vector<Span> user;  // ascending, disjoint, never touching
};
using TextPtr = std::shared_ptr<const Text>;

struct Undefined {
  const std::string* name = nullptr;  // points into the parsed template; for errors
};
struct None {};
enum class Function : std::uint8_t {
  kRange,
  kNamespace,
  kDict,
  kRaiseException,
  kStrftimeNow,
  kLoop
};
struct Macro;  // ast.h; lives as long as the parsed template
struct List;
struct Dict;
struct Namespace;  // owned by Variables, so that no cycle of values can leak

using ListPtr = std::shared_ptr<const List>;
using DictPtr = std::shared_ptr<const Dict>;
using Value = std::variant<Undefined, None, bool, std::int64_t, double, TextPtr, ListPtr, DictPtr,
                           Namespace*, const Macro*, Function>;

struct List {
  std::vector<Value> items;
  std::uint32_t depth = 1;  // of nesting, bounded so that walking a value cannot overflow a stack
  bool tuple = false;
};
struct Dict {
  std::vector<std::pair<Value, Value>> items;  // in order of insertion
  std::uint32_t depth = 1;
};
struct Namespace {
  std::vector<std::pair<std::string, Value>> items;
};

// Appends text with its spans. Beyond a limit it ignores further text, and finish() names the
// limit.
class TextBuilder {
 public:
  explicit TextBuilder(Meter& meter) : meter_(&meter) {}

  void append(std::string_view bytes, bool user = false);
  void append(const Text& text) { append(text, 0, text.bytes.size()); }
  void append(const Text& text, std::size_t begin, std::size_t end);
  std::size_t size() const { return text_.bytes.size(); }
  bool failed() const { return error_ != nullptr; }
  Result<Text> finish_text();
  Result<Value> finish();

 private:
  void mark(std::size_t begin, std::size_t end);

  Meter* meter_;
  Text text_;
  std::unique_ptr<Error> error_;
};

// Whether byte `at` of the text came from the request.
bool is_user(const Text& text, std::size_t at);

Result<Value> make_text(Meter& meter, std::string_view bytes, bool user = false);
Result<Value> make_part(Meter& meter, const Text& text, std::size_t begin, std::size_t end);
Result<Value> make_list(Meter& meter, std::vector<Value> items, bool tuple = false);
// Appends an item. No other value holds the list, so no stored depth becomes wrong.
Status append_item(Meter& meter, List& list, Value item);
// A later value of a key replaces the earlier one at its place; keys must be hashable.
Result<Value> make_dict(Meter& meter, std::vector<std::pair<Value, Value>> items);

// The value of a JSON text; all its strings, keys too, came from the request. kInvalidInput names
// the byte.
Result<Value> value_of_json(Meter& meter, std::string_view text);

bool truthy(const Value& value);
std::string_view type_name(const Value& value);  // Python's, for errors
bool is_undefined(const Value& value);
const Text* as_text(const Value& value);  // null for other types
const List* as_list(const Value& value);
const Dict* as_dict(const Value& value);
// The number that a bool or an integer stands for, and a float too.
std::optional<std::int64_t> whole_of(const Value& value);
std::optional<double> real_of(const Value& value);

Result<bool> equal(Meter& meter, const Value& a, const Value& b);
// Negative, zero or positive; numbers, strings and lists only.
Result<int> compare(Meter& meter, const Value& a, const Value& b);
// Null when absent.
Result<const Value*> find_key(Meter& meter, const Dict& dict, const Value& key);
const Value* find_name(const Namespace& space, std::string_view name);
// `needle in haystack`.
Result<bool> contains(Meter& meter, const Value& haystack, const Value& needle);
// The values that a for loop or a filter visits: items, characters of a string, keys of a dict.
Result<std::vector<Value>> iterate(Meter& meter, const Value& value);

// str(value) and repr(value), as Python writes them.
void append_str(TextBuilder& out, const Value& value);
void append_repr(TextBuilder& out, const Value& value);
Result<Value> to_text(Meter& meter, const Value& value);
std::string float_repr(double value);

}  // namespace hearth::model::jinja
