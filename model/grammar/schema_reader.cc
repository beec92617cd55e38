#include "model/grammar/schema_reader.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "model/grammar/encoding.h"
#include "model/grammar/formats.h"
#include "model/grammar/numbers.h"
#include "model/grammar/regex.h"

namespace hearth::model {
namespace {

using Kind = Json::Kind;

constexpr std::size_t kReadDepth = 128;  // of schemas that say something of one value

Result<std::uint32_t> count_of(const Json& value) {
  REQUIRE(value.is(Kind::kNumber), "must be a number");
  TRY(const Decimal number, parse_decimal(value.text));
  REQUIRE(!number.negative && number.integer(), "must be a whole number from 0 on");
  const std::string text = text_of(number);
  REQUIRE_SUPPORTED(text.size() <= 9, "is too large: a count has at most 9 digits");
  return static_cast<std::uint32_t>(std::stoul(text));
}

bool has_any(const Json& schema, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(names, [&](std::string_view name) { return schema.find(name); });
}

// Keywords that do not constrain a value, and keywords that are read together with another one.
bool is_silent(std::string_view name) {
  static constexpr auto kSilent = std::to_array<std::string_view>({"additionalItems",
                                                                   "additionalProperties",
                                                                   "contains",
                                                                   "else",
                                                                   "items",
                                                                   "maxContains",
                                                                   "maxItems",
                                                                   "maxProperties",
                                                                   "minContains",
                                                                   "minItems",
                                                                   "minProperties",
                                                                   "patternProperties",
                                                                   "prefixItems",
                                                                   "properties",
                                                                   "propertyNames",
                                                                   "required",
                                                                   "then",
                                                                   "uniqueItems",
                                                                   "unevaluatedItems",
                                                                   "unevaluatedProperties"});
  return std::ranges::find(kSilent, name) != kSilent.end();
}

}  // namespace

SchemaReader::SchemaReader(const Json& root, Budget& budget) : root_(root), budget_(budget) {
  if (const Json* version = root.find("$schema"); version != nullptr) {
    draft7_ = version->text.find("draft-07") != std::string::npos ||
              version->text.find("draft-06") != std::string::npos ||
              version->text.find("draft-04") != std::string::npos;
  }
  find_anchors(root, true);
}

// Constants may look like schemas; an anchor that none refers to does no harm.
void SchemaReader::find_anchors(const Json& at, bool top) {
  for (const Json& item : at.items) find_anchors(item, false);
  for (const auto& [name, value] : at.members) {
    if (name == "$anchor" && value.is(Kind::kString)) anchors_.try_emplace(value.text, &at);
    const bool id = name == "$id" && value.is(Kind::kString);
    if (id && draft7_ && value.text.starts_with('#'))
      anchors_.try_emplace(value.text.substr(1), &at);
    if (id && top) anchors_.try_emplace(value.text, &at);
    find_anchors(value, false);
  }
}

SchemaKey SchemaReader::root_key() const { return {{&root_, Literal::Kind::kMatches, false}}; }

bool SchemaReader::pointer_to(const Json& at, const Json* wanted, std::string& pointer) const {
  if (&at == wanted) return true;
  const std::size_t size = pointer.size();
  for (std::size_t i = 0; i < at.items.size(); ++i) {
    pointer += "/" + std::to_string(i);
    if (pointer_to(at.items[i], wanted, pointer)) return true;
    pointer.resize(size);
  }
  for (const auto& [name, value] : at.members) {
    pointer += '/';
    for (const char c : name) pointer += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    if (pointer_to(value, wanted, pointer)) return true;
    pointer.resize(size);
  }
  return false;
}

Error SchemaReader::error_at(const Json* schema, std::string_view keyword,
                             const Error& error) const {
  if (located_) return error;
  located_ = true;
  std::string pointer = "#";
  if (!pointer_to(root_, schema, pointer)) pointer = "#";
  return Error::of(error.code, "JSON schema: ", keyword, ": ", error.message, " (at ", pointer, "/",
                   keyword, ")");
}

Status SchemaReader::check_root() {
  TRY(const SchemaValue* value, value_of(root_key()));
  if (!value->none() || root_emptied_by_.empty()) return ok_status();
  return error_at(&root_, root_emptied_by_,
                  Error::invalid("no value is left, so the grammar allows no text at all"));
}

Result<const Json*> SchemaReader::resolve(std::string_view reference) const {
  std::string text(reference);
  const Json* at = &root_;
  const std::size_t hash = text.find('#');
  const std::string base = text.substr(0, hash);
  REQUIRE_SUPPORTED(base.empty() || anchors_.contains(base), "a reference to another document, ",
                    text);
  if (!base.empty()) at = anchors_.at(base);
  std::string fragment = hash == std::string::npos ? "" : text.substr(hash + 1);
  if (fragment.empty()) return at;
  std::string plain;
  for (std::size_t i = 0; i < fragment.size(); ++i) {
    const bool coded = fragment[i] == '%' && i + 2 < fragment.size() &&
                       std::isxdigit(static_cast<unsigned char>(fragment[i + 1])) != 0 &&
                       std::isxdigit(static_cast<unsigned char>(fragment[i + 2])) != 0;
    plain +=
        coded ? static_cast<char>(std::stoi(fragment.substr(i + 1, 2), nullptr, 16)) : fragment[i];
    if (coded) i += 2;
  }
  if (!plain.starts_with('/')) {
    const auto found = anchors_.find(plain);
    REQUIRE(found != anchors_.end(), "there is no anchor ", plain);
    return found->second;
  }
  for (std::size_t begin = 1; begin <= plain.size();) {
    const std::size_t end = std::min(plain.find('/', begin), plain.size());
    std::string name = plain.substr(begin, end - begin);
    for (std::size_t i = 0; (i = name.find('~', i)) != std::string::npos; ++i) {
      name.replace(i, 2, name.compare(i, 2, "~1") == 0 ? "/" : "~");
    }
    const Json* next = at->find(name);
    if (at->is(Kind::kArray) && !name.empty() && name.size() < 6 &&
        name.find_first_not_of("0123456789") == std::string::npos &&
        std::stoul(name) < at->items.size()) {
      next = &at->items[std::stoul(name)];
    }
    REQUIRE(next != nullptr, "the reference ", text, " leads nowhere");
    at = next;
    begin = end + 1;
  }
  return at;
}

Result<SchemaKey> SchemaReader::key_of(const Json& schema) const {
  REQUIRE(schema.is_bool() || schema.is(Kind::kObject), "a schema must be an object or a boolean");
  if (schema.is(Kind::kTrue) || (schema.is(Kind::kObject) && schema.members.empty())) {
    return SchemaKey{};
  }
  if (schema.is(Kind::kFalse)) return no_value();
  return SchemaKey{{&schema, Literal::Kind::kMatches, false}};
}

Status SchemaReader::meet(SchemaValue& out, const SchemaValue& with) {
  TRY(out, both(out, with, budget_));
  return ok_status();
}

Result<const SchemaValue*> SchemaReader::value_of(const SchemaKey& key) {
  if (const auto found = values_.find(key); found != values_.end()) return found->second.get();
  SchemaValue value = SchemaValue::all();
  for (const Literal& literal : key) {
    if (!read_.contains(literal)) {
      TRY(SchemaValue one, read(literal));
      read_[literal] = std::make_unique<SchemaValue>(std::move(one));
    }
    const auto met = meet(value, *read_.at(literal));
    if (!met.ok()) return error_at(literal.of, "allOf", met.error());
  }
  return (values_[key] = std::make_unique<SchemaValue>(std::move(value))).get();
}

Result<SchemaValue> SchemaReader::read(const Literal& literal) {
  TRY_VOID(budget_.spend(16));
  REQUIRE_SUPPORTED(under_way_.size() < kReadDepth, "JSON schema: more than ", kReadDepth,
                    " schemas refer to each other for one value");
  if (std::ranges::find(under_way_, literal) != under_way_.end()) {
    return error_at(literal.of, "$ref", Error::invalid("a schema refers to itself for one value"));
  }
  if (literal.negated) {
    Literal plain = literal;
    plain.negated = false;
    TRY(const SchemaValue* value, value_of({plain}));
    auto out = hearth::model::negated(*value, budget_);
    if (!out.ok()) return error_at(literal.of, "not", out.error());
    return out;
  }
  under_way_.push_back(literal);
  auto out = literal.kind == Literal::Kind::kEquals ? read_constant(*literal.of)
                                                    : read_schema(*literal.of);
  under_way_.pop_back();
  return out;
}

Result<SchemaValue> SchemaReader::read_constant(const Json& constant) {
  SchemaValue out;
  switch (constant.kind) {
    case Kind::kNull: out.null = true; break;
    case Kind::kFalse: out.no = true; break;
    case Kind::kTrue: out.yes = true; break;
    case Kind::kNumber: {
      TRY(const Decimal number, parse_decimal(constant.text));
      out.numbers = word(code_points_of(text_of(number)));
      break;
    }
    case Kind::kString: {
      StringShape shape;
      shape.any = false;
      shape.words = word(code_points_of(constant.text));
      TRY_VOID(budget_.spend(shape.words.states.size()));
      out.strings.push_back(std::move(shape));
      break;
    }
    case Kind::kArray: {
      ArrayShape shape;
      for (const Json& item : constant.items) {
        shape.prefix.push_back({{&item, Literal::Kind::kEquals, false}});
      }
      shape.min = shape.max = static_cast<std::uint32_t>(constant.items.size());
      out.arrays.push_back(std::move(shape));
      break;
    }
    case Kind::kObject: {
      ObjectShape shape;
      MemberRules rules;
      rules.others = no_value();
      for (const auto& [name, value] : constant.members) {
        rules.names.push_back({name, {{&value, Literal::Kind::kEquals, false}}});
        shape.required.push_back(name);
      }
      shape.rules.push_back(std::move(rules));
      out.objects.push_back(std::move(shape));
      break;
    }
  }
  return out;
}

Result<SchemaValue> SchemaReader::read_schema(const Json& schema) {
  if (schema.is(Kind::kTrue)) return SchemaValue::all();
  if (schema.is(Kind::kFalse)) return SchemaValue{};
  REQUIRE(schema.is(Kind::kObject), "JSON schema: a schema must be an object or a boolean");
  SchemaValue out = SchemaValue::all();
  const bool alone = draft7_ && schema.find("$ref") != nullptr;
  for (const auto& [name, value] : schema.members) {
    if (alone && name != "$ref") continue;
    const auto applied = apply_keyword(schema, name, value, out);
    if (!applied.ok()) return error_at(&schema, name, applied.error());
    if (&schema == &root_ && root_emptied_by_.empty() && out.none()) root_emptied_by_ = name;
  }
  if (alone) return out;
  TRY_VOID(apply_arrays(schema, out));
  TRY_VOID(apply_objects(schema, out));
  return out;
}

Status SchemaReader::apply_keyword(const Json& schema, std::string_view name, const Json& value,
                                   SchemaValue& out) {
  static constexpr auto kUnserved = std::to_array<std::string_view>(
      {"$dynamicRef", "$recursiveRef", "extends", "disallow", "divisibleBy"});
  if (is_silent(name)) return ok_status();
  REQUIRE_SUPPORTED(name != "$schema" || value.text.find("json-schema.org/") != std::string::npos,
                    "names no draft of json-schema.org");
  REQUIRE_SUPPORTED(std::ranges::find(kUnserved, name) == kUnserved.end(), "is not supported");
  REQUIRE_SUPPORTED(name != "$id" || &schema == &root_ || (draft7_ && value.text.starts_with('#')),
                    "is supported in the root alone");
  TRY(bool known, apply_logic(schema, name, value, out));
  if (known) return ok_status();
  TRY(known, apply_dependency(schema, name, value, out));
  if (known) return ok_status();
  // Names that are not keywords have no effect.
  TRY(known, apply_scalar(name, value, out));
  return ok_status();
}

Result<bool> SchemaReader::apply_logic(const Json& schema, std::string_view name, const Json& value,
                                       SchemaValue& out) {
  if (name == "$ref") {
    REQUIRE(value.is(Kind::kString), "must be a string");
    TRY(const Json* target, resolve(value.text));
    TRY(const SchemaKey key, key_of(*target));
    TRY(const SchemaValue* with, value_of(key));
    TRY_VOID(meet(out, *with));
  } else if (name == "allOf") {
    REQUIRE(value.is(Kind::kArray) && !value.items.empty(), "must be a list of schemas");
    for (const Json& part : value.items) {
      TRY(const SchemaKey key, key_of(part));
      TRY(const SchemaValue* with, value_of(key));
      TRY_VOID(meet(out, *with));
    }
  } else if (name == "anyOf" || name == "oneOf") {
    REQUIRE(value.is(Kind::kArray) && !value.items.empty(), "must be a list of schemas");
    TRY(const SchemaValue with, name == "anyOf" ? any_of(value) : one_of(value));
    TRY_VOID(meet(out, with));
  } else if (name == "not") {
    TRY(const SchemaKey key, key_of(value));
    SchemaValue with;
    if (!key.empty()) {
      Literal literal = key[0];
      literal.negated = true;
      TRY(const SchemaValue* other, value_of({literal}));
      with = *other;
    }
    TRY_VOID(meet(out, with));
  } else if (name == "if") {
    if (!has_any(schema, {"then", "else"})) return true;
    TRY(const SchemaValue with, if_then_else(schema));
    TRY_VOID(meet(out, with));
  } else {
    return false;
  }
  return true;
}

Result<SchemaValue> SchemaReader::any_of(const Json& list) {
  SchemaValue out;
  for (const Json& part : list.items) {
    TRY(const SchemaKey key, key_of(part));
    TRY(const SchemaValue* value, value_of(key));
    TRY(out, either(out, *value, budget_));
  }
  return out;
}

// The union if no value matches two of them; otherwise the values that match exactly one.
Result<SchemaValue> SchemaReader::one_of(const Json& list) {
  std::vector<const SchemaValue*> values;
  for (const Json& part : list.items) {
    TRY(const SchemaKey key, key_of(part));
    TRY(const SchemaValue* value, value_of(key));
    values.push_back(value);
  }
  SchemaValue out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    SchemaValue one = *values[i];
    for (std::size_t j = 0; j < values.size(); ++j) {
      if (i == j) continue;
      TRY(const SchemaValue shared, both(one, *values[j], budget_));
      TRY(const bool apart, surely_none(shared, 4));
      if (apart) continue;
      TRY(const SchemaValue other, hearth::model::negated(*values[j], budget_));
      TRY(one, both(one, other, budget_));
    }
    TRY(out, either(out, one, budget_));
  }
  return out;
}

Result<SchemaValue> SchemaReader::if_then_else(const Json& schema) {
  const auto side = [&](std::string_view name) -> Result<SchemaKey> {
    const Json* part = schema.find(name);
    if (part == nullptr) return SchemaKey{};
    return key_of(*part);
  };
  TRY(const SchemaKey condition, side("if"));
  TRY(const SchemaKey then_key, side("then"));
  TRY(const SchemaKey else_key, side("else"));
  TRY(const SchemaValue* yes, value_of(joined(condition, then_key)));
  if (condition.empty()) return *yes;
  Literal literal = condition[0];
  literal.negated = !literal.negated;
  TRY(const SchemaValue* no, value_of(joined({literal}, else_key)));
  return either(*yes, *no, budget_);
}

Result<SchemaValue> SchemaReader::typed(const Json& type) {
  SchemaValue out;
  const auto add = [&](const Json& name) -> Status {
    REQUIRE(name.is(Kind::kString), "must be a type's name or a list of them");
    SchemaValue one;
    const SchemaValue all = SchemaValue::all();
    const std::string& text = name.text;
    if (text == "null") {
      one.null = true;
    } else if (text == "boolean") {
      one.no = one.yes = true;
    } else if (text == "number") {
      one.any_number = true;
    } else if (text == "integer") {
      TRY(one.numbers, all_integers(budget_));
    } else if (text == "string") {
      one.strings = all.strings;
    } else if (text == "array") {
      one.arrays = all.arrays;
    } else if (text == "object") {
      one.objects = all.objects;
    } else {
      return Error::invalid("there is no type ", text);
    }
    TRY(out, either(out, one, budget_));
    return ok_status();
  };
  if (!type.is(Kind::kArray)) {
    TRY_VOID(add(type));
    return out;
  }
  REQUIRE(!type.items.empty(), "must name a type");
  for (const Json& name : type.items) TRY_VOID(add(name));
  return out;
}

Result<bool> SchemaReader::apply_scalar(std::string_view name, const Json& value,
                                        SchemaValue& out) {
  SchemaValue with = SchemaValue::all();
  const auto bound = [&](Bound kind) -> Status {
    REQUIRE(value.is(Kind::kNumber), "must be a number");
    TRY(const Decimal by, parse_decimal(value.text));
    with.any_number = false;
    TRY(with.numbers, numbers_bounded(kind, by, budget_));
    return ok_status();
  };
  const auto words = [&](Dfa dfa) {
    with.strings[0].any = false;
    with.strings[0].words = std::move(dfa);
    if (with.strings[0].words.empty()) with.strings.clear();
  };
  if (name == "type") {
    TRY(with, typed(value));
  } else if (name == "const") {
    TRY(with, read_constant(value));
  } else if (name == "enum") {
    REQUIRE(value.is(Kind::kArray), "must be a list of values");
    with = {};
    for (const Json& one : value.items) {
      TRY(const SchemaValue constant, read_constant(one));
      TRY(with, either(with, constant, budget_));
    }
  } else if (name == "minimum") {
    TRY_VOID(bound(Bound::kAtLeast));
  } else if (name == "maximum") {
    TRY_VOID(bound(Bound::kAtMost));
  } else if (name == "exclusiveMinimum") {
    TRY_VOID(bound(Bound::kAbove));
  } else if (name == "exclusiveMaximum") {
    TRY_VOID(bound(Bound::kBelow));
  } else if (name == "multipleOf") {
    REQUIRE(value.is(Kind::kNumber), "must be a number");
    TRY(Decimal by, parse_decimal(value.text));
    REQUIRE(!by.negative && !by.digits.empty(), "must be above 0");
    with.any_number = false;
    TRY(with.numbers, multiples_of(by, budget_));
  } else if (name == "minLength") {
    TRY(with.strings[0].min, count_of(value));
  } else if (name == "maxLength") {
    TRY(with.strings[0].max, count_of(value));
  } else if (name == "pattern") {
    REQUIRE(value.is(Kind::kString), "must be a string");
    TRY(Dfa dfa, regex_automaton(value.text, RegexMatch::kSearch, budget_));
    words(std::move(dfa));
  } else if (name == "format") {
    REQUIRE(value.is(Kind::kString), "must be a string");
    const std::string_view regex = regex_of_format(value.text);
    if (regex.empty()) {
      REQUIRE_SUPPORTED(!is_unserved_format(value.text), "the format ", value.text,
                        " is not supported");
      return true;
    }
    TRY(Dfa dfa, regex_automaton(regex, RegexMatch::kWhole, budget_));
    words(std::move(dfa));
  } else {
    return false;
  }
  TRY_VOID(meet(out, with));
  return true;
}

Result<bool> SchemaReader::apply_dependency(const Json&, std::string_view name, const Json& value,
                                            SchemaValue& out) {
  const bool any = name == "dependencies";
  if (!any && name != "dependentRequired" && name != "dependentSchemas") return false;
  REQUIRE(value.is(Kind::kObject), "must be an object");
  for (const auto& [member, then] : value.members) {
    SchemaValue without = SchemaValue::all();
    without.objects[0].rules.push_back({{{member, no_value()}}, {}, {}});
    SchemaValue with = SchemaValue::all();
    with.null = with.no = with.yes = with.any_number = false;
    with.strings.clear();
    with.arrays.clear();
    with.objects[0].required.push_back(member);
    if (then.is(Kind::kArray) && name != "dependentSchemas") {
      for (const Json& other : then.items) {
        REQUIRE(other.is(Kind::kString), "must list names");
        if (other.text != member) with.objects[0].required.push_back(other.text);
      }
    } else {
      REQUIRE(name != "dependentRequired", "must list names");
      TRY(const SchemaKey key, key_of(then));
      TRY(const SchemaValue* schema, value_of(key));
      TRY_VOID(meet(with, *schema));
    }
    TRY(const SchemaValue either_way, either(without, with, budget_));
    TRY_VOID(meet(out, either_way));
  }
  return true;
}

Status SchemaReader::on_keyword(const Json& schema, std::string_view keyword,
                                const std::function<Status(const Json&)>& take) {
  const Json* value = schema.find(keyword);
  if (value == nullptr) return ok_status();
  const Status taken = take(*value);
  if (!taken.ok()) return error_at(&schema, keyword, taken.error());
  return ok_status();
}

Status SchemaReader::read_counts(
    const Json& schema, std::initializer_list<std::pair<std::string_view, std::uint32_t*>> counts) {
  for (const auto& [keyword, count] : counts) {
    TRY_VOID(on_keyword(schema, keyword, [&, to = count](const Json& value) -> Status {
      TRY(*to, count_of(value));
      return ok_status();
    }));
  }
  return ok_status();
}

Status SchemaReader::apply_arrays(const Json& schema, SchemaValue& out) {
  if (!has_any(schema, {"items", "prefixItems", "additionalItems", "minItems", "maxItems",
                        "contains", "uniqueItems", "unevaluatedItems"})) {
    return ok_status();
  }
  ArrayShape shape;
  const auto with = [&](std::string_view keyword, auto&& take) {
    return on_keyword(schema, keyword, take);
  };
  const auto list = [&](const Json& value) -> Status {
    REQUIRE(value.is(Kind::kArray), "must be a list of schemas");
    for (const Json& item : value.items) {
      TRY(SchemaKey key, key_of(item));
      shape.prefix.push_back(std::move(key));
    }
    return ok_status();
  };
  const auto rest = [&](const Json& value) -> Status {
    TRY(shape.rest, key_of(value));
    return ok_status();
  };
  TRY_VOID(with("prefixItems", list));
  const Json* items = schema.find("items");
  const bool tuple = items != nullptr && items->is(Kind::kArray);
  TRY_VOID(with("items", [&](const Json& value) { return tuple ? list(value) : rest(value); }));
  if (tuple) TRY_VOID(with("additionalItems", rest));
  TRY_VOID(with("unevaluatedItems", [&](const Json& value) -> Status {
    const bool plain = !has_any(
        schema, {"$ref", "allOf", "anyOf", "oneOf", "if", "contains", "not", "dependentSchemas"});
    REQUIRE_SUPPORTED(plain || value.is(Kind::kTrue), "beside keywords that apply other schemas");
    if (items == nullptr) TRY_VOID(rest(value));
    return ok_status();
  }));
  TRY_VOID(read_counts(schema, {{"minItems", &shape.min}, {"maxItems", &shape.max}}));
  TRY_VOID(with("contains", [&](const Json& value) -> Status {
    shape.contains = true;
    TRY(shape.contained, key_of(value));
    return ok_status();
  }));
  if (shape.contains) {
    TRY_VOID(read_counts(
        schema, {{"minContains", &shape.contains_min}, {"maxContains", &shape.contains_max}}));
    shape.contains = shape.contains_min > 0 || shape.contains_max != kUnbounded;
  }
  TRY_VOID(with("uniqueItems", [&](const Json& value) -> Status {
    REQUIRE(value.is_bool(), "must be a boolean");
    if (value.is(Kind::kTrue)) shape.unique = &schema;
    return ok_status();
  }));
  SchemaValue value = SchemaValue::all();
  value.arrays = {std::move(shape)};
  const Status met = meet(out, value);
  if (!met.ok()) return error_at(&schema, "items", met.error());
  return ok_status();
}

Status SchemaReader::read_members(const Json& schema, MemberRules& rules) {
  const auto with = [&](std::string_view keyword, auto&& take) {
    return on_keyword(schema, keyword, take);
  };
  TRY_VOID(with("properties", [&](const Json& value) -> Status {
    REQUIRE(value.is(Kind::kObject), "must be an object");
    for (const auto& [name, part] : value.members) {
      TRY(SchemaKey key, key_of(part));
      rules.names.emplace_back(name, std::move(key));
    }
    return ok_status();
  }));
  TRY_VOID(with("patternProperties", [&](const Json& value) -> Status {
    REQUIRE(value.is(Kind::kObject), "must be an object");
    for (const auto& [pattern, part] : value.members) {
      TRY(Dfa dfa, regex_automaton(pattern, RegexMatch::kSearch, budget_));
      TRY(SchemaKey key, key_of(part));
      rules.patterns.emplace_back(std::move(dfa), std::move(key));
    }
    return ok_status();
  }));
  TRY_VOID(with("additionalProperties", [&](const Json& value) -> Status {
    TRY(rules.others, key_of(value));
    return ok_status();
  }));
  return with("unevaluatedProperties", [&](const Json& value) -> Status {
    const bool plain =
        !has_any(schema, {"$ref", "allOf", "anyOf", "oneOf", "if", "not", "dependentSchemas"});
    REQUIRE_SUPPORTED(plain || value.is(Kind::kTrue), "beside keywords that apply other schemas");
    if (schema.find("additionalProperties") == nullptr) {
      TRY(rules.others, key_of(value));
    }
    return ok_status();
  });
}

Status SchemaReader::apply_objects(const Json& schema, SchemaValue& out) {
  if (!has_any(schema,
               {"properties", "patternProperties", "additionalProperties", "required",
                "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties"})) {
    return ok_status();
  }
  ObjectShape shape;
  MemberRules rules;
  const auto with = [&](std::string_view keyword, auto&& take) {
    return on_keyword(schema, keyword, take);
  };
  TRY_VOID(read_members(schema, rules));
  TRY_VOID(with("required", [&](const Json& value) -> Status {
    REQUIRE(value.is(Kind::kArray), "must be a list of names");
    for (const Json& name : value.items) {
      REQUIRE(name.is(Kind::kString), "must be a list of names");
      if (std::ranges::find(shape.required, name.text) == shape.required.end()) {
        shape.required.push_back(name.text);
      }
    }
    return ok_status();
  }));
  TRY_VOID(with("propertyNames", [&](const Json& value) -> Status {
    TRY(SchemaKey key, key_of(value));
    if (!key.empty()) shape.names.push_back(std::move(key));
    return ok_status();
  }));
  TRY_VOID(read_counts(schema, {{"minProperties", &shape.min}, {"maxProperties", &shape.max}}));
  if (shape.min > 0 || shape.max != kUnbounded) shape.from = &schema;
  const bool silent = rules.names.empty() && rules.patterns.empty() && rules.others.empty();
  if (!silent) shape.rules.push_back(std::move(rules));
  SchemaValue value = SchemaValue::all();
  value.objects = {std::move(shape)};
  const Status met = meet(out, value);
  if (!met.ok()) return error_at(&schema, "properties", met.error());
  return ok_status();
}

Result<bool> SchemaReader::shape_surely_none(const SchemaKey& key, std::uint32_t depth) {
  if (key.empty()) return false;
  if (forbids(key)) return true;
  if (depth == 0) return false;
  TRY_VOID(budget_.spend(1));
  // A schema that is being read has no value yet.
  for (const Literal& literal : key) {
    Literal plain = literal;
    plain.negated = false;
    if (std::ranges::find(under_way_, plain) != under_way_.end()) return false;
  }
  TRY(const SchemaValue* value, value_of(key));
  return surely_none(*value, depth - 1);
}

Result<bool> SchemaReader::surely_none(const SchemaValue& value, std::uint32_t depth) {
  if (value.null || value.no || value.yes || value.has_numbers() || !value.strings.empty()) {
    return false;
  }
  for (const ArrayShape& shape : value.arrays) {
    bool none = false;
    for (std::size_t i = 0; i < shape.min && i <= shape.prefix.size() && !none; ++i) {
      TRY(none, shape_surely_none(shape.at(i), depth));
    }
    if (!none) return false;
  }
  for (const ObjectShape& shape : value.objects) {
    bool none = false;
    for (const std::string& name : shape.required) {
      if (none) break;
      TRY(none, shape_surely_none(shape.member(name), depth));
    }
    if (!none) return false;
  }
  return true;
}

}  // namespace hearth::model
