// How Python writes values: str() and repr().
#include <charconv>
#include <cmath>

#include "model/jinja/text.h"
#include "model/jinja/value.h"

namespace hearth::model::jinja {
namespace {

void append_hex(std::string& out, std::uint32_t code) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += "\\x";
  out += kDigits[code >> 4 & 0xF];
  out += kDigits[code & 0xF];
}

void append_text_repr(TextBuilder& out, const Text& text) {
  const std::string_view bytes = text.bytes;
  const bool has_single = bytes.find('\'') != std::string_view::npos;
  const char quote = has_single && bytes.find('"') == std::string_view::npos ? '"' : '\'';
  out.append(std::string_view(&quote, 1));
  for (std::size_t at = 0; at < bytes.size() && !out.failed();) {
    const Character one = character_at(bytes, at);
    std::string escaped;
    switch (one.code) {
      case '\n': escaped.append("\\n"); break;
      case '\r': escaped.append("\\r"); break;
      case '\t': escaped.append("\\t"); break;
      case '\\': escaped.append("\\\\"); break;
      default:
        if (one.code == static_cast<std::uint32_t>(quote)) {
          escaped = std::string("\\") + quote;
        } else if (one.code < 0x20 || (one.code >= 0x7F && one.code <= 0xA0) || one.code == 0xAD) {
          append_hex(escaped, one.code);
        } else {
          escaped = bytes.substr(at, one.length);
        }
    }
    out.append(escaped, is_user(text, at));
    at += one.length;
  }
  out.append(std::string_view(&quote, 1));
}

void append_list_repr(TextBuilder& out, const List& list) {
  out.append(list.tuple ? "(" : "[");
  for (std::size_t i = 0; i < list.items.size() && !out.failed(); ++i) {
    if (i > 0) out.append(", ");
    append_repr(out, list.items[i]);
  }
  if (list.tuple && list.items.size() == 1) out.append(",");
  out.append(list.tuple ? ")" : "]");
}

void append_dict_repr(TextBuilder& out, const Dict& dict) {
  out.append("{");
  bool first = true;
  for (const auto& [key, value] : dict.items) {
    if (out.failed()) return;
    if (!first) out.append(", ");
    first = false;
    append_repr(out, key);
    out.append(": ");
    append_repr(out, value);
  }
  out.append("}");
}

}  // namespace

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto done =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<std::size_t>(done.ptr - buffer));
  const std::size_t mark = text.find('e');
  int exponent = 0;
  const std::size_t digits_at = mark + (text[mark + 1] == '+' ? 2 : 1);
  std::from_chars(text.data() + digits_at, text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto fixed =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
  std::string plain(buffer, fixed.ptr);
  if (plain.find('.') == std::string::npos) plain += ".0";
  return plain;
}

void append_str(TextBuilder& out, const Value& value) {
  if (const Text* text = as_text(value)) {
    out.append(*text);
  } else if (!is_undefined(value)) {
    append_repr(out, value);
  }
}

void append_repr(TextBuilder& out, const Value& value) {
  if (const Text* text = as_text(value)) return append_text_repr(out, *text);
  if (const List* list = as_list(value)) return append_list_repr(out, *list);
  if (const Dict* dict = as_dict(value)) return append_dict_repr(out, *dict);
  if (const auto* flag = std::get_if<bool>(&value)) return out.append(*flag ? "True" : "False");
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    return out.append(std::to_string(*whole));
  }
  if (const auto* real = std::get_if<double>(&value)) return out.append(float_repr(*real));
  if (std::holds_alternative<None>(value)) return out.append("None");
  if (is_undefined(value)) return out.append("Undefined");
  out.append("<");
  out.append(type_name(value));
  out.append(">");
}

}  // namespace hearth::model::jinja
