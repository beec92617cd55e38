// Evaluator: the values of the expressions of one rendering, macro calls and functions included.
// The interpreter runs the bodies of macros for it. Errors name line and construct; every level is
// counted by the shared Nesting, and every value by the shared Meter.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "model/jinja/ast.h"
#include "model/jinja/builtins.h"
#include "model/jinja/nesting.h"
#include "model/jinja/value.h"
#include "model/jinja/variables.h"

namespace hearth::model::jinja {

class Evaluator {
 public:
  // Runs a body in a scope of its own and returns what it writes.
  using Capture = std::function<Result<Value>(const Body& body)>;

  // `meter`, `variables` and `nesting` outlive the evaluator. `unix_seconds` is strftime_now's
  // time.
  Evaluator(Meter& meter, Variables& variables, Nesting& nesting,
            std::optional<std::int64_t> unix_seconds, Capture capture)
      : meter_(meter),
        variables_(variables),
        nesting_(nesting),
        unix_seconds_(unix_seconds),
        capture_(std::move(capture)) {}

  Result<Value> evaluate(const Expr& expr);
  // Applies the filters of a block to its output.
  Result<Value> filtered(const Expr& filters, const Value& input);

 private:
  Result<Value> evaluate_kind(const Expr& expr);
  Result<Value> loop_attribute(const Expr& expr);
  Result<Value> sequence(const Expr& expr);
  Result<Value> dict(const Expr& expr);
  Result<Value> subscript(const Expr& expr);
  Result<Value> slice(const Expr& expr);
  Result<Value> attribute(const Expr& expr);
  Result<Value> call(const Expr& expr);
  Result<Value> append_to(const Value& object, const Arguments& given);
  Result<bool> holds_alone(const Expr& place, const Value& object) const;
  Result<Value> call_value(const Value& callee, const Arguments& given);
  Result<Value> call_macro(const Macro& macro, const Arguments& given);
  Status bind_parameters(const Macro& macro, const Arguments& given);
  Result<Value> call_function(Function function, const Arguments& given);
  Result<Value> filter(const Expr& expr);
  Result<Value> test(const Expr& expr);
  Result<Value> logic(const Expr& expr);
  Result<Value> sign(const Expr& expr);
  Result<Value> concat(const Expr& expr);
  Result<Value> conditional(const Expr& expr);
  Result<Value> comparison(const Expr& expr);
  Result<Value> arithmetic(const Expr& expr);
  Result<Arguments> arguments(const Expr& expr);

  Meter& meter_;
  Variables& variables_;
  Nesting& nesting_;
  const std::optional<std::int64_t> unix_seconds_;
  const Capture capture_;
  const Value* block_ = nullptr;  // the input of a filter without an explicit one
};

// left op right; kInvalidInput names the types that do not go together.
Result<Value> calculate(Meter& meter, Operator op, const Value& left, const Value& right);
Result<bool> compare_by(Meter& meter, Operator op, const Value& left, const Value& right);
// "filter 'x'", for errors.
std::string describe(const Expr& expr);
std::string undefined_message(const Value& value);

}  // namespace hearth::model::jinja
