#include "model/chat/literal.h"

#include <algorithm>
#include <cstdint>

#include "base/limits.h"
#include "base/utf8.h"

namespace hearth::model {
namespace {

bool is_bare_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads one value. `strict` stays true while the text is JSON as it stands.
class LiteralReader {
 public:
  LiteralReader(std::string_view text, std::string_view quote) : text_(text), quote_(quote) {}

  bool value(std::string& out, std::uint32_t depth) {
    if (depth > limits::kJsonDepth) return false;
    spaces();
    if (at_ >= text_.size()) return false;
    if (text_[at_] == '{') return object(out, depth);
    if (text_[at_] == '[') return list(out, depth);
    std::string string;
    if (at_string()) {
      if (!read_string(string)) return false;
      out += json_string(string);
      return true;
    }
    return word(out) || number(out);
  }

  bool entries(char close, LiteralObject& out, std::uint32_t depth) {
    for (bool first = true;; first = false) {
      spaces();
      if (take(std::string_view(&close, 1))) {
        strict_ = strict_ && (first || !comma_);
        return true;
      }
      if (!first && !comma_) return false;
      std::string key;
      if (!read_key(key)) return false;
      spaces();
      if (!take(":")) {
        if (!take("=")) return false;
        strict_ = false;
      }
      std::string json;
      if (!value(json, depth + 1)) return false;
      out.entries.emplace_back(std::move(key), std::move(json));
      spaces();
      comma_ = take(",");
    }
  }

  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void spaces() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }
  bool at_end() const { return at_ == text_.size(); }
  bool strict() const { return strict_; }

  bool at_string() const {
    const std::string_view rest = text_.substr(at_);
    return rest.starts_with('"') || rest.starts_with('\'') ||
           (!quote_.empty() && rest.starts_with(quote_));
  }

  bool read_string(std::string& out) {
    std::string_view end = quote_;
    if (quote_.empty() || !take(quote_)) {
      const std::size_t quotes =
          text_.substr(at_).starts_with("\"\"\"") || text_.substr(at_).starts_with("'''") ? 3 : 1;
      end = text_.substr(at_, quotes);
      at_ += quotes;
    }
    if (end != "\"") strict_ = false;
    const bool escapes = end != quote_;
    while (at_ < text_.size()) {
      if (take(end)) return true;
      if (escapes && text_[at_] == '\\') {
        if (!escape(out)) return false;
        continue;
      }
      const Utf8Char c = decode_utf8(text_, at_);
      if (!c.valid || c.point < 0x20) strict_ = false;
      out += text_.substr(at_, c.bytes);
      at_ += c.bytes;
    }
    return false;
  }

 private:
  bool read_key(std::string& out) {
    if (at_string()) return read_string(out);
    strict_ = false;
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_bare_byte(text_[at_])) ++at_;
    out = text_.substr(begin, at_ - begin);
    return at_ > begin;
  }

  bool object(std::string& out, std::uint32_t depth) {
    ++at_;
    LiteralObject object;
    if (!entries('}', object, depth)) return false;
    out += object_json(object);
    return true;
  }

  bool list(std::string& out, std::uint32_t depth) {
    ++at_;
    out += '[';
    bool comma = false;
    for (bool first = true;; first = false) {
      spaces();
      if (take("]")) {
        strict_ = strict_ && !comma;
        break;
      }
      if (!first && !comma) return false;
      if (!first) out += ", ";
      if (!value(out, depth + 1)) return false;
      spaces();
      comma = take(",");
    }
    out += ']';
    return true;
  }

  bool word(std::string& out) {
    constexpr std::pair<std::string_view, std::string_view> kWords[] = {
        {"true", "true"}, {"false", "false"}, {"null", "null"},
        {"True", "true"}, {"False", "false"}, {"None", "null"}};
    for (const auto& [name, json] : kWords) {
      if (!text_.substr(at_).starts_with(name)) continue;
      if (at_ + name.size() < text_.size() && is_bare_byte(text_[at_ + name.size()])) return false;
      at_ += name.size();
      strict_ = strict_ && name == json;
      out += json;
      return true;
    }
    return false;
  }

  bool digits() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ > begin;
  }

  // Numbers in JSON's form; Python's other forms are refused.
  bool number(std::string& out) {
    const std::size_t begin = at_;
    take("-");
    if (!take("0") && !digits()) return false;
    if (take(".") && !digits()) return false;
    if (take("e") || take("E")) {
      if (!take("+")) take("-");
      if (!digits()) return false;
    }
    if (at_ < text_.size() && is_bare_byte(text_[at_])) return false;
    out += text_.substr(begin, at_ - begin);
    return true;
  }

  bool hex(std::uint32_t& code) {
    if (at_ + 4 > text_.size()) return false;
    code = 0;
    for (int i = 0; i < 4; ++i) {
      const std::size_t digit = std::string_view("0123456789abcdefABCDEF").find(text_[at_]);
      if (digit == std::string_view::npos) return false;
      code = code * 16 + static_cast<std::uint32_t>(digit < 16 ? digit : digit - 6);
      ++at_;
    }
    return true;
  }

  bool escape(std::string& out) {
    ++at_;
    if (at_ >= text_.size()) return false;
    const char kind = text_[at_++];
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kBytes = "\"\\/\b\f\n\r\t";
    if (const std::size_t index = kNames.find(kind); index != kNames.npos) {
      out += kBytes[index];
      return true;
    }
    if (kind == 'u') {
      std::uint32_t code = 0;
      if (!hex(code)) return false;
      std::uint32_t low = 0;
      const std::size_t here = at_;
      if (code >= 0xD800 && code <= 0xDBFF && take("\\u") && hex(low) && low >= 0xDC00 &&
          low <= 0xDFFF) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      } else if (code >= 0xD800 && code <= 0xDFFF) {
        at_ = here;
        strict_ = false;  // a lone surrogate is not a character
      }
      append_utf8(code, out);
      return true;
    }
    strict_ = false;
    if (kind != '\'' && kind != '\n') out += '\\';
    if (kind != '\n') out += kind;
    return true;
  }

  std::string_view text_;
  std::string_view quote_;
  std::size_t at_ = 0;
  bool strict_ = true;
  bool comma_ = false;
};

}  // namespace

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

const std::string* LiteralObject::find(std::string_view key) const {
  const auto it =
      std::ranges::find_if(entries, [&](const auto& each) { return each.first == key; });
  return it == entries.end() ? nullptr : &it->second;
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    constexpr std::string_view kBytes = "\"\\\b\f\n\r\t";
    constexpr std::string_view kNames = "\"\\bfnrt";
    constexpr std::string_view kDigits = "0123456789abcdef";
    const std::size_t index =
        c.point < 0x80 ? kBytes.find(static_cast<char>(c.point)) : kBytes.npos;
    if (!c.valid) {
      out += kReplacementUtf8;
    } else if (index != kBytes.npos) {
      out += {'\\', kNames[index]};
    } else if (c.point < 0x20) {
      out += "\\u00";
      out += {kDigits[c.point >> 4], kDigits[c.point & 15]};
    } else {
      out += text.substr(at, c.bytes);
    }
    at += c.bytes;
  }
  return out + '"';
}

std::string object_json(const LiteralObject& object) {
  std::string out = "{";
  for (const auto& [key, json] : object.entries) {
    if (out.size() > 1) out += ", ";
    out += json_string(key) + ": " + json;
  }
  return out + "}";
}

std::optional<std::string> literal_to_json(std::string_view text, std::string_view quote) {
  LiteralReader reader(text, quote);
  std::string out;
  if (!reader.value(out, 0)) return std::nullopt;
  reader.spaces();
  if (!reader.at_end()) return std::nullopt;
  if (!reader.strict()) return out;
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin));
}

std::optional<LiteralObject> read_literal_object(std::string_view text, char open, char close,
                                                 std::string_view quote) {
  LiteralReader reader(text, quote);
  reader.spaces();
  LiteralObject out;
  if (!reader.take(std::string_view(&open, 1)) || !reader.entries(close, out, 0))
    return std::nullopt;
  reader.spaces();
  if (!reader.at_end()) return std::nullopt;
  // The last of equal keys counts, as JSON readers have it.
  std::vector<std::pair<std::string, std::string>> last;
  for (auto& entry : out.entries) {
    const auto same =
        std::ranges::find_if(last, [&](const auto& each) { return each.first == entry.first; });
    if (last.size() >= limits::kTools) return std::nullopt;
    if (same == last.end()) {
      last.push_back(std::move(entry));
    } else {
      same->second = std::move(entry.second);
    }
  }
  out.entries = std::move(last);
  return out;
}

std::optional<std::vector<std::string>> read_literal_list(std::string_view text) {
  LiteralReader reader(text, {});
  std::vector<std::string> out;
  reader.spaces();
  if (!reader.take("[")) return std::nullopt;
  for (bool more = true;;) {
    reader.spaces();
    if (reader.take("]")) break;
    if (!more || !reader.value(out.emplace_back(), 0)) return std::nullopt;
    reader.spaces();
    more = reader.take(",");
  }
  reader.spaces();
  if (!reader.at_end()) return std::nullopt;
  return out;
}

std::optional<std::string> text_of_json(std::string_view json) {
  LiteralReader reader(json, {});
  std::string out;
  reader.spaces();
  if (!reader.at_string() || !reader.read_string(out)) return std::nullopt;
  reader.spaces();
  return reader.at_end() && reader.strict() ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<std::size_t> LiteralScanner::end(std::string_view text) {
  while (at_ < text.size() && !broken_) {
    const std::string_view rest = text.substr(at_);
    if (!in_.empty()) {
      if (in_ != quote_ && rest.front() == '\\') {
        if (rest.size() < 2) return std::nullopt;
        at_ += 2;
      } else if (rest.starts_with(in_)) {
        at_ += in_.size();
        in_.clear();
      } else if (in_.size() > 1 && in_.starts_with(rest)) {
        return std::nullopt;  // may be its end
      } else {
        ++at_;
      }
      continue;
    }
    if (!quote_.empty() && rest.size() < quote_.size() && quote_.starts_with(rest)) {
      return std::nullopt;
    }
    if (!quote_.empty() && rest.starts_with(quote_)) {
      in_ = quote_;
      at_ += quote_.size();
      continue;
    }
    const char c = rest.front();
    if (c == '"' || (c == '\'' && single_quotes_)) {
      in_.assign(1, c);
    } else if (c == '{' || c == '[' || c == '(') {
      open_ += c == '{' ? '}' : c == '[' ? ']' : ')';
      broken_ = open_.size() > limits::kJsonDepth;
    } else if (c == '}' || c == ']' || c == ')') {
      broken_ = open_.empty() || open_.back() != c;
      if (!broken_) open_.pop_back();
      if (!broken_ && open_.empty()) return ++at_;
    }
    ++at_;
  }
  return std::nullopt;
}

}  // namespace hearth::model
