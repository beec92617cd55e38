#include "model/jinja/eval.h"

#include "base/check.h"
#include "model/jinja/evaluator.h"
#include "model/jinja/nesting.h"
#include "model/jinja/variables.h"

namespace hearth::model::jinja {
namespace {

std::string_view construct_name(StmtKind kind) {
  switch (kind) {
    case StmtKind::kText: return "text";
    case StmtKind::kOutput: return "'{{'";
    case StmtKind::kIf: return "'if'";
    case StmtKind::kFor: return "'for'";
    case StmtKind::kSet:
    case StmtKind::kSetBlock: return "'set'";
    case StmtKind::kFilterBlock: return "'filter'";
    case StmtKind::kScope: return "'generation'";
    case StmtKind::kWith: return "'with'";
    case StmtKind::kBreak: return "'break'";
    case StmtKind::kContinue: return "'continue'";
    case StmtKind::kMacro: return "'macro'";
  }
  return "statement";
}

// Runs the statements of a parsed template, once. It holds all state of the rendering: the
// variables, the nesting, the evaluator of the expressions, and the text that statements write.
class Interpreter {
 public:
  // All three outlive the interpreter.
  Interpreter(const Program& program, const Environment& environment, Meter& meter)
      : program_(program),
        environment_(environment),
        meter_(meter),
        variables_(program, meter),
        nesting_(meter),
        evaluator_(meter, variables_, nesting_, environment.unix_seconds,
                   [this](const Body& body) { return captured(body); }) {}
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Result<Text> run() {
    INVARIANT(out_ == nullptr, "an interpreter renders once");
    TRY_VOID(variables_.set_globals(environment_));
    TextBuilder out(meter_);
    out_ = &out;
    TRY_VOID(run_body(program_.body));
    INVARIANT(nesting_.depth() == 0 && variables_.at_globals() && out_ == &out,
              "a rendering leaves every level that it entered");
    return out.finish_text();
  }

 private:
  enum class Flow : std::uint8_t { kNext, kBreak, kContinue };

  Result<Flow> run_body(const Body& body) {
    for (const auto& stmt : body) {
      TRY(const Flow flow, run_statement(*stmt));
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  Result<Flow> run_statement(const Stmt& stmt) {
    Status entered = nesting_.enter();
    if (!entered.ok()) {
      return nesting_.located(std::move(entered).error(), stmt.line,
                              std::string(construct_name(stmt.kind)));
    }
    Result<Flow> result = dispatch(stmt);
    nesting_.leave();
    if (result.ok() && out_->failed()) {
      Result<Text> failure = out_->finish_text();
      result = std::move(failure).error();
    }
    if (result.ok()) return result;
    return nesting_.located(std::move(result).error(), stmt.line,
                            std::string(construct_name(stmt.kind)));
  }

  Result<Flow> dispatch(const Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::kText: out_->append(*stmt.text); break;
      case StmtKind::kOutput: {
        TRY(const Value value, evaluator_.evaluate(*stmt.expr));
        append_str(*out_, value);
        break;
      }
      case StmtKind::kIf: return run_if(stmt);
      case StmtKind::kFor: return run_for(stmt);
      case StmtKind::kSet: {
        TRY(Value value, evaluator_.evaluate(*stmt.expr));
        TRY_VOID(assign(stmt.target, std::move(value)));
        break;
      }
      case StmtKind::kSetBlock: {
        TRY(Value value, captured(stmt.body));
        if (stmt.expr != nullptr) {
          TRY(value, evaluator_.filtered(*stmt.expr, value));
        }
        TRY_VOID(assign(stmt.target, std::move(value)));
        break;
      }
      case StmtKind::kFilterBlock: {
        TRY(const Value value, captured(stmt.body));
        TRY(const Value result, evaluator_.filtered(*stmt.expr, value));
        append_str(*out_, result);
        break;
      }
      case StmtKind::kScope: {
        const Variables::Scope inner(variables_);
        TRY_VOID(run_body(stmt.body));
        break;
      }
      case StmtKind::kWith: {
        TRY(Value values, evaluator_.evaluate(*stmt.expr));
        const Variables::Scope inner(variables_);
        TRY_VOID(assign(stmt.target, std::move(values)));
        return run_body(stmt.body);
      }
      case StmtKind::kBreak: return Flow::kBreak;
      case StmtKind::kContinue: return Flow::kContinue;
      case StmtKind::kMacro:
        TRY_VOID(variables_.set(stmt.macro->symbol, static_cast<const Macro*>(stmt.macro.get())));
        break;
    }
    return Flow::kNext;
  }

  Result<Flow> run_if(const Stmt& stmt) {
    for (const Branch& branch : stmt.branches) {
      TRY(const Value condition, evaluator_.evaluate(*branch.condition));
      if (truthy(condition)) return run_body(branch.body);
    }
    return run_body(stmt.otherwise);
  }

  Result<Flow> run_for(const Stmt& stmt) {
    TRY(const std::vector<Value> items, loop_items(stmt));
    if (!items.empty()) return run_loop(stmt, items);
    const Variables::Scope inner(variables_);
    return run_body(stmt.otherwise);
  }

  Result<Flow> run_loop(const Stmt& stmt, const std::vector<Value>& items) {
    for (Variables::Loop loop(variables_, items); !loop.ended(); loop.advance()) {
      const Variables::Scope inner(variables_);
      TRY_VOID(assign(stmt.target, items[loop.index()]));
      TRY(const Flow flow, run_body(stmt.body));
      if (flow == Flow::kBreak) break;
    }
    return Flow::kNext;
  }

  Result<std::vector<Value>> loop_items(const Stmt& stmt) {
    TRY(const Value iterable, evaluator_.evaluate(*stmt.expr));
    TRY(std::vector<Value> items, iterate(meter_, iterable));
    if (stmt.condition == nullptr) return items;
    std::vector<Value> kept;
    for (Value& item : items) {
      const Variables::Scope inner(variables_);
      TRY_VOID(assign(stmt.target, item));
      TRY(const Value wanted, evaluator_.evaluate(*stmt.condition));
      if (truthy(wanted)) kept.push_back(std::move(item));
    }
    return kept;
  }

  // The output of a body, which runs in a scope of its own. `out_` is restored before the error
  // goes up, because run_statement() asks it for its own error.
  Result<Value> captured(const Body& body) {
    TextBuilder inner_out(meter_);
    TextBuilder* outer_out = std::exchange(out_, &inner_out);
    const Variables::Scope inner(variables_);
    Result<Flow> flow = run_body(body);
    INVARIANT(out_ == &inner_out, "inner captures have ended");
    out_ = outer_out;
    TRY_VOID(std::move(flow));
    return inner_out.finish();
  }

  Status assign(const Target& target, Value value) {
    if (target.kind == Target::Kind::kAttribute) {
      return variables_.set_attribute(target.symbol, target.attribute, std::move(value));
    }
    if (target.kind == Target::Kind::kName) return variables_.set(target.symbol, std::move(value));
    TRY(std::vector<Value> parts, iterate(meter_, value));
    REQUIRE(parts.size() == target.parts.size(), "cannot unpack ", parts.size(), " values into ",
            target.parts.size(), " names");
    for (std::size_t i = 0; i < parts.size(); ++i) {
      TRY_VOID(assign(target.parts[i], std::move(parts[i])));
    }
    return ok_status();
  }

  const Program& program_;
  const Environment& environment_;
  Meter& meter_;
  Variables variables_;
  Nesting nesting_;
  Evaluator evaluator_;
  TextBuilder* out_ = nullptr;  // the output of the running statement
};

}  // namespace

Result<Text> run_program(const Program& program, const Environment& environment, Meter& meter) {
  return Interpreter(program, environment, meter).run();
}

}  // namespace hearth::model::jinja
