// Tokens to a parsed template.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "model/jinja/ast.h"

namespace hearth::model::jinja {

// kInvalidInput names line and construct; kUnsupported what lies outside the subset. An unknown
// filter or test is refused here. Under a condition, as in Jinja, it is refused only when a
// rendering reaches it.
Result<std::unique_ptr<const Program>> parse_program(std::string_view source);

}  // namespace hearth::model::jinja
