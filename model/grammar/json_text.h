// A JSON text in memory: members in their order, numbers as they are written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hearth::model {

struct JsonMember;

struct Json {
  enum class Kind : std::uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  std::string text;  // of a string, in UTF-8; of a number, its digits
  std::vector<Json> items;
  std::vector<JsonMember> members;

  bool is(Kind wanted) const { return kind == wanted; }
  bool is_bool() const { return kind == Kind::kFalse || kind == Kind::kTrue; }
  const Json* find(std::string_view name) const;  // nullptr: none
};

struct JsonMember {
  std::string name;
  Json value;
};

// kInvalidInput names the byte. Of two members with one name the last counts. Nesting is bounded by
// limits::kGrammarNesting, the text by limits::kGrammarSourceBytes.
Result<Json> parse_json(std::string_view text);

}  // namespace hearth::model
