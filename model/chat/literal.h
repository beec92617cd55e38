// Values as models write them in calls, to JSON: JSON itself, Python's literals and Gemma's own
// form. Bounded in depth; every text is read once.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth::model {

// An object whose values are JSON texts, in order.
struct LiteralObject {
  std::vector<std::pair<std::string, std::string>> entries;
  const std::string* find(std::string_view key) const;
};

// The value as JSON text; valid JSON stays unchanged, byte by byte. In addition to JSON, this
// accepts single and triple quotes, True, False and None, bare keys, '=' in place of ':', a comma
// before the end, and `quote` (Gemma's <|"|>) as another quote. Nothing when it is not a value, or
// more follows it.
std::optional<std::string> literal_to_json(std::string_view text, std::string_view quote = {});
// The same for an object, `open` and `close` being its brackets.
std::optional<LiteralObject> read_literal_object(std::string_view text, char open, char close,
                                                 std::string_view quote = {});
// The values of a list, as JSON texts. Nothing when it is not a list, or more follows it.
std::optional<std::vector<std::string>> read_literal_list(std::string_view text);
// {"key": value, ...}
std::string object_json(const LiteralObject& object);
constexpr std::string_view kSpaces = " \t\r\n";   // white space of JSON, and around marks
std::string_view trimmed(std::string_view text);  // without kSpaces at its ends
std::string json_string(std::string_view text);   // with its quotes; invalid UTF-8 becomes U+FFFD
// The text of a JSON string; nothing for another value.
std::optional<std::string> text_of_json(std::string_view json);

// Follows brackets and quotes byte by byte to the end of a bracketed value.
class LiteralScanner {
 public:
  explicit LiteralScanner(bool single_quotes, std::string quote = {})
      : single_quotes_(single_quotes), quote_(std::move(quote)) {}
  // Takes text from the first bracket on and returns how many of its bytes belong to the value,
  // once it is whole. `text` holds all that earlier calls had.
  std::optional<std::size_t> end(std::string_view text);
  bool broken() const {
    return broken_;
  }  // a bracket closes that was not opened, or it is too deep

 private:
  bool single_quotes_;
  std::string quote_;
  std::size_t at_ = 0;
  std::string open_;  // brackets
  std::string in_;    // the quote that a string ends with; empty outside
  bool broken_ = false;
};

}  // namespace hearth::model
