// The values that a JSON Schema allows, by type, in a form with set operations. Schemas of members
// and elements are kept as names (SchemaKey), so that recursive schemas end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/grammar/automaton.h"
#include "model/grammar/json_text.h"

namespace hearth::model {

inline constexpr std::uint32_t kUnbounded = 0xFFFFFFFF;

// One condition on a value: to match a schema or not to, to equal a constant or not to.
struct SchemaLiteral {
  enum class Kind : std::uint8_t { kMatches, kEquals };
  const Json* of = nullptr;
  Kind kind = Kind::kMatches;
  bool negated = false;
  friend auto operator<=>(const SchemaLiteral&, const SchemaLiteral&) = default;
};
// All conditions at once: sorted, each once. Empty: any value.
using SchemaKey = std::vector<SchemaLiteral>;
SchemaKey joined(const SchemaKey& a, const SchemaKey& b);
// The key that no value matches, and whether a key obviously is that one.
const SchemaKey& no_value();
bool forbids(const SchemaKey& key);

struct StringShape {
  bool any = true;  // of these lengths; else the words, whose lengths are in the automaton
  Dfa words;
  std::uint32_t min = 0;  // code points
  std::uint32_t max = kUnbounded;
};

struct ArrayShape {
  std::vector<SchemaKey> prefix;
  SchemaKey rest;
  std::uint32_t min = 0;
  std::uint32_t max = kUnbounded;
  bool contains = false;  // from contains_min to contains_max elements match contained
  SchemaKey contained;
  std::uint32_t contains_min = 1;
  std::uint32_t contains_max = kUnbounded;
  const Json* unique = nullptr;  // the schema that asks for it

  const SchemaKey& at(std::size_t i) const { return i < prefix.size() ? prefix[i] : rest; }
};

// The rules of one schema for members: by name, by pattern, and for all others.
struct MemberRules {
  std::vector<std::pair<std::string, SchemaKey>> names;
  std::vector<std::pair<Dfa, SchemaKey>> patterns;
  SchemaKey others;
};

struct ObjectShape {
  std::vector<MemberRules> rules;  // all hold
  std::vector<std::string> required;
  std::vector<SchemaKey> names;  // all names match, as strings
  std::uint32_t min = 0;
  std::uint32_t max = kUnbounded;
  const Json* from = nullptr;  // the schema that counts, for errors

  SchemaKey member(const std::string& name) const;
};

// Lists are unions. Numbers are texts of numbers.h.
struct SchemaValue {
  bool null = false;
  bool no = false;   // false
  bool yes = false;  // true
  bool any_number = false;
  Dfa numbers;
  std::vector<StringShape> strings;
  std::vector<ArrayShape> arrays;
  std::vector<ObjectShape> objects;

  static SchemaValue all();
  bool has_numbers() const { return any_number || !numbers.empty(); }
  // Judged by the form only: other shapes may also have no value.
  bool none() const {
    return !null && !no && !yes && !has_numbers() && strings.empty() && arrays.empty() &&
           objects.empty();
  }
};

// kUnsupported where the result has no form here; the caller adds the keyword and its place.
Result<SchemaValue> both(const SchemaValue& a, const SchemaValue& b, Budget& budget);
Result<SchemaValue> either(const SchemaValue& a, const SchemaValue& b, Budget& budget);
Result<SchemaValue> negated(const SchemaValue& a, Budget& budget);
Result<Dfa> words_of(const StringShape& shape, Budget& budget);

}  // namespace hearth::model
