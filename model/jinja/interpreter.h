// The state of one rendering; statements are run by jinja_eval.cc, expressions by
// jinja_expr_eval.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/jinja/ast.h"
#include "model/jinja/builtins.h"
#include "model/jinja/eval.h"

namespace hearth::model::jinja {

class Interpreter {
 public:
  Interpreter(const Program& program, const Environment& environment, Meter& meter);
  Result<Text> run();

 private:
  enum class Flow : std::uint8_t { kNext, kBreak, kContinue };
  struct Scope {
    Scope* parent = nullptr;  // null: above are the globals
    std::vector<std::pair<std::uint32_t, Value>> names;
  };
  struct Loop {
    const std::vector<Value>* items = nullptr;
    std::size_t index = 0;
  };

  // Statements.
  Result<Flow> run_body(const Body& body);
  Result<Flow> run_statement(const Stmt& stmt);
  Result<Flow> dispatch(const Stmt& stmt);
  Result<Flow> run_if(const Stmt& stmt);
  Result<Flow> run_for(const Stmt& stmt);
  Result<Flow> run_loop(const Stmt& stmt, const std::vector<Value>& items);
  Result<std::vector<Value>> loop_items(const Stmt& stmt);
  Result<Value> captured(const Body& body);  // what a body writes, in a scope of its own
  Result<Value> filtered(const Expr& filters, const Value& input);
  Status assign(const Target& target, Value value);
  Status assign_attribute(const Target& target, Value value);
  Status set_name(std::uint32_t symbol, Value value);

  // Expressions.
  Result<Value> evaluate(const Expr& expr);
  Result<Value> evaluate_kind(const Expr& expr);
  Result<Value> lookup(const Expr& expr);
  Result<Value> loop_attribute(const Expr& expr);
  Result<Value> sequence(const Expr& expr);
  Result<Value> dict(const Expr& expr);
  Result<Value> subscript(const Expr& expr);
  Result<Value> slice(const Expr& expr);
  Result<Value> attribute(const Expr& expr);
  Result<Value> call(const Expr& expr);
  Result<Value> call_value(const Value& callee, const Arguments& arguments);
  Result<Value> call_macro(const Macro& macro, const Arguments& arguments);
  Status bind_parameters(const Macro& macro, const Arguments& arguments);
  Result<Value> call_function(Function function, const Arguments& arguments);
  Result<Value> make_namespace(const Arguments& arguments);
  Result<Value> filter(const Expr& expr);
  Result<Value> test(const Expr& expr);
  Result<Value> logic(const Expr& expr);
  Result<Value> sign(const Expr& expr);
  Result<Value> concat(const Expr& expr);
  Result<Value> conditional(const Expr& expr);
  Result<Value> comparison(const Expr& expr);
  Result<bool> compare_once(Operator op, const Value& left, const Value& right);
  Result<Value> arithmetic(const Expr& expr);
  Result<Arguments> arguments(const Expr& expr);

  Status enter();
  Error located(Error error, std::uint32_t line, const std::string& construct);

  const Program& program_;
  const Environment& environment_;
  Meter& meter_;
  std::vector<Value> globals_;  // by symbol
  Scope* scope_ = nullptr;      // innermost; null: the globals
  Loop* loop_ = nullptr;        // innermost of this macro
  TextBuilder* out_ = nullptr;
  const Value* block_ = nullptr;  // what a filter without an input is applied to
  std::uint32_t depth_ = 0;
  bool located_ = false;  // the error on its way up has its place
  std::vector<std::unique_ptr<Namespace>> namespaces_;
};

// left op right; kInvalidInput names the types that do not go together.
Result<Value> calculate(Meter& meter, Operator op, const Value& left, const Value& right);
// "filter 'x'", for errors.
std::string describe(const Expr& expr);
std::string undefined_message(const Value& value);

}  // namespace hearth::model::jinja
