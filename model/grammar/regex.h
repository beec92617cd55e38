// Regular expressions: the syntax of ECMA-262 with the flag u, without look-around, references and
// word boundaries. Code points, not UTF-16 units.
#pragma once

#include <string_view>

#include "base/result.h"
#include "model/grammar/automaton.h"

namespace hearth::model {

enum class RegexMatch : std::uint8_t {
  kWhole,   // the whole text matches
  kSearch,  // some part of it does, as JSON Schema's `pattern` asks
};

// The texts that match, as an automaton over code points. kInvalidInput or kUnsupported names the
// construct and its byte.
Result<Dfa> regex_automaton(std::string_view regex, RegexMatch match, Budget& budget);

}  // namespace hearth::model
