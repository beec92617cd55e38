#include "model/grammar/gbnf.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "base/limits.h"
#include "base/utf8.h"
#include "model/grammar/encoding.h"

namespace hearth::model {
namespace {

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, Expressions& out) : text_(text), out_(out) {}

  Result<ExpressionId> parse() {
    space(true);
    while (!done()) TRY_VOID(rule());
    for (const auto& [name, entry] : rules_) {
      REQUIRE(entry.defined, "GBNF: the rule ", name, " is used on line ", entry.line,
              " but not defined");
    }
    const auto root = rules_.find("root");
    REQUIRE(root != rules_.end(), "GBNF: there is no rule named root, with which a text begins");
    return out_.call(root->second.rule);
  }

 private:
  struct Entry {
    Expressions::Rule rule = 0;
    std::uint64_t line = 0;  // of the first use
    bool defined = false;
  };

  bool done() const { return at_ >= text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  std::uint64_t line() const {
    const auto seen = text_.substr(0, std::min(at_, text_.size()));
    return 1 + static_cast<std::uint64_t>(std::ranges::count(seen, '\n'));
  }
  Error wrong(std::string_view what) const {
    return Error::invalid("GBNF: ", what, " on line ", line());
  }
  void space(bool lines) {
    for (; !done(); ++at_) {
      if (peek() == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        if (done()) return;
      }
      const bool blank = peek() == ' ' || peek() == '\t';
      if (!blank && !(lines && (peek() == '\n' || peek() == '\r'))) return;
    }
  }
  Result<Entry*> name();
  Status rule();
  Result<ExpressionId> alternatives(bool nested, std::uint32_t depth);
  Result<ExpressionId> sequence(bool nested, std::uint32_t depth);
  Result<std::optional<ExpressionId>> item(std::uint32_t depth);
  Result<ExpressionId> literal();
  Result<ExpressionId> bracket();
  Result<Symbol> point();
  Result<std::uint32_t> number();
  Result<ExpressionId> quantified(ExpressionId item, bool nested);

  std::string_view text_;
  Expressions& out_;
  std::size_t at_ = 0;
  std::map<std::string, Entry, std::less<>> rules_;
};

Result<GbnfParser::Entry*> GbnfParser::name() {
  const std::size_t begin = at_;
  while (!done() && is_name(peek())) ++at_;
  if (at_ == begin) return wrong("a rule's name is missing");
  const auto [found, added] = rules_.try_emplace(std::string(text_.substr(begin, at_ - begin)));
  if (added) {
    REQUIRE_SUPPORTED(rules_.size() <= limits::kGrammarRules, "GBNF: more than ",
                      limits::kGrammarRules, " rules");
    found->second.rule = out_.add_rule();
    found->second.line = line();
  }
  return &found->second;
}

Status GbnfParser::rule() {
  TRY(Entry * entry, name());
  space(false);
  if (!take("::=")) return wrong("::= is missing behind a rule's name");
  if (entry->defined) return wrong("a rule is defined for the second time");
  entry->defined = true;
  space(true);
  TRY(const ExpressionId body, alternatives(false, 0));
  out_.define(entry->rule, body);
  if (!done() && peek() != '\n' && peek() != '\r')
    return wrong("a rule contains something that is not a literal, class, name or group");
  space(true);
  return ok_status();
}

Result<ExpressionId> GbnfParser::alternatives(bool nested, std::uint32_t depth) {
  REQUIRE_SUPPORTED(depth <= limits::kGrammarNesting, "GBNF: groups nest more than ",
                    limits::kGrammarNesting, " deep on line ", line());
  std::vector<ExpressionId> parts;
  for (;;) {
    TRY(const ExpressionId part, sequence(nested, depth));
    parts.push_back(part);
    if (!take("|")) break;
    space(true);
  }
  return out_.alternatives(std::move(parts));
}

Result<ExpressionId> GbnfParser::sequence(bool nested, std::uint32_t depth) {
  std::vector<ExpressionId> parts;
  for (;;) {
    TRY(const std::optional<ExpressionId> one, item(depth));
    if (!one) break;
    space(nested);
    TRY(const ExpressionId many, quantified(*one, nested));
    parts.push_back(many);
  }
  return out_.sequence(std::move(parts));
}

// Empty where no item begins.
Result<std::optional<ExpressionId>> GbnfParser::item(std::uint32_t depth) {
  if (take("\"")) {
    TRY(const ExpressionId id, literal());
    return std::optional(id);
  }
  if (take("[")) {
    TRY(const ExpressionId id, bracket());
    return std::optional(id);
  }
  if (take(".")) return std::optional(out_.set(all_code_points()));
  if (take("(")) {
    space(true);
    TRY(const ExpressionId id, alternatives(true, depth + 1));
    if (!take(")")) return wrong("a closing parenthesis is missing");
    return std::optional(id);
  }
  if (!is_name(peek())) return std::optional<ExpressionId>();
  TRY(const Entry* entry, name());
  return std::optional(out_.call(entry->rule));
}

Result<Symbol> GbnfParser::point() {
  if (!take("\\")) {
    const Utf8Char c = decode_utf8(text_, at_);
    if (!c.valid) return wrong("bytes that are not UTF-8");
    at_ += c.bytes;
    return static_cast<Symbol>(c.point);
  }
  const char c = peek();
  ++at_;
  std::size_t digits = 0;
  switch (c) {
    case 'n': return Symbol{'\n'};
    case 'r': return Symbol{'\r'};
    case 't': return Symbol{'\t'};
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^': return static_cast<Symbol>(c);
    case 'x': digits = 2; break;
    case 'u': digits = 4; break;
    case 'U': digits = 8; break;
    default: return wrong("an escape that has no meaning");
  }
  Symbol value = 0;
  for (std::size_t i = 0; i < digits; ++i, ++at_) {
    const char digit = peek();
    const bool number = digit >= '0' && digit <= '9';
    const char lower = static_cast<char>(digit | 0x20);
    if (!number && (lower < 'a' || lower > 'f')) return wrong("an escape without its hex digits");
    value = value * 16 + static_cast<Symbol>(number ? digit - '0' : lower - 'a' + 10);
  }
  if (value > kLastCodePoint || (value >= 0xD800 && value <= 0xDFFF)) {
    return wrong("an escape that names no code point");
  }
  return value;
}

Result<ExpressionId> GbnfParser::literal() {
  std::u32string text;
  while (!take("\"")) {
    if (done() || peek() == '\n') return wrong("a closing quote is missing");
    TRY(const Symbol one, point());
    text.push_back(one);
  }
  return out_.literal(text);
}

Result<ExpressionId> GbnfParser::bracket() {
  const bool invert = take("^");
  SymbolSet set;
  while (!take("]")) {
    if (done()) return wrong("a closing bracket is missing");
    TRY(const Symbol low, point());
    Symbol high = low;
    if (peek() == '-' && !text_.substr(at_).starts_with("-]")) {
      ++at_;
      if (done()) return wrong("a closing bracket is missing");
      TRY(high, point());
    }
    if (high < low) return wrong("a range that is out of order");
    set.push_back({low, high});
  }
  set = inverted(normalised(std::move(set)));
  return out_.set(invert ? set : inverted(set));
}

Result<std::uint32_t> GbnfParser::number() {
  std::uint64_t value = 0;
  const std::size_t begin = at_;
  for (; peek() >= '0' && peek() <= '9'; ++at_) {
    value = value * 10 + static_cast<std::uint64_t>(peek() - '0');
    REQUIRE_SUPPORTED(value <= limits::kGrammarRepeat, "GBNF: a count on line ", line(),
                      " is more than ", limits::kGrammarRepeat);
  }
  if (at_ == begin) return wrong("a count without digits");
  return static_cast<std::uint32_t>(value);
}

Result<ExpressionId> GbnfParser::quantified(ExpressionId item, bool nested) {
  // Each of several quantifiers in a row applies to everything before it.
  for (std::uint32_t many = 0;; ++many) {
    std::uint32_t min = 0;
    std::uint32_t max = Grammar::kNoLimit;
    if (take("+")) {
      min = 1;
    } else if (take("?")) {
      max = 1;
    } else if (take("{")) {
      space(false);
      if (peek() != ',') {
        TRY(min, number());
        max = min;
        space(false);
      }
      if (take(",")) {
        space(false);
        max = Grammar::kNoLimit;
        if (peek() != '}') {
          TRY(max, number());
          space(false);
        }
      }
      if (!take("}")) return wrong("a count without its closing brace");
      if (min > max) return wrong("a count whose minimum is above its maximum");
    } else if (!take("*")) {
      return item;
    }
    REQUIRE_SUPPORTED(many < limits::kGrammarNesting, "GBNF: more than ", limits::kGrammarNesting,
                      " quantifiers of one item on line ", line());
    item = out_.repeat(item, min, max);
    space(nested);
  }
}

}  // namespace

Result<ExpressionId> parse_gbnf(std::string_view text, Expressions& out) {
  REQUIRE_SUPPORTED(text.size() <= limits::kGrammarSourceBytes, "GBNF: ", text.size(),
                    " bytes; the limit is ", limits::kGrammarSourceBytes);
  return GbnfParser(text, out).parse();
}

}  // namespace hearth::model
