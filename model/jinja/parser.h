// Tokens to a parsed template.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "model/jinja/ast.h"

namespace hearth::model::jinja {

// kInvalidInput names line and construct; kUnsupported what lies outside the subset. A filter or
// test that does not exist is refused here unless it stands under a condition: then, as in Jinja,
// only where it is reached.
Result<std::unique_ptr<const Program>> parse_program(std::string_view source);

}  // namespace hearth::model::jinja
