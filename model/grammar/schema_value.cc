#include "model/grammar/schema_value.h"

#include <algorithm>
#include <iterator>

#include "model/grammar/encoding.h"
#include "model/grammar/numbers.h"

namespace hearth::model {
namespace {

constexpr std::size_t kShapes = 256;

Status check_shapes(const SchemaValue& value) {
  const std::size_t most =
      std::max({value.strings.size(), value.arrays.size(), value.objects.size()});
  REQUIRE_SUPPORTED(most <= kShapes, "the schema has more than ", kShapes,
                    " alternatives of one type");
  return ok_status();
}

Error no_form(std::string_view what) {
  return Error::of(ErrorCode::kUnsupported, "the negation of ", what, " has no grammar here");
}

Result<StringShape> both_strings(const StringShape& a, const StringShape& b, Budget& budget) {
  StringShape out;
  if (a.any && b.any) {
    out.min = std::max(a.min, b.min);
    out.max = std::min(a.max, b.max);
    return out;
  }
  out.any = false;
  TRY(const Dfa left, words_of(a, budget));
  TRY(const Dfa right, words_of(b, budget));
  TRY(out.words, combine(left, right, SetOperation::kBoth, budget));
  return out;
}

bool empty(const StringShape& shape) {
  return shape.any ? shape.min > shape.max : shape.words.empty();
}

Result<ArrayShape> both_arrays(const ArrayShape& a, const ArrayShape& b) {
  ArrayShape out;
  for (std::size_t i = 0; i < std::max(a.prefix.size(), b.prefix.size()); ++i) {
    out.prefix.push_back(joined(a.at(i), b.at(i)));
  }
  out.rest = joined(a.rest, b.rest);
  out.min = std::max(a.min, b.min);
  out.max = std::min(a.max, b.max);
  out.unique = a.unique != nullptr ? a.unique : b.unique;
  REQUIRE_SUPPORTED(!a.contains || !b.contains, "contains in two schemas of one array");
  const ArrayShape& with = a.contains ? a : b;
  out.contains = with.contains;
  out.contained = with.contained;
  out.contains_min = with.contains_min;
  out.contains_max = with.contains_max;
  return out;
}

bool empty(const ArrayShape& shape) {
  if (shape.min > shape.max) return true;
  for (std::size_t i = 0; i < shape.min && i <= shape.prefix.size(); ++i) {
    if (forbids(shape.at(i))) return true;
  }
  return false;
}

ObjectShape both_objects(const ObjectShape& a, const ObjectShape& b) {
  ObjectShape out = a;
  out.rules.insert(out.rules.end(), b.rules.begin(), b.rules.end());
  out.names.insert(out.names.end(), b.names.begin(), b.names.end());
  for (const std::string& name : b.required) {
    if (std::ranges::find(out.required, name) == out.required.end()) out.required.push_back(name);
  }
  out.min = std::max(a.min, b.min);
  out.max = std::min(a.max, b.max);
  if (out.from == nullptr) out.from = b.from;
  return out;
}

bool empty(const ObjectShape& shape) {
  return shape.min > shape.max || shape.required.size() > shape.max ||
         std::ranges::any_of(shape.required,
                             [&](const std::string& name) { return forbids(shape.member(name)); });
}

template <typename Shape>
void keep(std::vector<Shape>& in, Shape shape) {
  if (!empty(shape)) in.push_back(std::move(shape));
}

Result<std::vector<StringShape>> not_strings(const std::vector<StringShape>& of, Budget& budget) {
  std::vector<StringShape> out{{}};
  for (const StringShape& one : of) {
    std::vector<StringShape> parts;
    if (one.any) {
      StringShape shorter;
      shorter.max = one.min - 1;
      if (one.min > 0) parts.push_back(shorter);
      StringShape longer;
      longer.min = one.max + 1;
      if (one.max != kUnbounded) parts.push_back(longer);
    } else {
      StringShape other;
      other.any = false;
      TRY(other.words, complement(one.words, budget));
      parts.push_back(std::move(other));
    }
    std::vector<StringShape> next;
    for (const StringShape& a : out) {
      for (const StringShape& b : parts) {
        TRY(StringShape shape, both_strings(a, b, budget));
        keep(next, std::move(shape));
      }
    }
    out = std::move(next);
  }
  return out;
}

SchemaLiteral opposite(SchemaLiteral literal) {
  literal.negated = !literal.negated;
  return literal;
}

// The arrays that the shape does not allow.
Result<std::vector<ArrayShape>> not_array(const ArrayShape& of) {
  std::vector<ArrayShape> out;
  if (of.unique != nullptr) return no_form("uniqueItems");
  if (of.min > 0) {
    ArrayShape fewer;
    fewer.max = of.min - 1;
    out.push_back(fewer);
  }
  if (of.max != kUnbounded) {
    ArrayShape more;
    more.min = of.max + 1;
    out.push_back(more);
  }
  for (std::size_t i = 0; i < of.prefix.size(); ++i) {
    for (const SchemaLiteral& literal : of.prefix[i]) {
      ArrayShape other;
      other.prefix.assign(i + 1, {});
      other.prefix[i] = {opposite(literal)};
      other.min = static_cast<std::uint32_t>(i + 1);
      out.push_back(std::move(other));
    }
  }
  if (!of.rest.empty() && of.max > of.prefix.size()) {
    if (forbids(of.rest)) {
      ArrayShape more;
      more.min = static_cast<std::uint32_t>(of.prefix.size() + 1);
      out.push_back(std::move(more));
    } else {
      if (!of.prefix.empty()) return no_form("items behind prefixItems");
      for (const SchemaLiteral& literal : of.rest) {
        ArrayShape other;
        other.contains = true;
        other.contained = {opposite(literal)};
        out.push_back(std::move(other));
      }
    }
  }
  if (of.contains) {
    if (of.contained.size() > 1 || of.contains_min > 1 || of.contains_max != kUnbounded) {
      return no_form("contains with counts or several schemas");
    }
    ArrayShape other;
    if (of.contained.empty()) {
      other.max = 0;
    } else {
      other.rest = {opposite(of.contained[0])};
    }
    if (of.contains_min == 1) out.push_back(std::move(other));
  }
  return out;
}

Result<std::vector<ObjectShape>> not_object(const ObjectShape& of) {
  std::vector<ObjectShape> out;
  if (!of.names.empty()) return no_form("propertyNames");
  for (const std::string& name : of.required) {
    ObjectShape without;
    without.rules.push_back({{{name, no_value()}}, {}, {}});
    out.push_back(std::move(without));
  }
  for (const MemberRules& rules : of.rules) {
    if (!rules.patterns.empty()) return no_form("patternProperties");
    if (!rules.others.empty()) return no_form("additionalProperties");
    for (const auto& [name, key] : rules.names) {
      for (const SchemaLiteral& literal : key) {
        ObjectShape other;
        other.rules.push_back({{{name, {opposite(literal)}}}, {}, {}});
        other.required.push_back(name);
        if (forbids(key)) other.rules.clear();
        out.push_back(std::move(other));
      }
    }
  }
  if (of.min > 0) {
    ObjectShape fewer;
    fewer.max = of.min - 1;
    fewer.from = of.from;
    out.push_back(std::move(fewer));
  }
  if (of.max != kUnbounded) {
    ObjectShape more;
    more.min = of.max + 1;
    more.from = of.from;
    out.push_back(std::move(more));
  }
  return out;
}

}  // namespace

SchemaKey joined(const SchemaKey& a, const SchemaKey& b) {
  SchemaKey out;
  std::ranges::set_union(a, b, std::back_inserter(out));
  return out;
}

const SchemaKey& no_value() {
  static const Json kNo{Json::Kind::kFalse, {}, {}, {}};
  static const SchemaKey key{{&kNo, SchemaLiteral::Kind::kMatches, false}};
  return key;
}

bool forbids(const SchemaKey& key) {
  return std::ranges::any_of(key, [](const SchemaLiteral& literal) {
    if (literal.kind != SchemaLiteral::Kind::kMatches) return false;
    const bool whole = literal.of->is(Json::Kind::kTrue) ||
                       (literal.of->is(Json::Kind::kObject) && literal.of->members.empty());
    return literal.negated ? whole : literal.of->is(Json::Kind::kFalse);
  });
}

SchemaKey ObjectShape::member(const std::string& name) const {
  SchemaKey key;
  for (const MemberRules& one : rules) {
    bool named = false;
    for (const auto& [declared, schema] : one.names) {
      if (declared != name) continue;
      named = true;
      key = joined(key, schema);
    }
    const std::u32string points = code_points_of(name);
    for (const auto& [pattern, schema] : one.patterns) {
      if (!accepts(pattern, points)) continue;
      named = true;
      key = joined(key, schema);
    }
    if (!named) key = joined(key, one.others);
  }
  return key;
}

SchemaValue SchemaValue::all() {
  SchemaValue value;
  value.null = value.no = value.yes = value.any_number = true;
  value.strings.emplace_back();
  value.arrays.emplace_back();
  value.objects.emplace_back();
  return value;
}

Result<Dfa> words_of(const StringShape& shape, Budget& budget) {
  if (!shape.any) return shape.words;
  return words_of_length(shape.min, shape.max, shape.max != kUnbounded, budget);
}

Result<SchemaValue> both(const SchemaValue& a, const SchemaValue& b, Budget& budget) {
  SchemaValue out;
  out.null = a.null && b.null;
  out.no = a.no && b.no;
  out.yes = a.yes && b.yes;
  out.any_number = a.any_number && b.any_number;
  if (a.any_number) {
    out.numbers = b.numbers;
  } else if (b.any_number) {
    out.numbers = a.numbers;
  } else {
    TRY(out.numbers, combine(a.numbers, b.numbers, SetOperation::kBoth, budget));
  }
  for (const StringShape& x : a.strings) {
    for (const StringShape& y : b.strings) {
      TRY(StringShape shape, both_strings(x, y, budget));
      keep(out.strings, std::move(shape));
      TRY_VOID(check_shapes(out));
    }
  }
  for (const ArrayShape& x : a.arrays) {
    for (const ArrayShape& y : b.arrays) {
      TRY_VOID(budget.spend(1 + x.prefix.size() + y.prefix.size()));
      TRY(ArrayShape shape, both_arrays(x, y));
      keep(out.arrays, std::move(shape));
      TRY_VOID(check_shapes(out));
    }
  }
  for (const ObjectShape& x : a.objects) {
    for (const ObjectShape& y : b.objects) {
      std::size_t size = 1 + x.required.size() + y.required.size();
      for (const ObjectShape* one : {&x, &y}) {
        for (const MemberRules& rules : one->rules) size += rules.names.size();
      }
      TRY_VOID(budget.spend(size * (1 + x.required.size() + y.required.size())));
      keep(out.objects, both_objects(x, y));
      TRY_VOID(check_shapes(out));
    }
  }
  return out;
}

Result<SchemaValue> either(const SchemaValue& a, const SchemaValue& b, Budget& budget) {
  SchemaValue out = a;
  out.null = a.null || b.null;
  out.no = a.no || b.no;
  out.yes = a.yes || b.yes;
  out.any_number = a.any_number || b.any_number;
  if (out.any_number) {
    out.numbers = {};
  } else {
    TRY(out.numbers, combine(a.numbers, b.numbers, SetOperation::kEither, budget));
  }
  TRY_VOID(budget.spend(1 + b.strings.size() + b.arrays.size() + b.objects.size()));
  // Words of both sides become one automaton, so that hundreds of constants are one shape.
  for (const StringShape& shape : b.strings) {
    const auto words = std::ranges::find_if(out.strings, [](const auto& one) { return !one.any; });
    if (shape.any || words == out.strings.end()) {
      out.strings.push_back(shape);
    } else {
      TRY(words->words, combine(words->words, shape.words, SetOperation::kEither, budget));
    }
  }
  out.arrays.insert(out.arrays.end(), b.arrays.begin(), b.arrays.end());
  out.objects.insert(out.objects.end(), b.objects.begin(), b.objects.end());
  TRY_VOID(check_shapes(out));
  return out;
}

Result<SchemaValue> negated(const SchemaValue& a, Budget& budget) {
  SchemaValue out;
  out.null = !a.null;
  out.no = !a.no;
  out.yes = !a.yes;
  if (!a.any_number) {
    out.any_number = a.numbers.empty();
    if (!out.any_number) {
      TRY(const Dfa all, all_decimals(budget));
      TRY(out.numbers, combine(all, a.numbers, SetOperation::kOnlyFirst, budget));
    }
  }
  TRY(out.strings, not_strings(a.strings, budget));
  SchemaValue rest = SchemaValue::all();
  for (const ArrayShape& one : a.arrays) {
    SchemaValue other = SchemaValue::all();
    TRY(other.arrays, not_array(one));
    TRY(rest, both(rest, other, budget));
  }
  for (const ObjectShape& one : a.objects) {
    SchemaValue other = SchemaValue::all();
    TRY(other.objects, not_object(one));
    TRY(rest, both(rest, other, budget));
  }
  out.arrays = std::move(rest.arrays);
  out.objects = std::move(rest.objects);
  return out;
}

}  // namespace hearth::model
