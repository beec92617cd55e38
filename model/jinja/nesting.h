// Nesting: the depth of a rendering in statements, expressions and macro calls, and whether the
// current error already has its place. It bounds the depth, because every level takes stack.
#pragma once

#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/limits.h"
#include "base/result.h"
#include "model/jinja/value.h"

namespace hearth::model::jinja {

class Nesting {
 public:
  explicit Nesting(Meter& meter) : meter_(meter) {}

  // One level and one step. After success, leave() ends the level. After an error, no level was
  // entered.
  Status enter() {
    TRY_VOID(meter_.steps(1));
    INVARIANT(depth_ <= kEvaluationDepth, "no level is entered past the limit");
    if (depth_ == kEvaluationDepth) {
      return Error::invalid(
          "statements, expressions and macro calls are nested deeper than the limit of ",
          kEvaluationDepth);
    }
    ++depth_;
    return ok_status();
  }
  void leave() {
    INVARIANT(depth_ > 0, "every level that was entered is left once");
    --depth_;
  }
  std::uint32_t depth() const { return depth_; }

  // Puts line and construct before the message, unless an inner level has done so: the innermost
  // place counts.
  Error located(Error error, std::uint32_t line, const std::string& construct) {
    if (placed_) return error;
    placed_ = true;
    error.message =
        "chat template line " + std::to_string(line) + ", " + construct + ": " + error.message;
    return error;
  }
  // The next error keeps its message as it is: raise_exception's stands alone.
  void leave_unplaced() { placed_ = true; }

 private:
  // Statements, expressions and macro calls together; each is a few frames of the stack.
  static constexpr std::uint32_t kEvaluationDepth = 8 * limits::kTemplateDepth;

  Meter& meter_;
  std::uint32_t depth_ = 0;
  bool placed_ = false;
};

}  // namespace hearth::model::jinja
