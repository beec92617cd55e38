// Runs a parsed template over its variables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/jinja/ast.h"
#include "model/jinja/value.h"

namespace hearth::model::jinja {

struct Environment {
  std::vector<std::pair<std::string_view, Value>> variables;
  std::optional<std::int64_t> unix_seconds;  // of strftime_now; undefined without it
};

// The output, with the spans that came from the request. Errors name line and construct; the
// message of raise_exception stands alone.
Result<Text> run_program(const Program& program, const Environment& environment, Meter& meter);

}  // namespace hearth::model::jinja
