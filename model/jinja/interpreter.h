// Interpreter: runs the statements of a parsed template, once. It holds all state of the rendering:
// the variables, the nesting, the evaluator of the expressions, and the text that statements write.
// Errors name line and construct.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "model/jinja/ast.h"
#include "model/jinja/eval.h"
#include "model/jinja/evaluator.h"
#include "model/jinja/nesting.h"
#include "model/jinja/variables.h"

namespace hearth::model::jinja {

class Interpreter {
 public:
  // All three outlive the interpreter.
  Interpreter(const Program& program, const Environment& environment, Meter& meter);
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;
  Result<Text> run();

 private:
  enum class Flow : std::uint8_t { kNext, kBreak, kContinue };

  Result<Flow> run_body(const Body& body);
  Result<Flow> run_statement(const Stmt& stmt);
  Result<Flow> dispatch(const Stmt& stmt);
  Result<Flow> run_if(const Stmt& stmt);
  Result<Flow> run_for(const Stmt& stmt);
  Result<Flow> run_loop(const Stmt& stmt, const std::vector<Value>& items);
  Result<std::vector<Value>> loop_items(const Stmt& stmt);
  Result<Value> captured(const Body& body);  // what a body writes, in a scope of its own
  Status assign(const Target& target, Value value);

  const Program& program_;
  const Environment& environment_;
  Meter& meter_;
  Variables variables_;
  Nesting nesting_;
  Evaluator evaluator_;
  TextBuilder* out_ = nullptr;  // what the running statement writes to
};

}  // namespace hearth::model::jinja
