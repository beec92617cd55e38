#include "model/jinja/lexer.h"

#include <algorithm>

#include "base/limits.h"
#include "base/utf8.h"
#include "model/jinja/text.h"

namespace hearth::model::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(char c) { return is_name_start(c) || is_digit(c); }

std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) TRY_VOID(root());
    push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  Error fail(const std::string& what) const {
    return Error::invalid("chat template line ", line_, ": ", what);
  }
  bool starts(std::string_view text) const {
    return std::string_view(source_).substr(at_, text.size()) == text;
  }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  void advance_to(std::size_t to) {
    line_ += static_cast<std::uint32_t>(
        std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                   source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }
  void skip_space() {
    const std::string_view rest = std::string_view(source_).substr(at_);
    advance_to(at_ + strip_space(rest, true, false).begin);
  }
  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  // Text up to the next tag, then the tag.
  Status root() {
    std::size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        push_data(source_.size(), '+', true);
        return ok_status();
      }
      const char next = source_[tag + 1];
      if (next == '%' || next == '{' || next == '#') break;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const bool has_sign = sign == '-' || sign == '+';
    push_data(tag, has_sign ? sign : '\0', kind == '{');
    const std::uint32_t begin_line = line_;
    at_ = tag + 2 + (has_sign ? 1 : 0);
    line_starting_ = false;
    if (kind == '#') return comment();
    if (kind == '%' && try_raw_begin()) return raw();
    tokens_.push_back(
        {kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, begin_line, ""});
    return inside(kind == '{');
  }

  void push_data(std::size_t end, char sign, bool variable) {
    const std::string_view text = std::string_view(source_).substr(at_, end - at_);
    std::size_t keep = text.size();
    if (sign == '-') {
      keep = strip_space(text, false, true).end;
    } else if (sign != '+' && !variable) {
      const std::size_t newline = text.rfind('\n');
      const std::size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
      const bool blank =
          strip_space(text.substr(line_begin), true, false).begin == text.size() - line_begin;
      if (blank && (line_begin > 0 || line_starting_)) keep = line_begin;
    }
    if (keep > 0) push(TokenKind::kData, std::string(text.substr(0, keep)));
    advance_to(end);
  }

  // Behind a tag: '-' takes all white space, '+' none, else one newline goes.
  void end_tag(char sign) {
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && peek() == '\n') {
      advance_to(at_ + 1);
    }
    line_starting_ = source_[at_ - 1] == '\n';
  }

  Status comment() {
    const std::size_t close = source_.find("#}", at_);
    if (close == std::string::npos) return fail("comment without an end");
    const char sign = close > at_ ? source_[close - 1] : '\0';
    advance_to(close + 2);
    end_tag(sign);
    return ok_status();
  }

  // `{%` is read; takes `raw %}` when it follows.
  bool try_raw_begin() {
    const std::size_t start = at_;
    const std::uint32_t start_line = line_;
    skip_space();
    if (starts("raw")) {
      at_ += 3;
      skip_space();
      if (starts("%}")) {
        at_ += 2;
        return true;
      }
      if (starts("-%}")) {
        at_ += 3;
        skip_space();
        return true;
      }
    }
    at_ = start;
    line_ = start_line;
    return false;
  }

  Status raw() {
    line_starting_ = source_[at_ - 1] == '\n';
    const std::size_t begin = at_;
    for (std::size_t tag = begin; (tag = source_.find("{%", tag)) != std::string::npos; ++tag) {
      std::size_t word = tag + 2;
      const char sign = word < source_.size() ? source_[word] : '\0';
      const bool has_sign = sign == '-' || sign == '+';
      if (has_sign) ++word;
      const std::string_view all = source_;
      word += strip_space(all.substr(word), true, false).begin;
      if (all.substr(word, 6) != "endraw") continue;
      word += 6;
      word += strip_space(all.substr(word), true, false).begin;
      const char end_sign = word < source_.size() ? source_[word] : '\0';
      const std::size_t close = word + (end_sign == '-' || end_sign == '+' ? 1 : 0);
      if (all.substr(close, 2) != "%}") continue;
      push_data(tag, has_sign ? sign : '\0', false);
      advance_to(close + 2);
      end_tag(end_sign);
      return ok_status();
    }
    return fail("raw block without an end");
  }

  Status inside(bool variable) {
    while (true) {
      if (brackets_.empty() && try_end(variable)) return ok_status();
      if (at_ >= source_.size()) return fail("a tag has no end");
      if (is_space(character_at(source_, at_).code)) {
        skip_space();
        continue;
      }
      TRY_VOID(token());
    }
  }

  bool try_end(bool variable) {
    const std::string_view close = variable ? "}}" : "%}";
    const char sign = peek();
    const bool has_sign = sign == '-' || (sign == '+' && !variable);
    if (std::string_view(source_).substr(at_ + (has_sign ? 1 : 0), 2) != close) return false;
    push(variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
    at_ += 2 + (has_sign ? 1 : 0);
    end_tag(has_sign ? sign : variable ? '+' : '\0');
    return true;
  }

  Status token() {
    const char c = peek();
    if (is_digit(c)) return number();
    if (c == '\'' || c == '"') return string(c);
    if (!is_name_start(c)) return operation();
    std::size_t end = at_;
    while (end < source_.size() && is_name(source_[end])) ++end;
    push(TokenKind::kName, source_.substr(at_, end - at_));
    at_ = end;
    return ok_status();
  }

  Status number() {
    std::size_t end = at_;
    const auto digits = [&](std::size_t from) {
      while (from < source_.size() &&
             (is_digit(source_[from]) ||
              (source_[from] == '_' && from + 1 < source_.size() && is_digit(source_[from + 1])))) {
        ++from;
      }
      return from;
    };
    end = digits(at_);
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    const auto at = [&](std::size_t i) { return i < source_.size() ? source_[i] : '\0'; };
    bool real = false;
    if (!after_dot && at(end) == '.' && is_digit(at(end + 1))) {
      real = true;
      end = digits(end + 1);
    }
    if (!after_dot && (at(end) == 'e' || at(end) == 'E')) {
      const std::size_t exponent = end + (at(end + 1) == '+' || at(end + 1) == '-' ? 2 : 1);
      if (is_digit(at(exponent))) {
        real = true;
        end = digits(exponent);
      }
    }
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    const bool prefixed = text == "0" && is_name_start(at(end));
    if (prefixed || (!real && text.size() > 1 && text[0] == '0' &&
                     text.find_first_not_of('0') != std::string::npos)) {
      return fail("number '" + text + "' is not written in decimal");
    }
    push(real ? TokenKind::kFloat : TokenKind::kInteger, std::move(text));
    at_ = end;
    return ok_status();
  }

  Status string(char quote) {
    const std::uint32_t line = line_;
    std::string out;
    ++at_;
    while (true) {
      if (at_ >= source_.size()) return fail("a string has no closing quote");
      const char c = source_[at_];
      if (c == quote) break;
      if (c == '\\') {
        TRY_VOID(escape(out));
      } else {
        out += c;
        advance_to(at_ + 1);
      }
    }
    ++at_;
    tokens_.push_back({TokenKind::kString, line, std::move(out)});
    return ok_status();
  }

  Status escape(std::string& out) {
    const char c = peek(1);
    constexpr std::string_view kFrom = "ntr\\'\"abfv";
    constexpr std::string_view kTo = "\n\t\r\\'\"\a\b\f\v";
    const std::size_t known = c == '\0' ? std::string_view::npos : kFrom.find(c);
    if (known != std::string_view::npos) {
      out += kTo[known];
      at_ += 2;
      return ok_status();
    }
    if (c == 'x') return code_escape(out, 2);
    if (c == 'u') return code_escape(out, 4);
    if (c == 'U') return code_escape(out, 8);
    if (c == 'N') return fail("string escape \\N is not supported");
    if (c >= '0' && c <= '7') {
      std::uint32_t code = 0;
      ++at_;
      for (int i = 0; i < 3 && peek() >= '0' && peek() <= '7'; ++i, ++at_) {
        code = code * 8 + static_cast<std::uint32_t>(peek() - '0');
      }
      append_utf8(code, out);
      return ok_status();
    }
    if (c != '\n') out += '\\';  // an unknown escape stays as written
    advance_to(at_ + (c == '\n' ? 2 : 1));
    return ok_status();
  }

  Status code_escape(std::string& out, std::size_t digits) {
    std::uint32_t code = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      const char c = peek(2 + i);
      const int digit = is_digit(c)              ? c - '0'
                        : (c >= 'a' && c <= 'f') ? c - 'a' + 10
                        : (c >= 'A' && c <= 'F') ? c - 'A' + 10
                                                 : -1;
      if (digit < 0) return fail("a \\x or \\u escape of a string has too few digits");
      code = code * 16 + static_cast<std::uint32_t>(digit);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      return fail("a \\u escape of a string names no character");
    }
    append_utf8(code, out);
    at_ += 2 + digits;
    return ok_status();
  }

  Status operation() {
    constexpr std::string_view kPairs[] = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kSingles = "+-/*%~[](){}><=.:|,";
    std::string text(1, peek());
    for (const std::string_view pair : kPairs) {
      if (starts(pair)) text = pair;
    }
    if (text.size() == 1 && kSingles.find(text[0]) == std::string_view::npos) {
      const std::size_t length = character_at(source_, at_).length;
      return fail("unexpected character '" + source_.substr(at_, length) + "'");
    }
    const char c = text[0];
    if (c == '(' || c == '[' || c == '{')
      brackets_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty() || brackets_.back() != c) return fail("unexpected '" + text + "'");
      brackets_.pop_back();
    }
    const std::size_t length = text.size();
    push(TokenKind::kOperator, std::move(text));
    at_ += length;
    return ok_status();
  }

  std::string source_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  bool line_starting_ = true;
  std::vector<char> brackets_;
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
  REQUIRE(source.size() <= limits::kTemplateBytes,
          "chat template line 1: the template is longer than the limit of ", limits::kTemplateBytes,
          " bytes");
  return Lexer(normalized(source)).run();
}

}  // namespace hearth::model::jinja
