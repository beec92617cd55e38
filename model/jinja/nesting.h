// Nesting: how deep a rendering is in statements, expressions and macro calls, and whether the
// error on its way up has its place. It bounds the depth, because every level takes stack.
#pragma once

#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/result.h"
#include "model/jinja/value.h"

namespace hearth::model::jinja {

class Nesting {
 public:
  explicit Nesting(Meter& meter) : meter_(meter) {}

  // One level and one step. On success leave() ends the level; an error has entered nothing.
  Status enter();
  void leave() {
    INVARIANT(depth_ > 0, "every level that was entered is left once");
    --depth_;
  }
  std::uint32_t depth() const { return depth_; }

  // Puts line and construct before the message, unless an inner level has done so: the innermost
  // place counts.
  Error located(Error error, std::uint32_t line, const std::string& construct);
  // The next error keeps its message as it is: raise_exception's stands alone.
  void leave_unplaced() { placed_ = true; }

 private:
  Meter& meter_;
  std::uint32_t depth_ = 0;
  bool placed_ = false;
};

}  // namespace hearth::model::jinja
