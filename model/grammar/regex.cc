#include "model/grammar/regex.h"

#include <optional>

#include "base/limits.h"
#include "base/utf8.h"
#include "model/grammar/encoding.h"
#include "model/grammar/expression.h"
#include "model/text/unicode.h"

namespace hearth::model {
namespace {

// Anchors are symbols at first. No symbol of a text touches them, so they never join its ranges.
constexpr Symbol kBegin = 0x120000;
constexpr Symbol kEnd = 0x120002;

const SymbolSet kDigits{{'0', '9'}};
const SymbolSet kWordPoints{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const SymbolSet kUnicodeSpaces{
    {0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const SymbolSet kLineEnds{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

SymbolSet points_of_class(CodePointClass wanted) {
  SymbolSet set;
  for (Symbol point = 0; point <= kLastCodePoint; ++point) {
    if (code_point_class(point) != wanted) continue;
    if (!set.empty() && set.back().high + 1 == point) {
      set.back().high = point;
    } else {
      set.push_back({point, point});
    }
  }
  return set;
}

// Unicode's classes that the tokenizers' table has.
const SymbolSet* property_of(std::string_view name) {
  static const SymbolSet kLetters = points_of_class(CodePointClass::kLetter);
  static const SymbolSet kNumbers = points_of_class(CodePointClass::kNumber);
  static const SymbolSet kPunctuation = points_of_class(CodePointClass::kPunctuation);
  if (name == "L" || name == "Letter") return &kLetters;
  if (name == "N" || name == "Number") return &kNumbers;
  if (name == "P" || name == "Punctuation") return &kPunctuation;
  return nullptr;
}

std::optional<Symbol> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<Symbol>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<Symbol>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<Symbol>(c - 'A' + 10);
  return std::nullopt;
}

class RegexParser {
 public:
  RegexParser(std::string_view text, Expressions& out) : text_(text), out_(out) {}

  Result<ExpressionId> parse() {
    TRY(const ExpressionId all, alternatives(0));
    if (!done()) return wrong("a closing parenthesis without an opening one");
    return all;
  }

 private:
  bool done() const { return at_ >= text_.size(); }
  bool next_is(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  bool take(std::string_view what) {
    if (!next_is(what)) return false;
    at_ += what.size();
    return true;
  }
  Error wrong(std::string_view what) const {
    return Error::invalid("regular expression: ", what, " at byte ", at_);
  }
  Error unserved(std::string_view what) const {
    return Error::of(ErrorCode::kUnsupported, "regular expression: ", what, " at byte ", at_,
                     " is not supported");
  }

  Result<ExpressionId> alternatives(std::uint32_t depth);
  Result<ExpressionId> sequence(std::uint32_t depth);
  Result<ExpressionId> atom(std::uint32_t depth);
  Result<ExpressionId> quantified(ExpressionId atom);
  Result<std::uint32_t> number();
  Result<Symbol> point();
  Result<SymbolSet> escape(bool in_class);
  Result<Symbol> hex(std::size_t digits);
  Result<Symbol> unicode_escape();
  Result<SymbolSet> property(bool inverted);
  Result<SymbolSet> bracket();

  std::string_view text_;
  Expressions& out_;
  std::size_t at_ = 0;
};

Result<ExpressionId> RegexParser::alternatives(std::uint32_t depth) {
  REQUIRE_SUPPORTED(depth <= limits::kGrammarNesting, "regular expression: groups nest more than ",
                    limits::kGrammarNesting, " deep");
  std::vector<ExpressionId> parts;
  do {
    TRY(const ExpressionId part, sequence(depth));
    parts.push_back(part);
  } while (take("|"));
  return out_.alternatives(std::move(parts));
}

Result<ExpressionId> RegexParser::sequence(std::uint32_t depth) {
  std::vector<ExpressionId> parts;
  while (!done() && !next_is("|") && !next_is(")")) {
    TRY(const ExpressionId one, atom(depth));
    TRY(const ExpressionId many, quantified(one));
    parts.push_back(many);
  }
  return out_.sequence(std::move(parts));
}

Result<Symbol> RegexParser::point() {
  const Utf8Char c = decode_utf8(text_, at_);
  if (!c.valid) return wrong("bytes that are not UTF-8");
  at_ += c.bytes;
  return static_cast<Symbol>(c.point);
}

Result<ExpressionId> RegexParser::atom(std::uint32_t depth) {
  if (take("^")) return out_.set({{kBegin, kBegin}});
  if (take("$")) return out_.set({{kEnd, kEnd}});
  if (take(".")) return out_.set(inverted(kLineEnds));
  if (next_is("(?=") || next_is("(?!") || next_is("(?<=") || next_is("(?<!")) {
    return unserved("look-around");
  }
  if (take("(")) {
    if (take("?<")) {
      while (!done() && text_[at_] != '>') ++at_;
      if (!take(">")) return wrong("a group's name without an end");
    } else if (next_is("?") && !take("?:")) {
      return unserved("this kind of group");
    }
    TRY(const ExpressionId inside, alternatives(depth + 1));
    if (!take(")")) return wrong("a missing closing parenthesis");
    return inside;
  }
  if (take("[")) {
    TRY(SymbolSet set, bracket());
    return out_.set(std::move(set));
  }
  if (take("\\")) {
    TRY(SymbolSet set, escape(false));
    return out_.set(std::move(set));
  }
  if (std::string_view("*+?").find(text_[at_]) != std::string_view::npos) {
    return wrong("a quantifier of nothing");
  }
  TRY(const Symbol literal, point());
  return out_.set({{literal, literal}});
}

Result<std::uint32_t> RegexParser::number() {
  std::uint64_t value = 0;
  const std::size_t begin = at_;
  for (; !done() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
    value = value * 10 + static_cast<std::uint64_t>(text_[at_] - '0');
    REQUIRE_SUPPORTED(value <= limits::kGrammarRepeat, "regular expression: the count at byte ",
                      begin, " is more than ", limits::kGrammarRepeat);
  }
  if (at_ == begin) return wrong("a count without digits");
  return static_cast<std::uint32_t>(value);
}

Result<ExpressionId> RegexParser::quantified(ExpressionId atom) {
  std::uint32_t min = 1;
  std::uint32_t max = 1;
  // A brace that begins no count is itself.
  const std::size_t begin = at_;
  if (take("*")) {
    min = 0;
    max = Grammar::kNoLimit;
  } else if (take("+")) {
    max = Grammar::kNoLimit;
  } else if (take("?")) {
    min = 0;
  } else if (take("{")) {
    if (done() || text_[at_] < '0' || text_[at_] > '9') {
      at_ = begin;
      return wrong("a brace that begins no count (write \\{)");
    }
    TRY(min, number());
    max = min;
    if (take(",")) {
      max = Grammar::kNoLimit;
      if (!next_is("}")) {
        TRY(max, number());
      }
    }
    if (!take("}")) return wrong("a count without its closing brace");
    if (min > max) return wrong("a count whose minimum is above its maximum");
  } else {
    return atom;
  }
  take("?");  // lazy: the same texts
  if (next_is("*") || next_is("+") || next_is("{")) return wrong("a quantifier of a quantifier");
  return out_.repeat(atom, min, max);
}

Result<Symbol> RegexParser::hex(std::size_t digits) {
  Symbol value = 0;
  for (std::size_t i = 0; i < digits; ++i, ++at_) {
    const auto digit = done() ? std::nullopt : hex_digit(text_[at_]);
    if (!digit) return wrong("an escape without its hex digits");
    value = value * 16 + *digit;
  }
  return value;
}

Result<Symbol> RegexParser::unicode_escape() {
  if (take("{")) {
    Symbol value = 0;
    std::size_t digits = 0;
    for (; !done() && hex_digit(text_[at_]) && digits < 6; ++at_, ++digits) {
      value = value * 16 + *hex_digit(text_[at_]);
    }
    if (digits == 0 || value > kLastCodePoint || !take("}"))
      return wrong("an escape that names no code point");
    return value;
  }
  TRY(const Symbol first, hex(4));
  if (first < 0xD800 || first > 0xDBFF || !take("\\u")) return first;
  TRY(const Symbol second, hex(4));
  if (second < 0xDC00 || second > 0xDFFF) return wrong("half of a surrogate pair");
  return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
}

Result<SymbolSet> RegexParser::property(bool invert) {
  const std::size_t end = text_.find('}', at_);
  if (!take("{") || end == std::string_view::npos) return wrong("a property without its name");
  const SymbolSet* set = property_of(text_.substr(at_, end - at_));
  if (set == nullptr) return unserved("a Unicode property other than L, N and P");
  at_ = end + 1;
  return invert ? inverted(*set) : *set;
}

// Behind the backslash.
Result<SymbolSet> RegexParser::escape(bool in_class) {
  if (done()) return wrong("a backslash with nothing after it");
  const char c = text_[at_++];
  const auto one = [](Symbol point) { return SymbolSet{{point, point}}; };
  switch (c) {
    case 'd': return kDigits;
    case 'D': return inverted(kDigits);
    case 'w': return kWordPoints;
    case 'W': return inverted(kWordPoints);
    case 's': return kUnicodeSpaces;
    case 'S': return inverted(kUnicodeSpaces);
    case 't': return one('\t');
    case 'n': return one('\n');
    case 'v': return one('\v');
    case 'f': return one('\f');
    case 'r': return one('\r');
    case 'p': return property(false);
    case 'P': return property(true);
    case 'x': {
      TRY(const Symbol point, hex(2));
      return one(point);
    }
    case 'u': {
      TRY(const Symbol point, unicode_escape());
      return one(point);
    }
    case 'c': {
      const bool letter = !done() && ((text_[at_] | 0x20) >= 'a' && (text_[at_] | 0x20) <= 'z');
      if (!letter) return wrong("\\c without a letter");
      return one(static_cast<Symbol>(text_[at_++] & 31));
    }
    case 'b':
      if (in_class) return one('\b');
      --at_;
      return unserved("a word boundary");
    case 'B': --at_; return unserved("a word boundary");
    case 'k': --at_; return unserved("a back reference");
    default: break;
  }
  if (c == '0' && (done() || text_[at_] < '0' || text_[at_] > '9')) return one(0);
  --at_;
  if (c >= '0' && c <= '9') return unserved("a back reference");
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
    return wrong("an escape that has no meaning");
  }
  TRY(const Symbol literal, point());
  return one(literal);
}

// Behind the opening bracket.
Result<SymbolSet> RegexParser::bracket() {
  const bool invert = take("^");
  SymbolSet set;
  while (!take("]")) {
    if (done()) return wrong("a class without its closing bracket");
    SymbolSet low;
    if (take("\\")) {
      TRY(low, escape(true));
    } else {
      TRY(const Symbol literal, point());
      low = {{literal, literal}};
    }
    const bool range = next_is("-") && !next_is("-]");
    if (!range) {
      set.insert(set.end(), low.begin(), low.end());
      continue;
    }
    ++at_;
    SymbolSet high;
    if (take("\\")) {
      TRY(high, escape(true));
    } else {
      TRY(const Symbol literal, point());
      high = {{literal, literal}};
    }
    const auto single = [](const SymbolSet& of) {
      return of.size() == 1 && of[0].low == of[0].high;
    };
    if (!single(low) || !single(high) || low[0].low > high[0].low) {
      return wrong("a range that is out of order");
    }
    set.push_back({low[0].low, high[0].low});
  }
  set = normalised(std::move(set));
  return invert ? inverted(set) : inverted(inverted(set));
}

// Where anchors may stand: the beginning only ahead of all code points, the end only behind them.
Dfa anchor_places() {
  Dfa places;
  places.states.assign(4, {});
  const auto text = [&](std::uint32_t from) {
    for (const SymbolRange& range : all_code_points())
      places.states[from].edges.push_back({range, 1});
  };
  text(0);
  places.states[0].edges.push_back({{kBegin, kBegin}, 0});
  places.states[0].edges.push_back({{kEnd, kEnd}, 3});
  text(1);
  places.states[1].edges.push_back({{kEnd, kEnd}, 2});
  places.states[2].edges.push_back({{kEnd, kEnd}, 2});
  places.states[3].edges.push_back({{kBegin, kBegin}, 3});
  places.states[3].edges.push_back({{kEnd, kEnd}, 3});
  for (Dfa::State& state : places.states) state.final = true;
  return places;
}

// The words without their anchors.
Result<Dfa> without_anchors(const Dfa& marked, Budget& budget) {
  Nfa nfa;
  for (std::size_t i = 0; i < marked.states.size(); ++i) nfa.add();
  for (std::uint32_t i = 0; i < marked.states.size(); ++i) {
    if (marked.states[i].final) nfa.set_final(i);
    for (const Dfa::Edge& edge : marked.states[i].edges) {
      if (edge.on.low >= kBegin) {
        nfa.skip(i, edge.next);
      } else {
        nfa.edge(i, edge.on, edge.next);
      }
    }
  }
  return nfa.determinise(0, budget);
}

}  // namespace

Result<Dfa> regex_automaton(std::string_view regex, RegexMatch match, Budget& budget) {
  REQUIRE_SUPPORTED(regex.size() <= limits::kGrammarSourceBytes,
                    "regular expression: ", regex.size(), " bytes; the limit is ",
                    limits::kGrammarSourceBytes);
  Expressions expressions;
  TRY(ExpressionId id, RegexParser(regex, expressions).parse());
  if (match == RegexMatch::kSearch) {
    const ExpressionId any =
        expressions.repeat(expressions.set(all_code_points()), 0, Grammar::kNoLimit);
    id = expressions.sequence({any, id, any});
  }
  TRY(const Dfa marked, expressions.automaton_of(id, budget));
  TRY(const Dfa placed, combine(marked, anchor_places(), SetOperation::kBoth, budget));
  return without_anchors(placed, budget);
}

}  // namespace hearth::model
