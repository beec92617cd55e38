// JSON texts that a schema allows, as expressions. Spacing: none, but at most one space behind each
// comma and colon. Members: declared ones in the order of `properties` (then of `required`), each
// at most once; then others.
#pragma once

#include <string_view>

#include "base/result.h"
#include "model/grammar/expression.h"

namespace hearth::model {

// Errors name the keyword and its JSON pointer.
Result<Expressions::Id> schema_expression(std::string_view schema, Expressions& out,
                                          Budget& budget);
Result<Expressions::Id> any_object_expression(Expressions& out, Budget& budget);

}  // namespace hearth::model
