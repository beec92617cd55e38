// The filter tojson, as Hugging Face defines it: json.dumps without escapes for HTML.
#include <algorithm>
#include <cmath>

#include "model/jinja/builtins.h"
#include "model/jinja/text.h"

namespace hearth::model::jinja {
namespace {

struct Style {
  bool ascii = false;
  bool sorted = false;
  bool lines = false;  // every item on a line of its own
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

void append_unicode_escape(std::string& out, std::uint32_t code) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kDigits[code >> shift & 0xF];
}

std::string_view short_escape(std::uint32_t code) {
  switch (code) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '\b': return "\\b";
    case '\f': return "\\f";
    default: return "";
  }
}

std::string escaped(std::string_view character, std::uint32_t code, bool ascii) {
  std::string out(short_escape(code));
  if (!out.empty()) return out;
  if (code < 0x20) {
    append_unicode_escape(out, code);
  } else if (!ascii || code <= 0x7F || code == kBrokenCharacter) {
    out.append(character);
  } else if (code < 0x10000) {
    append_unicode_escape(out, code);
  } else {
    append_unicode_escape(out, 0xD800 + ((code - 0x10000) >> 10));
    append_unicode_escape(out, 0xDC00 + ((code - 0x10000) & 0x3FF));
  }
  return out;
}

class Writer {
 public:
  Writer(Meter& meter, const Style& style) : meter_(meter), out_(meter), style_(style) {}

  Status write(const Value& value, std::uint32_t level) {
    TRY_VOID(meter_.steps(1));
    if (const Text* text = as_text(value)) {
      string(*text);
    } else if (const List* items = as_list(value)) {
      return list(*items, level);
    } else if (const Dict* entries = as_dict(value)) {
      return dict(*entries, level);
    } else if (const auto* flag = std::get_if<bool>(&value)) {
      out_.append(*flag ? "true" : "false");
    } else if (const auto* whole = std::get_if<std::int64_t>(&value)) {
      out_.append(std::to_string(*whole));
    } else if (const auto* real = std::get_if<double>(&value)) {
      const std::string text = float_repr(*real);
      const bool finite = std::isfinite(*real);
      out_.append(finite           ? std::string_view(text)
                  : text == "inf"  ? "Infinity"
                  : text == "-inf" ? "-Infinity"
                                   : "NaN");
    } else {
      REQUIRE(std::holds_alternative<None>(value), "a ", type_name(value),
              " cannot be written as JSON");
      out_.append("null");
    }
    return ok_status();
  }

  Result<Value> finish() { return out_.finish(); }

 private:
  void string(const Text& text) {
    out_.append("\"");
    const std::string_view bytes = text.bytes;
    for (std::size_t at = 0; at < bytes.size() && !out_.failed();) {
      const Character one = character_at(bytes, at);
      out_.append(escaped(bytes.substr(at, one.length), one.code, style_.ascii), is_user(text, at));
      at += one.length;
    }
    out_.append("\"");
  }

  void line(std::uint32_t level) {
    if (!style_.lines) return;
    out_.append("\n");
    for (std::uint32_t i = 0; i < level; ++i) out_.append(style_.indent);
  }

  Status list(const List& list, std::uint32_t level) {
    out_.append("[");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator);
      line(level + 1);
      TRY_VOID(write(list.items[i], level + 1));
    }
    if (!list.items.empty()) line(level);
    out_.append("]");
    return ok_status();
  }

  Status dict(const Dict& dict, std::uint32_t level) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.items) {
      REQUIRE(as_text(entry.first) != nullptr, "writes dicts with string keys only");
      entries.push_back(&entry);
    }
    if (style_.sorted) {
      std::sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
        return as_text(a->first)->bytes < as_text(b->first)->bytes;
      });
    }
    out_.append("{");
    bool first = true;
    for (const auto* entry : entries) {
      if (!first) out_.append(style_.item_separator);
      first = false;
      line(level + 1);
      string(*as_text(entry->first));
      out_.append(style_.key_separator);
      TRY_VOID(write(entry->second, level + 1));
    }
    if (!entries.empty()) line(level);
    out_.append("}");
    return ok_status();
  }

  Meter& meter_;
  TextBuilder out_;
  const Style& style_;
};

Status read_separators(const Value& value, Style& style) {
  const List* pair = as_list(value);
  REQUIRE(pair != nullptr && pair->items.size() == 2 && as_text(pair->items[0]) != nullptr &&
              as_text(pair->items[1]) != nullptr,
          "'separators' must be a pair of strings");
  style.item_separator = as_text(pair->items[0])->bytes;
  style.key_separator = as_text(pair->items[1])->bytes;
  return ok_status();
}

}  // namespace

Result<Value> filter_tojson(Meter& meter, const Value& input, const Bound& bound) {
  Style style;
  style.ascii = bound.flag(0);
  style.sorted = bound.flag(3);
  if (bound.has_value(1)) {
    style.lines = true;
    style.item_separator.assign(1, ',');
    if (const Text* text = as_text(*bound.get(1))) {
      style.indent = text->bytes;
    } else {
      TRY(const std::int64_t width, bound.integer(1, 0));
      REQUIRE(width <= 64, "'indent' is over the limit of 64");
      style.indent.assign(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    }
  }
  if (bound.has_value(2)) TRY_VOID(read_separators(*bound.get(2), style));
  Writer writer(meter, style);
  TRY_VOID(writer.write(input, 0));
  return writer.finish();
}

}  // namespace hearth::model::jinja
