#include "model/text/pretokenizer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "model/text/unicode.h"

namespace hearth::model {

namespace {

constexpr std::pair<std::string_view, PreTokenizer> kNames[] = {
    {"default", PreTokenizer::kDefault},
    {"gpt-2", PreTokenizer::kGpt2},
    {"gpt2", PreTokenizer::kGpt2},
    {"phi-2", PreTokenizer::kGpt2},
    {"olmo", PreTokenizer::kGpt2},
    {"mpt", PreTokenizer::kGpt2},
    {"exaone4", PreTokenizer::kGpt2},
    {"smollm", PreTokenizer::kSmolLm},
    {"starcoder", PreTokenizer::kSmolLm},
    {"refact", PreTokenizer::kSmolLm},
    {"command-r", PreTokenizer::kSmolLm},
    {"codeshell", PreTokenizer::kSmolLm},
    {"exaone", PreTokenizer::kSmolLm},
    {"minerva-7b", PreTokenizer::kSmolLm},
    {"llama3", PreTokenizer::kLlama3},
    {"llama-v3", PreTokenizer::kLlama3},
    {"llama-bpe", PreTokenizer::kLlama3},
    {"falcon3", PreTokenizer::kLlama3},
    {"glm4", PreTokenizer::kGlm4},
    {"dbrx", PreTokenizer::kCl100k},
    {"smaug-bpe", PreTokenizer::kCl100k},
    {"chatglm-bpe", PreTokenizer::kCl100k},
    {"qwen2", PreTokenizer::kQwen2},
    {"deepseek-r1-qwen", PreTokenizer::kQwen2},
    {"stablelm2", PreTokenizer::kQwen2},
    {"megrez", PreTokenizer::kQwen2},
    {"qwen35", PreTokenizer::kQwen35},
    {"gpt-4o", PreTokenizer::kO200k},
    {"llama4", PreTokenizer::kO200k},
    {"kanana2", PreTokenizer::kO200k},
    {"tekken", PreTokenizer::kTekken},
    {"deepseek-llm", PreTokenizer::kDeepSeekLlm},
    {"deepseek-v3", PreTokenizer::kDeepSeekV3},
    {"kimi-k2", PreTokenizer::kKimi},
};

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// A text as code points: where each starts, and what the scanners ask about it.
struct Points {
  std::string_view text;
  std::vector<std::uint32_t> starts;  // one more than there are points
  std::vector<std::uint8_t> classes;
  std::vector<std::uint8_t> cases;  // LetterCase, where they are asked for

  Points(std::string_view source, PreTokenizer kind) : text(source) {
    const bool kimi = kind == PreTokenizer::kKimi;
    const bool with_cases = kimi || kind == PreTokenizer::kO200k || kind == PreTokenizer::kTekken ||
                            kind == PreTokenizer::kDeepSeekV3 || kind == PreTokenizer::kQwen35;
    starts.reserve(source.size() + 1);
    classes.reserve(source.size());
    if (with_cases) cases.reserve(source.size());
    for (std::size_t offset = 0; offset < source.size();) {
      const Utf8Char c = decode_utf8(source, offset);
      starts.push_back(static_cast<std::uint32_t>(offset));
      classes.push_back(static_cast<std::uint8_t>(code_point_class(c.point)));
      if (with_cases) {
        // Kimi's words of letters take no Chinese character.
        const bool apart = kimi && is_han(c.point);
        cases.push_back(
            static_cast<std::uint8_t>(apart ? LetterCase::kNone : letter_case(c.point)));
      }
      offset += c.bytes;
    }
    starts.push_back(static_cast<std::uint32_t>(source.size()));
  }
  std::size_t size() const { return classes.size(); }
  bool is(std::size_t at, CodePointClass kind) const {
    return classes[at] == static_cast<std::uint8_t>(kind);
  }
  char32_t point(std::size_t at) const { return decode_utf8(text, starts[at]).point; }
  // The first byte, which is a whole character only if it is ASCII.
  char byte(std::size_t at) const { return text[starts[at]]; }
};

// Words [begin, end) of points, in order and without gaps.
using Range = std::pair<std::uint32_t, std::uint32_t>;

// Alternatives of the published expressions, over the points [at, end). Each takes the longest
// match at `at` and returns where it ends, or `at` when there is no match.
class Scanner {
 public:
  Scanner(const Points& points, std::size_t end) : points_(points), end_(end) {}

  std::size_t run(std::size_t at, CodePointClass kind) const {
    while (at < end_ && points_.is(at, kind)) ++at;
    return at;
  }
  bool letter(std::size_t at) const { return has(at, CodePointClass::kLetter); }
  bool number(std::size_t at) const { return has(at, CodePointClass::kNumber); }
  bool space(std::size_t at) const { return has(at, CodePointClass::kSpace); }
  bool blank(std::size_t at) const { return at < end_ && points_.byte(at) == ' '; }
  bool newline(std::size_t at) const {
    return at < end_ && (points_.byte(at) == '\n' || points_.byte(at) == '\r');
  }
  bool slash(std::size_t at) const { return at < end_ && points_.byte(at) == '/'; }
  // \p{Han}*
  std::size_t han(std::size_t at) const {
    while (at < end_ && is_han(points_.point(at))) ++at;
    return at;
  }
  // [^\s\p{L}\p{N}]
  bool symbol(std::size_t at) const {
    return at < end_ && !letter(at) && !number(at) && !space(at);
  }
  bool punctuation(std::size_t at) const { return has(at, CodePointClass::kPunctuation); }
  bool sign(std::size_t at) const { return has(at, CodePointClass::kSymbol); }  // \p{S}
  bool accent(std::size_t at) const { return !letter(at) && lower(at); }        // \p{M}
  // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and [\p{Ll}\p{Lm}\p{Lo}\p{M}]
  bool upper(std::size_t at) const { return has_case(at, LetterCase::kUpper); }
  bool lower(std::size_t at) const { return has_case(at, LetterCase::kLower); }
  // '(s|t|re|ve|m|ll|d)
  std::size_t contraction(std::size_t at, bool any_case) const {
    if (at >= end_ || points_.byte(at) != '\'') return at;
    const char first = folded(at + 1, any_case);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    const char second = folded(at + 2, any_case);
    const bool two = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                     (first == 'l' && second == 'l');
    return two ? at + 3 : at;
  }
  //  ?[^\s\p{L}\p{N}]+
  std::size_t symbols(std::size_t at) const {
    std::size_t next = at + (blank(at) ? 1 : 0);
    if (!symbol(next)) return at;
    while (symbol(next)) ++next;
    return next;
  }
  // \s+(?!\S)|\s+ : leaves the last space of a run to the word that follows it.
  std::size_t spaces(std::size_t at) const {
    const std::size_t next = run(at, CodePointClass::kSpace);
    return next == end_ || next - at < 2 ? next : next - 1;
  }
  // \s*[\r\n]+
  std::size_t line_ends(std::size_t at) const {
    std::size_t after = at;
    for (std::size_t next = at; space(next); ++next) {
      if (newline(next)) after = next + 1;
    }
    return after;
  }

 private:
  bool has(std::size_t at, CodePointClass kind) const { return at < end_ && points_.is(at, kind); }
  bool has_case(std::size_t at, LetterCase kind) const {
    return at < end_ && (points_.cases[at] & static_cast<std::uint8_t>(kind)) != 0;
  }
  char folded(std::size_t at, bool any_case) const {
    if (at >= end_) return 0;
    const char c = points_.byte(at);
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }

  const Points& points_;
  std::size_t end_;
};

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::size_t gpt2_word(const Scanner& scan, std::size_t at) {
  if (const std::size_t next = scan.contraction(at, false); next != at) return next;
  const std::size_t inner = at + (scan.blank(at) ? 1 : 0);
  if (scan.letter(inner)) return scan.run(inner, CodePointClass::kLetter);
  if (scan.number(inner)) return scan.run(inner, CodePointClass::kNumber);
  if (const std::size_t next = scan.symbols(at); next != at) return next;
  return scan.spaces(at);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}| ?[^\s\p{L}\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+
std::size_t llama3_word(const Scanner& scan, std::size_t at, std::size_t digits) {
  if (const std::size_t next = scan.contraction(at, true); next != at) return next;
  if (scan.letter(at)) return scan.run(at, CodePointClass::kLetter);
  if (!scan.newline(at) && !scan.number(at) && scan.letter(at + 1)) {
    return scan.run(at + 1, CodePointClass::kLetter);
  }
  if (scan.number(at)) {
    std::size_t next = at + 1;
    while (next < at + digits && scan.number(next)) ++next;
    return next;
  }
  if (std::size_t next = scan.symbols(at); next != at) {
    while (scan.newline(next)) ++next;
    return next;
  }
  if (const std::size_t next = scan.line_ends(at); next != at) return next;
  return scan.spaces(at);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|
//  ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
std::size_t qwen35_word(const Scanner& scan, std::size_t at) {
  const auto marked = [&](std::size_t i) { return scan.letter(i) || scan.accent(i); };
  const auto symbol = [&](std::size_t i) { return scan.symbol(i) && !scan.accent(i); };
  if (const std::size_t next = scan.contraction(at, true); next != at) return next;
  const bool before = !marked(at) && !scan.newline(at) && !scan.number(at);
  if (std::size_t next = before ? at + 1 : at; marked(next)) {
    while (marked(next)) ++next;
    return next;
  }
  if (scan.number(at)) return at + 1;
  if (std::size_t next = at + (scan.blank(at) ? 1 : 0); symbol(next)) {
    while (symbol(next)) ++next;
    while (scan.newline(next)) ++next;
    return next;
  }
  if (const std::size_t next = scan.line_ends(at); next != at) return next;
  return scan.spaces(at);
}

// UPPER*LOWER+ and else UPPER+LOWER*, of a word whose letters begin at `from`; `from` where it has
// neither. The first gives back letters without a case until a LOWER can begin, and then takes one.
std::size_t o200k_letters(const Scanner& scan, std::size_t from, bool ends_lower) {
  std::size_t upper = from;
  while (scan.upper(upper)) ++upper;
  std::size_t next = upper;
  while (scan.lower(next)) ++next;
  if (next > upper || !ends_lower) return ends_lower || upper > from ? next : from;
  for (std::size_t at = upper; at > from; --at) {
    if (scan.lower(at - 1)) return at;
  }
  return from;
}

// With LETTERS for [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+ and
// then the same with + and * exchanged: LETTERS(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|
//  ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
// tekken's has each digit alone, and no contraction behind LETTERS. Kimi's begins with \p{Han}+|,
// has no Han in LETTERS, and no slash behind symbols.
std::size_t o200k_word(const Scanner& scan, std::size_t at, PreTokenizer kind) {
  const bool tekken = kind == PreTokenizer::kTekken;
  const bool kimi = kind == PreTokenizer::kKimi;
  if (const std::size_t next = kimi ? scan.han(at) : at; next != at) return next;
  const bool before = !scan.newline(at) && !scan.letter(at) && !scan.number(at);
  for (const bool ends_lower : {true, false}) {
    for (const std::size_t from : {before ? at + 1 : at, at}) {
      const std::size_t next = o200k_letters(scan, from, ends_lower);
      if (next > from) return tekken ? next : scan.contraction(next, true);
    }
  }
  if (scan.number(at)) {
    std::size_t next = at + 1;
    while (!tekken && next < at + 3 && scan.number(next)) ++next;
    return next;
  }
  if (std::size_t next = scan.symbols(at); next != at) {
    while (scan.newline(next) || (!kimi && scan.slash(next))) ++next;
    return next;
  }
  if (const std::size_t next = scan.line_ends(at); next != at) return next;
  return scan.spaces(at);
}

std::vector<Range> whole(const Points& points) {
  if (points.size() == 0) return {};
  return {{0, points.size()}};
}

// Cuts every range into the words that `word(scanner, at)` finds one after the other.
template <typename Word>
std::vector<Range> scan_words(const Points& points, const std::vector<Range>& ranges, Word word) {
  std::vector<Range> words;
  for (const Range& range : ranges) {
    const Scanner scan(points, range.second);
    for (std::size_t at = range.first; at < range.second;) {
      const std::size_t next = word(scan, at);
      words.emplace_back(at, next);
      at = next;
    }
  }
  return words;
}

// Cuts matches out of every range and keeps what lies between them. `match(at, end)` returns where
// a match that starts at `at` ends, or `at`.
template <typename Match>
std::vector<Range> isolate(const std::vector<Range>& ranges, Match match) {
  std::vector<Range> words;
  for (const auto& [begin, end] : ranges) {
    std::size_t open = begin;
    for (std::size_t at = begin; at < end;) {
      const std::size_t next = match(at, end);
      if (next == at) {
        ++at;
        continue;
      }
      if (open < at) words.emplace_back(open, at);
      words.emplace_back(at, next);
      open = at = next;
    }
    if (open < end) words.emplace_back(open, end);
  }
  return words;
}

std::vector<Range> smollm_words(const Points& points) {
  const auto digit = [&](std::size_t at, std::size_t) {
    return points.is(at, CodePointClass::kNumber) ? at + 1 : at;
  };
  return scan_words(points, isolate(whole(points), digit), gpt2_word);
}

// Four expressions, each within the words of the one before: [\p{P}\$\+<=>\^~\|]+, GPT-2's,
// \p{N}+ and [0-9][0-9][0-9].
std::vector<Range> default_words(const Points& points) {
  const auto mark = [&](std::size_t at) {
    return points.is(at, CodePointClass::kPunctuation) ||
           std::string_view("$+<=>^~|").find(points.byte(at)) != std::string_view::npos;
  };
  const auto marks = [&](std::size_t at, std::size_t end) {
    while (at < end && mark(at)) ++at;
    return at;
  };
  const auto numbers = [&](std::size_t at, std::size_t end) {
    while (at < end && points.is(at, CodePointClass::kNumber)) ++at;
    return at;
  };
  const auto three = [&](std::size_t at, std::size_t end) {
    const auto digit = [&](std::size_t i) {
      return points.byte(i) >= '0' && points.byte(i) <= '9';
    };
    return at + 3 <= end && digit(at) && digit(at + 1) && digit(at + 2) ? at + 3 : at;
  };
  std::vector<Range> words = scan_words(points, isolate(whole(points), marks), gpt2_word);
  return isolate(isolate(words, numbers), three);
}

// Inclusive ranges of code points, ascending.
using PointRange = std::pair<char32_t, char32_t>;

template <std::size_t size>
bool is_among(const PointRange (&ranges)[size], char32_t point) {
  const auto* after =
      std::upper_bound(std::begin(ranges), std::end(ranges), point,
                       [](char32_t value, const PointRange& range) { return value < range.first; });
  return after != std::begin(ranges) && point <= std::prev(after)->second;
}

// The letters with a case that DeepSeek's first models list.
constexpr PointRange kDeepSeekLetters[] = {
#include "model/text/deepseek_letters.inc"
};
// [!-/:-~！-／：-～‘-‟　-。]
constexpr PointRange kDeepSeekMarks[] = {{'!', '/'},       {':', '~'},       {0x2018, 0x201F},
                                         {0x3000, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}};
// [一-龥ࠀ-一가-퟿]
constexpr PointRange kDeepSeekScripts[] = {{0x800, 0x9FA5}, {0xAC00, 0xD7FF}};
// [一-龥぀-ゟ゠-ヿ]
constexpr PointRange kEastAsian[] = {{0x3040, 0x30FF}, {0x4E00, 0x9FA5}};

// The longest run of such points at `at`, behind one space where `after_space`.
template <std::size_t size>
std::size_t run_among(const Points& points, const PointRange (&ranges)[size], std::size_t at,
                      std::size_t end, bool after_space) {
  std::size_t next = at;
  if (after_space && points.is(at, CodePointClass::kSpace) && !is_among(ranges, points.point(at)))
    ++next;
  const std::size_t first = next;
  while (next < end && is_among(ranges, points.point(next))) ++next;
  return next == first ? at : next;
}

// Expressions one after the other, each within the words of those before: [\r\n],
// \s?[LETTERS]+, \s?[MARKS]+, \s+$, [SCRIPTS]+ and \p{N}+.
std::vector<Range> deepseek_llm_words(const Points& points) {
  std::vector<Range> words = isolate(whole(points), [&](std::size_t at, std::size_t) {
    return points.byte(at) == '\n' || points.byte(at) == '\r' ? at + 1 : at;
  });
  words = isolate(words, [&](std::size_t at, std::size_t end) {
    return run_among(points, kDeepSeekLetters, at, end, true);
  });
  words = isolate(words, [&](std::size_t at, std::size_t end) {
    return run_among(points, kDeepSeekMarks, at, end, true);
  });
  std::size_t end_of = 0;  // of the word whose last spaces begin at `spaces`
  std::size_t spaces = 0;
  words = isolate(words, [&](std::size_t at, std::size_t end) {
    if (end != end_of) {
      end_of = spaces = end;
      while (spaces > at && points.is(spaces - 1, CodePointClass::kSpace)) --spaces;
    }
    return at == spaces ? end : at;
  });
  words = isolate(words, [&](std::size_t at, std::size_t end) {
    return run_among(points, kDeepSeekScripts, at, end, false);
  });
  return isolate(words, [&](std::size_t at, std::size_t end) {
    while (at < end && points.is(at, CodePointClass::kNumber)) ++at;
    return at;
  });
}

// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
//  ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ ; `at` where none of them matches.
std::size_t deepseek_v3_word(const Points& points, std::size_t at, std::size_t end) {
  const Scanner scan(points, end);
  const auto latin = [&](std::size_t i) { return i < end && is_ascii_letter(points.byte(i)); };
  const auto mark = [&](std::size_t i) { return scan.punctuation(i) || scan.sign(i); };
  const auto letters = [&](std::size_t i) {
    while (scan.letter(i) || scan.accent(i)) ++i;
    return i;
  };
  const bool ascii = points.starts[at + 1] == points.starts[at] + 1;
  if (ascii && mark(at) && latin(at + 1)) {
    std::size_t next = at + 1;
    while (latin(next)) ++next;
    return next;
  }
  if (!scan.newline(at) && !scan.letter(at) && !mark(at)) {
    if (const std::size_t next = letters(at + 1); next > at + 1) return next;
  }
  if (const std::size_t next = letters(at); next != at) return next;
  std::size_t next = at + (scan.blank(at) ? 1 : 0);
  if (mark(next)) {
    while (mark(next)) ++next;
    while (scan.newline(next)) ++next;
    return next;
  }
  if (next = scan.line_ends(at); next != at) return next;
  return scan.space(at) ? scan.spaces(at) : at;
}

std::vector<Range> deepseek_v3_words(const Points& points) {
  std::vector<Range> words = isolate(whole(points), [&](std::size_t at, std::size_t end) {
    std::size_t next = at;
    while (next < end && next < at + 3 && points.is(next, CodePointClass::kNumber)) ++next;
    return next;
  });
  words = isolate(words, [&](std::size_t at, std::size_t end) {
    return run_among(points, kEastAsian, at, end, false);
  });
  return isolate(
      words, [&](std::size_t at, std::size_t end) { return deepseek_v3_word(points, at, end); });
}

std::vector<Range> words_by(PreTokenizer kind, const Points& points) {
  const auto llama3 = [](const Scanner& scan, std::size_t at) { return llama3_word(scan, at, 3); };
  const auto qwen2 = [](const Scanner& scan, std::size_t at) { return llama3_word(scan, at, 1); };
  const auto o200k = [kind](const Scanner& scan, std::size_t at) {
    return o200k_word(scan, at, kind);
  };
  switch (kind) {
    case PreTokenizer::kGpt2: return scan_words(points, whole(points), gpt2_word);
    case PreTokenizer::kSmolLm: return smollm_words(points);
    case PreTokenizer::kCl100k:
    case PreTokenizer::kGlm4:
    case PreTokenizer::kLlama3: return scan_words(points, whole(points), llama3);
    case PreTokenizer::kQwen2: return scan_words(points, whole(points), qwen2);
    case PreTokenizer::kQwen35: return scan_words(points, whole(points), qwen35_word);
    case PreTokenizer::kKimi:
    case PreTokenizer::kTekken:
    case PreTokenizer::kO200k: return scan_words(points, whole(points), o200k);
    case PreTokenizer::kDeepSeekLlm: return deepseek_llm_words(points);
    case PreTokenizer::kDeepSeekV3: return deepseek_v3_words(points);
    case PreTokenizer::kDefault: break;
  }
  return default_words(points);
}

}  // namespace

std::optional<PreTokenizer> find_pretokenizer(std::string_view name) {
  for (const auto& [known, kind] : kNames) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

std::string known_pretokenizers() {
  std::string names;
  for (const auto& [known, kind] : kNames) {
    if (!names.empty()) names += ", ";
    names += known;
  }
  return names;
}

std::vector<std::uint32_t> split_words(PreTokenizer kind, std::string_view text) {
  const Points points(text, kind);
  std::vector<std::uint32_t> ends;
  for (const Range& word : words_by(kind, points)) ends.push_back(points.starts[word.second]);
  return ends;
}

}  // namespace hearth::model
