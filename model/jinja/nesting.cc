#include "model/jinja/nesting.h"

#include "base/limits.h"

namespace hearth::model::jinja {
namespace {

// Statements, expressions and macro calls together; each is a few frames of the stack.
constexpr std::uint32_t kEvaluationDepth = 8 * limits::kTemplateDepth;

}  // namespace

Status Nesting::enter() {
  TRY_VOID(meter_.steps(1));
  INVARIANT(depth_ <= kEvaluationDepth, "no level is entered past the limit");
  if (depth_ < kEvaluationDepth) {
    ++depth_;
    return ok_status();
  }
  return Error::invalid(
      "statements, expressions and macro calls are nested deeper than the limit"
      " of " +
      std::to_string(kEvaluationDepth));
}

Error Nesting::located(Error error, std::uint32_t line, const std::string& construct) {
  if (placed_) return error;
  placed_ = true;
  error.message =
      "chat template line " + std::to_string(line) + ", " + construct + ": " + error.message;
  return error;
}

}  // namespace hearth::model::jinja
