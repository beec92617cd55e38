// Methods of strings, dicts and lists.
#include <algorithm>

#include "model/jinja/builtins.h"
#include "model/jinja/text.h"

namespace hearth::model::jinja {
namespace {

// Converts from text[from] on; the text before it counts as context.
Result<Value> change_case(Meter& meter, const Text& text, bool upper, std::size_t from = 0) {
  TextBuilder out(meter);
  std::string run;  // bytes of one provenance, to append few times
  bool user = false;
  for (std::size_t at = from; at < text.bytes.size() && !out.failed();) {
    const Character one = character_at(text.bytes, at);
    const bool now = is_user(text, at);
    if (now != user || run.size() > 256) {
      out.append(run, user);
      run.clear();
      user = now;
    }
    if (one.code == kBrokenCharacter) {
      run += text.bytes[at];
    } else if (upper) {
      append_upper(run, one.code);
    } else {
      append_lower_at(run, text.bytes, at);
    }
    at += one.length;
  }
  out.append(run, user);
  return out.finish();
}

template <bool kLeft, bool kRight>
Result<Value> method_strip(Meter& meter, const Value& object, const Bound& bound) {
  const Text& text = *as_text(object);
  Range range;
  std::size_t compared = 1;  // for each byte that goes
  if (!bound.has_value(0)) {
    range = strip_space(text.bytes, kLeft, kRight);
  } else {
    const Text* set = as_text(*bound.get(0));
    REQUIRE(set != nullptr, "the characters to strip are no string");
    REQUIRE(set->bytes.size() <= 64, "the characters to strip are over the limit of 64 bytes");
    compared += set->bytes.size();
    range = strip_characters(text.bytes, set->bytes, kLeft, kRight);
  }
  TRY_VOID(meter.scan((text.bytes.size() - (range.end - range.begin)) * compared));
  return make_part(meter, text, range.begin, range.end);
}

template <bool kUpper>
Result<Value> method_case(Meter& meter, const Value& object, const Bound&) {
  return change_case(meter, *as_text(object), kUpper);
}

Result<Value> method_capitalize(Meter& meter, const Value& object, const Bound&) {
  const Text& text = *as_text(object);
  if (text.bytes.empty()) return make_text(meter, "");
  const std::size_t first = character_at(text.bytes, 0).length;
  TRY(const Value head, make_part(meter, text, 0, first));
  TRY(const Value large, change_case(meter, *as_text(head), true));
  TRY(const Value small, change_case(meter, text, false, first));
  TextBuilder out(meter);
  out.append(*as_text(large));
  out.append(*as_text(small));
  return out.finish();
}

Result<Value> method_title(Meter& meter, const Value& object, const Bound&) {
  return title(meter, *as_text(object), false, [](std::uint32_t code) { return !is_cased(code); });
}

Result<Value> split_space(Meter& meter, const Text& text, std::int64_t limit) {
  std::vector<Value> parts;
  const std::string_view bytes = text.bytes;
  std::size_t at = strip_space(bytes, true, false).begin;
  while (at < bytes.size()) {
    std::size_t end = at;
    while (end < bytes.size()) {
      const Character one = character_at(bytes, end);
      if (is_space(one.code)) break;
      end += one.length;
    }
    if (limit == 0) end = bytes.size();
    limit -= limit > 0;
    TRY(Value part, make_part(meter, text, at, end));
    parts.push_back(std::move(part));
    at = end + strip_space(bytes.substr(end), true, false).begin;
  }
  return make_list(meter, std::move(parts));
}

Result<Value> method_split(Meter& meter, const Value& object, const Bound& bound) {
  const Text& text = *as_text(object);
  TRY(std::int64_t limit, bound.integer(1, -1));
  TRY_VOID(meter.scan(text.bytes.size()));
  if (!bound.has(0) || std::holds_alternative<None>(*bound.get(0))) {
    return split_space(meter, text, limit);
  }
  TRY(const TextPtr separator, bound.text(0));
  REQUIRE(!separator->bytes.empty(), "the separator is empty");
  TRY_VOID(meter.scan(separator->bytes.size()));
  std::vector<Value> parts;
  std::size_t at = 0;
  for (; limit != 0; limit -= limit > 0) {
    const std::size_t found = find_text(text.bytes, separator->bytes, at);
    if (found == std::string_view::npos) break;
    TRY(Value part, make_part(meter, text, at, found));
    parts.push_back(std::move(part));
    at = found + separator->bytes.size();
  }
  TRY(Value rest, make_part(meter, text, at, text.bytes.size()));
  parts.push_back(std::move(rest));
  return make_list(meter, std::move(parts));
}

Result<Value> method_splitlines(Meter& meter, const Value& object, const Bound&) {
  const Text& text = *as_text(object);
  const std::string_view bytes = text.bytes;
  std::vector<Value> parts;
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t end = at;
    while (end < bytes.size() && !is_line_boundary(character_at(bytes, end).code)) ++end;
    TRY(Value part, make_part(meter, text, at, end));
    parts.push_back(std::move(part));
    if (end == bytes.size()) break;
    at = end + character_at(bytes, end).length;
    if (bytes[end] == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
  }
  return make_list(meter, std::move(parts));
}

// startswith, or endswith.
template <bool kStart>
Result<Value> method_affix(Meter& meter, const Value& object, const Bound& bound) {
  REQUIRE(bound.has(0), "needs a string or a tuple of strings");
  const std::string_view bytes = as_text(object)->bytes;
  std::vector<Value> wanted = {*bound.get(0)};
  if (const List* list = as_list(*bound.get(0)); list != nullptr && list->tuple) {
    TRY(wanted, iterate(meter, *bound.get(0)));
  }
  for (const Value& one : wanted) {
    const Text* text = as_text(one);
    REQUIRE(text != nullptr, "needs a string or a tuple of strings");
    TRY_VOID(meter.scan(text->bytes.size()));
    if (kStart ? bytes.starts_with(text->bytes) : bytes.ends_with(text->bytes)) return Value(true);
  }
  return Value(false);
}

// removeprefix, or removesuffix.
template <bool kStart>
Result<Value> method_remove(Meter& meter, const Value& object, const Bound& bound) {
  TRY(const Value has, method_affix<kStart>(meter, object, bound));
  const std::vector<Value>& given = bound.all().positional;
  const Text* part = given.empty() ? nullptr : as_text(given[0]);
  REQUIRE(part != nullptr, "needs a string");
  const Text& text = *as_text(object);
  const std::size_t cut = truthy(has) ? part->bytes.size() : 0;
  return make_part(meter, text, kStart ? cut : 0, text.bytes.size() - (kStart ? 0 : cut));
}

Result<Value> method_replace(Meter& meter, const Value& object, const Bound& bound) {
  TRY(const TextPtr old, bound.text(0));
  TRY(const TextPtr with, bound.text(1));
  TRY(const std::int64_t count, bound.integer(2, -1));
  return replace(meter, *as_text(object), *old, *with, count);
}

Result<Value> method_find(Meter& meter, const Value& object, const Bound& bound) {
  TRY(const TextPtr wanted, bound.text(0));
  const std::string_view bytes = as_text(object)->bytes;
  TRY_VOID(meter.scan(bytes.size() + wanted->bytes.size()));
  const std::size_t found = find_text(bytes, wanted->bytes, 0);
  if (found == std::string_view::npos) return Value(std::int64_t{-1});
  return Value(static_cast<std::int64_t>(count_characters(bytes.substr(0, found))));
}

Result<Value> method_count(Meter& meter, const Value& object, const Bound& bound) {
  TRY(const TextPtr wanted, bound.text(0));
  const std::string_view bytes = as_text(object)->bytes;
  TRY_VOID(meter.scan(bytes.size() + wanted->bytes.size()));
  if (wanted->bytes.empty()) return Value(static_cast<std::int64_t>(count_characters(bytes)) + 1);
  std::int64_t count = 0;
  for (std::size_t at = 0;; ++count) {
    at = find_text(bytes, wanted->bytes, at);
    if (at == std::string_view::npos) return Value(count);
    TRY_VOID(meter.steps(1));
    at += wanted->bytes.size();
  }
}

Result<Value> method_join(Meter& meter, const Value& object, const Bound& bound) {
  REQUIRE(bound.has(0), "needs a list");
  TRY(const std::vector<Value> parts, iterate(meter, *bound.get(0)));
  for (const Value& part : parts) {
    REQUIRE(as_text(part) != nullptr, "joins strings only, not a ", type_name(part));
  }
  return join(meter, *bound.get(0), *as_text(object));
}

Result<Value> method_isdigit(Meter& meter, const Value& object, const Bound&) {
  const std::string& bytes = as_text(object)->bytes;
  TRY_VOID(meter.scan(bytes.size()));
  return Value(!bytes.empty() && bytes.find_first_not_of("0123456789") == std::string::npos);
}

// The value that a replacement field "", "0" or "name" names.
Result<Value> field_value(std::string_view field, std::size_t& next, const Arguments& arguments) {
  for (const auto& [name, value] : arguments.named) {
    if (name == field) return value;
  }
  std::size_t index = next;
  if (field.empty()) {
    ++next;
  } else {
    REQUIRE(field.size() < 5 && field.find_first_not_of("0123456789") == std::string_view::npos,
            "field '{", field, "}' must be the name of an argument");
    index = static_cast<std::size_t>(std::stoi(std::string(field)));
  }
  REQUIRE(index < arguments.positional.size(), "a field has no argument");
  return arguments.positional[index];
}

Result<Value> method_format(Meter& meter, const Value& object, const Bound& bound) {
  const Text& text = *as_text(object);
  TextBuilder out(meter);
  std::size_t next = 0;
  for (std::size_t at = 0; at < text.bytes.size() && !out.failed();) {
    const char c = text.bytes[at];
    if ((c == '{' || c == '}') && text.bytes.compare(at, 2, std::string(2, c)) == 0) {
      out.append(text, at, at + 1);
      at += 2;
    } else if (c == '{') {
      const std::size_t close = text.bytes.find('}', at);
      REQUIRE(close != std::string::npos, "'{' without '}'");
      const std::string field = text.bytes.substr(at + 1, close - at - 1);
      if (field.find_first_of(":!.[") != std::string::npos) {
        return Error::of(ErrorCode::kUnsupported, "field '{", field, "}' is not supported");
      }
      TRY(const Value value, field_value(field, next, bound.all()));
      append_str(out, value);
      at = close + 1;
    } else {
      REQUIRE(c != '}', "'}' without '{'");
      const std::size_t end = std::min(text.bytes.find_first_of("{}", at), text.bytes.size());
      out.append(text, at, end);
      at = end;
    }
  }
  return out.finish();
}

Result<Value> method_get(Meter& meter, const Value& object, const Bound& bound) {
  REQUIRE(bound.has(0), "needs a key");
  TRY(const Value* found, find_key(meter, *as_dict(object), *bound.get(0)));
  if (found != nullptr) return *found;
  return bound.has(1) ? *bound.get(1) : Value(None{});
}

Result<Value> method_items(Meter& meter, const Value& object, const Bound&) {
  std::vector<Value> pairs;
  for (const auto& [key, value] : as_dict(object)->items) {
    TRY(Value pair, make_list(meter, {key, value}, true));
    pairs.push_back(std::move(pair));
  }
  return make_list(meter, std::move(pairs));
}

Result<Value> method_keys(Meter& meter, const Value& object, const Bound&) {
  TRY(std::vector<Value> keys, iterate(meter, object));
  return make_list(meter, std::move(keys));
}

Result<Value> method_values(Meter& meter, const Value& object, const Bound&) {
  std::vector<Value> values;
  for (const auto& entry : as_dict(object)->items) values.push_back(entry.second);
  return make_list(meter, std::move(values));
}

Result<Value> method_list_count(Meter& meter, const Value& object, const Bound& bound) {
  REQUIRE(bound.has(0), "needs a value");
  std::int64_t count = 0;
  for (const Value& item : as_list(object)->items) {
    TRY(const bool same, equal(meter, item, *bound.get(0)));
    count += same;
  }
  return Value(count);
}

Result<Value> method_list_index(Meter& meter, const Value& object, const Bound& bound) {
  REQUIRE(bound.has(0), "needs a value");
  const std::vector<Value>& items = as_list(object)->items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    TRY(const bool same, equal(meter, items[i], *bound.get(0)));
    if (same) return Value(static_cast<std::int64_t>(i));
  }
  return Error::invalid("the value is not in the list");
}

constexpr Builtin kTextMethods[] = {{"strip", method_strip<true, true>, {"chars"}},
                                    {"lstrip", method_strip<true, false>, {"chars"}},
                                    {"rstrip", method_strip<false, true>, {"chars"}},
                                    {"split", method_split, {"sep", "maxsplit"}},
                                    {"splitlines", method_splitlines},
                                    {"startswith", method_affix<true>, {"prefix"}},
                                    {"endswith", method_affix<false>, {"suffix"}},
                                    {"removeprefix", method_remove<true>, {"prefix"}},
                                    {"removesuffix", method_remove<false>, {"suffix"}},
                                    {"replace", method_replace, {"old", "new", "count"}},
                                    {"upper", method_case<true>},
                                    {"lower", method_case<false>},
                                    {"title", method_title},
                                    {"capitalize", method_capitalize},
                                    {"find", method_find, {"sub"}},
                                    {"count", method_count, {"sub"}},
                                    {"join", method_join, {"iterable"}},
                                    {"format", method_format, {"*"}},
                                    {"isdigit", method_isdigit}};
constexpr Builtin kDictMethods[] = {{"get", method_get, {"key", "default"}},
                                    {"items", method_items},
                                    {"keys", method_keys},
                                    {"values", method_values}};
constexpr Builtin kListMethods[] = {{"count", method_list_count, {"value"}},
                                    {"index", method_list_index, {"value"}}};

// Methods of Python outside of the subset. As in Hugging Face's immutable sandbox, templates change
// no value in place. One exception: they may append to a list that only one name holds (Evaluator).
constexpr std::string_view kOtherText[] = {
    "casefold", "center",  "encode",     "expandtabs",   "format_map", "index",     "isalnum",
    "isalpha",  "isascii", "isdecimal",  "isidentifier", "islower",    "isnumeric", "isprintable",
    "isspace",  "istitle", "isupper",    "ljust",        "maketrans",  "partition", "rfind",
    "rindex",   "rjust",   "rpartition", "rsplit",       "swapcase",   "translate", "zfill"};
constexpr std::string_view kOtherDict[] = {"clear",   "copy",       "fromkeys", "pop",
                                           "popitem", "setdefault", "update"};
constexpr std::string_view kOtherList[] = {"append", "clear",  "copy",    "extend", "insert",
                                           "pop",    "remove", "reverse", "sort"};

const Builtin* method_of(const Value& object, std::string_view name) {
  if (as_text(object) != nullptr) return find_named(kTextMethods, name);
  if (as_dict(object) != nullptr) return find_named(kDictMethods, name);
  if (as_list(object) != nullptr) return find_named(kListMethods, name);
  return nullptr;
}

}  // namespace

bool is_method(const Value& object, std::string_view name) {
  if (method_of(object, name) != nullptr) return true;
  std::span<const std::string_view> others;
  if (as_text(object) != nullptr) others = kOtherText;
  if (as_dict(object) != nullptr) others = kOtherDict;
  if (as_list(object) != nullptr) others = kOtherList;
  return std::find(others.begin(), others.end(), name) != others.end();
}

Result<Value> call_method(Meter& meter, const Value& object, std::string_view name,
                          const Arguments& arguments) {
  const Builtin* method = method_of(object, name);
  if (method == nullptr) {
    return Error::of(ErrorCode::kUnsupported, "a ", type_name(object), "'s method '", name,
                     "' is not supported");
  }
  TRY(const Bound bound, Bound::bind(arguments, method->parameters));
  return method->call(meter, object, bound);
}

}  // namespace hearth::model::jinja
