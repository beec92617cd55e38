// GBNF, the notation of llama.cpp's grammars: rules `name ::= alternatives`, of literals "...",
// classes [...], ".", names, groups and the quantifiers * + ? {n} {n,} {n,m}. Texts are UTF-8.
#pragma once

#include <string_view>

#include "base/result.h"
#include "model/grammar/expression.h"

namespace hearth::model {

// A call of the rule `root`. Errors name the line.
Result<Expressions::Id> parse_gbnf(std::string_view text, Expressions& out);

}  // namespace hearth::model
