// Filters on strings, and the string operations that filters and methods share.
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/number.h"
#include "model/jinja/builtins.h"
#include "model/jinja/text.h"

namespace hearth::model::jinja {
namespace {

Result<TextPtr> string_of(Meter& meter, const Value& value) {
  TRY(const Value text, to_text(meter, value));
  return std::get<TextPtr>(text);
}

Result<Value> filter_title(Meter& meter, const Value& input, const Bound&) {
  TRY(const TextPtr text, string_of(meter, input));
  return title(meter, *text, true, [](std::uint32_t code) {
    return is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' ||
           code == '<';
  });
}

// A method of strings as a filter of anything.
Result<Value> by_method(Meter& meter, std::string_view method, const Value& input,
                        const Bound& bound) {
  TRY(const Value text, to_text(meter, input));
  return call_method(meter, text, method, bound.all());
}

Result<Value> filter_replace(Meter& meter, const Value& input, const Bound& bound) {
  REQUIRE(bound.has(0) && bound.has(1), "needs the parameters 'old' and 'new'");
  TRY(const TextPtr text, string_of(meter, input));
  TRY(const TextPtr old, string_of(meter, *bound.get(0)));
  TRY(const TextPtr with, string_of(meter, *bound.get(1)));
  std::int64_t count = -1;
  if (bound.has_value(2)) {
    TRY(count, bound.integer(2, -1));
  }
  return replace(meter, *text, *old, *with, count);
}

Result<Value> filter_escape(Meter& meter, const Value& input, const Bound&) {
  TRY(const TextPtr text, string_of(meter, input));
  TextBuilder out(meter);
  for (std::size_t at = 0; at < text->bytes.size() && !out.failed(); ++at) {
    std::string_view escaped = std::string_view(text->bytes).substr(at, 1);
    switch (escaped[0]) {
      case '&': escaped = "&amp;"; break;
      case '<': escaped = "&lt;"; break;
      case '>': escaped = "&gt;"; break;
      case '\'': escaped = "&#39;"; break;
      case '"': escaped = "&#34;"; break;
      default: break;
    }
    out.append(escaped, is_user(*text, at));
  }
  return out.finish();
}

Result<Value> filter_indent(Meter& meter, const Value& input, const Bound& bound) {
  TRY(const TextPtr text, string_of(meter, input));
  Text by;
  if (bound.has(0) && as_text(*bound.get(0)) != nullptr) {
    by = *as_text(*bound.get(0));
  } else {
    TRY(const std::int64_t width, bound.integer(0, 4));
    REQUIRE(width <= 1024, "'width' is over the limit of 1024");
    by.bytes.assign(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
  }
  TextBuilder out(meter);
  if (bound.flag(1)) out.append(by);
  const std::string_view bytes = text->bytes;
  std::size_t begin = 0;
  for (bool first = true; begin <= bytes.size() && !out.failed(); first = false) {
    std::size_t end = begin;
    while (end < bytes.size() && !is_line_boundary(character_at(bytes, end).code)) ++end;
    if (!first) out.append("\n");
    if (!first && (end > begin || bound.flag(2))) out.append(by);
    out.append(*text, begin, end);
    if (end >= bytes.size()) break;
    begin = end + character_at(bytes, end).length;
    if (bytes[end] == '\r' && begin < bytes.size() && bytes[begin] == '\n') ++begin;
  }
  return out.finish();
}

std::string number_text(const Text& text) {
  const Range range = strip_space(text.bytes, true, true);
  std::string digits = text.bytes.substr(range.begin, range.end - range.begin);
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.erase(0, 1);
  return digits;
}

template <typename Number>
std::optional<Number> read_number(const Text& text) {
  return parse_number<Number>(number_text(text));
}

std::optional<double> real_input(const Value& value) {
  if (const Text* text = as_text(value)) return read_number<double>(*text);
  return real_of(value);
}

Result<Value> filter_int(Meter& meter, const Value& input, const Bound& bound) {
  REQUIRE(!is_undefined(input), "an undefined value cannot be used as a number");
  const Value fallback = bound.has(0) ? *bound.get(0) : Value(std::int64_t{0});
  if (std::holds_alternative<std::int64_t>(input)) return input;
  if (const Text* text = as_text(input)) {
    TRY_VOID(meter.scan(text->bytes.size()));
    if (const auto whole = read_number<std::int64_t>(*text)) return Value(*whole);
  }
  const std::optional<double> real = real_input(input);
  if (!real || !std::isfinite(*real) || std::fabs(*real) >= 9.2e18) return fallback;
  return Value(static_cast<std::int64_t>(*real));
}

Result<Value> filter_float(Meter& meter, const Value& input, const Bound& bound) {
  REQUIRE(!is_undefined(input), "an undefined value cannot be used as a number");
  if (const Text* text = as_text(input)) TRY_VOID(meter.scan(text->bytes.size()));
  const std::optional<double> real = real_input(input);
  if (real) return Value(*real);
  return bound.has(0) ? *bound.get(0) : Value(0.0);
}

Result<Value> filter_abs(Meter&, const Value& input, const Bound&) {
  if (const auto* real = std::get_if<double>(&input)) return Value(std::fabs(*real));
  const auto* whole = std::get_if<std::int64_t>(&input);
  REQUIRE(whole != nullptr && *whole != INT64_MIN, "needs a number");
  return Value(*whole < 0 ? -*whole : *whole);
}

Result<Value> filter_round(Meter&, const Value& input, const Bound& bound) {
  TRY(const std::int64_t precision, bound.integer(0, 0));
  REQUIRE(precision >= 0 && precision <= 15, "'precision' is outside of 0 to 15");
  std::string method = "common";
  if (bound.has(1)) {
    TRY(const TextPtr text, bound.text(1));
    method = text->bytes;
  }
  REQUIRE(method == "common" || method == "ceil" || method == "floor",
          "'method' must be common, ceil or floor");
  if (std::holds_alternative<std::int64_t>(input) && method == "common") return input;
  const std::optional<double> real = real_of(input);
  REQUIRE(real.has_value() && std::fabs(*real) < 1e18, "needs a number below 1e18");
  if (method != "common") {
    const double scale = std::pow(10.0, static_cast<double>(precision));
    const double scaled = *real * scale;
    return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
  }
  char buffer[64];
  const int length =
      std::snprintf(buffer, sizeof(buffer), "%.*f", static_cast<int>(precision), *real);
  double rounded = 0;
  std::from_chars(buffer, buffer + length, rounded);
  return Value(rounded);
}

// length counts characters including `end`. A text that is longer by up to `leeway` characters is
// not cut.
Result<Value> filter_truncate(Meter& meter, const Value& input, const Bound& bound) {
  TRY(const TextPtr text, string_of(meter, input));
  TRY(const std::int64_t length, bound.integer(0, 255));
  Text end;
  end.bytes = "...";
  if (bound.has(2)) {
    TRY(const TextPtr given, bound.text(2));
    end = *given;
  }
  std::int64_t leeway = 5;
  if (bound.has_value(3)) {
    TRY(leeway, bound.integer(3, leeway));
  }
  TRY_VOID(meter.scan(text->bytes.size() + end.bytes.size()));
  const auto end_length = static_cast<std::int64_t>(count_characters(end.bytes));
  REQUIRE(length >= end_length && leeway >= 0,
          "needs a 'length' of at least that of 'end', and a "
          "'leeway' of at least 0");
  const auto whole = static_cast<std::int64_t>(count_characters(text->bytes));
  if (whole <= length || whole - length <= leeway) return Value(text);
  std::size_t cut = character_offset(text->bytes, static_cast<std::size_t>(length - end_length));
  const std::size_t space = cut == 0 ? std::string::npos : text->bytes.rfind(' ', cut - 1);
  if (!bound.flag(1) && space != std::string::npos) cut = space;
  TextBuilder out(meter);
  out.append(*text, 0, cut);
  out.append(end);
  return out.finish();
}

// As urllib's quote: in a query a slash is written in hex too, and a space as '+'.
void append_url(TextBuilder& out, const Text& text, bool query) {
  constexpr std::string_view kPlain = "_.-~";
  constexpr char kHex[] = "0123456789ABCDEF";
  for (std::size_t at = 0; at < text.bytes.size() && !out.failed(); ++at) {
    const char c = text.bytes[at];
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    const char escaped[] = {'%', kHex[byte >> 4], kHex[byte & 15]};
    if (letter || kPlain.find(c) != std::string_view::npos || (c == '/' && !query)) {
      out.append(text, at, at + 1);
    } else if (c == ' ' && query) {
      out.append("+", is_user(text, at));
    } else {
      out.append(std::string_view(escaped, sizeof(escaped)), is_user(text, at));
    }
  }
}

// A text, or the pairs of a dict or list as a query.
Result<Value> filter_urlencode(Meter& meter, const Value& input, const Bound&) {
  TextBuilder out(meter);
  if (as_list(input) == nullptr && as_dict(input) == nullptr) {
    TRY(const TextPtr text, string_of(meter, input));
    append_url(out, *text, false);
    return out.finish();
  }
  Value pairs = input;
  if (as_dict(input) != nullptr) {
    TRY(pairs, call_method(meter, input, "items", {}));
  }
  bool first = true;
  for (const Value& item : as_list(pairs)->items) {
    const List* pair = as_list(item);
    REQUIRE(pair != nullptr && pair->items.size() == 2, "needs a text, a dict or a list of pairs");
    TRY(const TextPtr key, string_of(meter, pair->items[0]));
    TRY(const TextPtr value, string_of(meter, pair->items[1]));
    if (!first) out.append("&");
    first = false;
    append_url(out, *key, true);
    out.append("=");
    append_url(out, *value, true);
  }
  return out.finish();
}

// Python's '%' with the directives s, d, i, r and '%', in their order or by name: "%(x)s".
Result<Value> filter_format(Meter& meter, const Value& input, const Bound& bound) {
  TRY(const TextPtr text, string_of(meter, input));
  const std::string_view bytes = text->bytes;
  const Arguments& given = bound.all();
  REQUIRE(given.positional.empty() || given.named.empty(),
          "takes arguments with names or without, not both");
  TextBuilder out(meter);
  std::size_t next = 0;
  for (std::size_t at = 0; at < bytes.size() && !out.failed();) {
    const std::size_t sign = std::min(bytes.find('%', at), bytes.size());
    out.append(*text, at, sign);
    if (sign == bytes.size()) break;
    at = sign + 1;
    const Value* value = nullptr;
    if (bytes.substr(at).starts_with('(')) {
      const std::size_t close = std::min(bytes.find(')', at), bytes.size());
      for (const auto& [name, one] : given.named) {
        if (name == bytes.substr(at + 1, close - at - 1)) value = &one;
      }
      REQUIRE(value != nullptr, "a name in the format has no argument");
      at = close + 1;
    }
    const char kind = at < bytes.size() ? bytes[at] : '\0';
    ++at;
    if (kind == '%') {
      out.append(*text, at - 1, at);
      continue;
    }
    if (kind != 's' && kind != 'r' && kind != 'd' && kind != 'i') {
      return Error{ErrorCode::kUnsupported,
                   "a format other than %s, %r, %d and %i is not supported"};
    }
    if (value == nullptr) {
      REQUIRE(next < given.positional.size(), "a directive of the format has no argument");
      value = &given.positional[next++];
    }
    if (kind == 's') {
      append_str(out, *value);
    } else if (kind == 'r') {
      append_repr(out, *value);
    } else {
      const auto whole = whole_of(*value);
      REQUIRE(whole.has_value(), "a %d of the format needs an integer");
      out.append(std::to_string(*whole));
    }
  }
  REQUIRE(next == given.positional.size(), "an argument has no directive in the format");
  return out.finish();
}

}  // namespace

Result<Value> replace(Meter& meter, const Text& text, const Text& old, const Text& with,
                      std::int64_t count) {
  TRY_VOID(meter.scan(text.bytes.size() + old.bytes.size()));
  TextBuilder out(meter);
  std::size_t at = 0;
  if (old.bytes.empty()) {  // before every character and at the end
    for (; at < text.bytes.size() && count != 0 && !out.failed(); count -= count > 0) {
      const std::size_t length = character_at(text.bytes, at).length;
      out.append(with);
      out.append(text, at, at + length);
      at += length;
    }
    if (count != 0) out.append(with);
  }
  while (count != 0 && !old.bytes.empty() && !out.failed()) {
    const std::size_t found = find_text(text.bytes, old.bytes, at);
    if (found == std::string_view::npos) break;
    out.append(text, at, found);
    out.append(with);
    TRY_VOID(meter.steps(1));
    at = found + old.bytes.size();
    count -= count > 0;
  }
  out.append(text, at, text.bytes.size());
  return out.finish();
}

Result<Value> title(Meter& meter, const Text& text, bool apart,
                    bool (*ends_word)(std::uint32_t code)) {
  TextBuilder out(meter);
  bool start = true;
  std::size_t context = 0;  // up to where the characters before a small letter count
  for (std::size_t at = 0; at < text.bytes.size() && !out.failed();) {
    const Character one = character_at(text.bytes, at);
    std::string changed(text.bytes, at, one.length);
    if (one.code != kBrokenCharacter) {
      changed.clear();
      if (start) {
        append_upper(changed, one.code);
      } else {
        append_lower_at(changed, std::string_view(text.bytes).substr(context), at - context);
      }
    }
    if (start && apart) context = at + one.length;
    out.append(changed, is_user(text, at));
    start = ends_word(one.code);
    at += one.length;
  }
  return out.finish();
}

std::span<const Builtin> text_filters() {
  using V = const Value&;
  using B = const Bound&;
  static constexpr Builtin kFilters[] = {
      {"abs", filter_abs},
      {"capitalize", [](Meter& m, V v, B b) { return by_method(m, "capitalize", v, b); }, {"*"}},
      {"e", filter_escape},
      {"escape", filter_escape},
      {"float", filter_float, {"default"}},
      {"format", filter_format, {"*"}},
      {"indent", filter_indent, {"width", "first", "blank"}},
      {"int", filter_int, {"default"}},
      {"lower", [](Meter& m, V v, B b) { return by_method(m, "lower", v, b); }, {"*"}},
      {"replace", filter_replace, {"old", "new", "count"}},
      {"round", filter_round, {"precision", "method"}},
      {"string", [](Meter& m, V v, B) { return to_text(m, v); }},
      {"title", filter_title},
      {"tojson", filter_tojson, {"ensure_ascii", "indent", "separators", "sort_keys"}},
      {"trim", [](Meter& m, V v, B b) { return by_method(m, "strip", v, b); }, {"*"}},
      {"truncate", filter_truncate, {"length", "killwords", "end", "leeway"}},
      {"upper", [](Meter& m, V v, B b) { return by_method(m, "upper", v, b); }, {"*"}},
      {"urlencode", filter_urlencode}};
  return kFilters;
}

}  // namespace hearth::model::jinja
