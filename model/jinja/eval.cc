#include "model/jinja/eval.h"

#include "base/limits.h"
#include "model/jinja/interpreter.h"

namespace hearth::model::jinja {
namespace {

// Nested statements, expressions and macro calls together; each is a few frames of the stack.
constexpr std::uint32_t kEvaluationDepth = 8 * limits::kTemplateDepth;

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
    case StmtKind::kBreak: return "'break'";
    case StmtKind::kContinue: return "'continue'";
    case StmtKind::kMacro: return "'macro'";
  }
  return "statement";
}

}  // namespace

Interpreter::Interpreter(const Program& program, const Environment& environment, Meter& meter)
    : program_(program), environment_(environment), meter_(meter) {}

Result<Text> Interpreter::run() {
  TRY_VOID(meter_.create(program_.symbols.size() * sizeof(Value)));
  globals_.resize(program_.symbols.size());
  for (std::size_t i = 0; i < program_.symbols.size(); ++i) {
    const std::string& name = program_.symbols[i];
    globals_[i] = Undefined{&name};
    if (name == "range") globals_[i] = Function::kRange;
    if (name == "namespace") globals_[i] = Function::kNamespace;
    if (name == "dict") globals_[i] = Function::kDict;
    if (name == "raise_exception") globals_[i] = Function::kRaiseException;
    if (name == "strftime_now" && environment_.unix_seconds) {
      globals_[i] = Function::kStrftimeNow;
    }
    for (const auto& [variable, value] : environment_.variables) {
      if (name == variable) globals_[i] = value;
    }
  }
  TextBuilder out(meter_);
  out_ = &out;
  TRY_VOID(run_body(program_.body));
  return out.finish_text();
}

Status Interpreter::enter() {
  TRY_VOID(meter_.steps(1));
  if (++depth_ <= kEvaluationDepth) return ok_status();
  --depth_;
  return Error::invalid(
      "statements, expressions and macro calls are nested deeper than the limit"
      " of " +
      std::to_string(kEvaluationDepth));
}

Error Interpreter::located(Error error, std::uint32_t line, const std::string& construct) {
  if (located_) return error;
  located_ = true;
  error.message =
      "chat template line " + std::to_string(line) + ", " + construct + ": " + error.message;
  return error;
}

Result<Interpreter::Flow> Interpreter::run_body(const Body& body) {
  for (const auto& stmt : body) {
    TRY(const Flow flow, run_statement(*stmt));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_statement(const Stmt& stmt) {
  Status entered = enter();
  if (!entered.ok()) {
    return located(std::move(entered).error(), stmt.line, std::string(construct_name(stmt.kind)));
  }
  Result<Flow> result = dispatch(stmt);
  --depth_;
  if (result.ok() && out_->failed()) {
    Result<Text> failure = out_->finish_text();
    result = std::move(failure).error();
  }
  if (result.ok()) return result;
  return located(std::move(result).error(), stmt.line, std::string(construct_name(stmt.kind)));
}

Result<Interpreter::Flow> Interpreter::dispatch(const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::kText: out_->append(*stmt.text); break;
    case StmtKind::kOutput: {
      TRY(const Value value, evaluate(*stmt.expr));
      append_str(*out_, value);
      break;
    }
    case StmtKind::kIf: return run_if(stmt);
    case StmtKind::kFor: return run_for(stmt);
    case StmtKind::kSet: {
      TRY(Value value, evaluate(*stmt.expr));
      TRY_VOID(assign(stmt.target, std::move(value)));
      break;
    }
    case StmtKind::kSetBlock: {
      TRY(Value value, captured(stmt.body));
      if (stmt.expr != nullptr) {
        TRY(value, filtered(*stmt.expr, value));
      }
      TRY_VOID(assign(stmt.target, std::move(value)));
      break;
    }
    case StmtKind::kFilterBlock: {
      TRY(const Value value, captured(stmt.body));
      TRY(const Value result, filtered(*stmt.expr, value));
      append_str(*out_, result);
      break;
    }
    case StmtKind::kScope: {
      Scope inner{scope_, {}};
      scope_ = &inner;
      TRY_VOID(run_body(stmt.body));
      scope_ = inner.parent;
      break;
    }
    case StmtKind::kBreak: return Flow::kBreak;
    case StmtKind::kContinue: return Flow::kContinue;
    case StmtKind::kMacro:
      TRY_VOID(set_name(stmt.macro->symbol, static_cast<const Macro*>(stmt.macro.get())));
      break;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_if(const Stmt& stmt) {
  for (const Branch& branch : stmt.branches) {
    TRY(const Value condition, evaluate(*branch.condition));
    if (truthy(condition)) return run_body(branch.body);
  }
  return run_body(stmt.otherwise);
}

Result<std::vector<Value>> Interpreter::loop_items(const Stmt& stmt) {
  TRY(const Value iterable, evaluate(*stmt.expr));
  TRY(std::vector<Value> items, iterate(meter_, iterable));
  if (stmt.condition == nullptr) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    Scope inner{scope_, {}};
    scope_ = &inner;
    TRY_VOID(assign(stmt.target, item));
    TRY(const Value wanted, evaluate(*stmt.condition));
    scope_ = inner.parent;
    if (truthy(wanted)) kept.push_back(std::move(item));
  }
  return kept;
}

Result<Interpreter::Flow> Interpreter::run_for(const Stmt& stmt) {
  TRY(const std::vector<Value> items, loop_items(stmt));
  if (!items.empty()) return run_loop(stmt, items);
  Scope inner{scope_, {}};
  scope_ = &inner;
  TRY(const Flow flow, run_body(stmt.otherwise));
  scope_ = inner.parent;
  return flow;
}

Result<Interpreter::Flow> Interpreter::run_loop(const Stmt& stmt, const std::vector<Value>& items) {
  Loop loop{&items, 0};
  Loop* outer = loop_;
  loop_ = &loop;
  for (; loop.index < items.size(); ++loop.index) {
    Scope inner{scope_, {}};
    scope_ = &inner;
    TRY_VOID(assign(stmt.target, items[loop.index]));
    TRY(const Flow flow, run_body(stmt.body));
    scope_ = inner.parent;
    if (flow == Flow::kBreak) break;
  }
  loop_ = outer;
  return Flow::kNext;
}

Result<Value> Interpreter::captured(const Body& body) {
  TextBuilder inner_out(meter_);
  TextBuilder* outer_out = out_;
  Scope inner{scope_, {}};
  out_ = &inner_out;
  scope_ = &inner;
  Result<Flow> flow = run_body(body);
  out_ = outer_out;
  scope_ = inner.parent;
  TRY_VOID(std::move(flow));
  return inner_out.finish();
}

Result<Value> Interpreter::filtered(const Expr& filters, const Value& input) {
  const Value* outer = block_;
  block_ = &input;
  Result<Value> result = evaluate(filters);
  block_ = outer;
  return result;
}

Status Interpreter::assign(const Target& target, Value value) {
  if (target.kind == Target::Kind::kAttribute) return assign_attribute(target, std::move(value));
  if (target.kind == Target::Kind::kName) {
    return set_name(target.symbol, std::move(value));
  }
  TRY(std::vector<Value> parts, iterate(meter_, value));
  REQUIRE(parts.size() == target.parts.size(), "cannot unpack " + std::to_string(parts.size()) +
                                                   " values into " +
                                                   std::to_string(target.parts.size()) + " names");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    TRY_VOID(assign(target.parts[i], std::move(parts[i])));
  }
  return ok_status();
}

Status Interpreter::assign_attribute(const Target& target, Value value) {
  Expr name;
  name.symbol = target.symbol;
  TRY(const Value object, lookup(name));
  auto* const* space = std::get_if<Namespace*>(&object);
  REQUIRE(space != nullptr, "'" + program_.symbols[target.symbol] + "' is no namespace");
  TRY_VOID(meter_.steps(1 + (*space)->items.size() / 16));
  if (const Value* known = find_name(**space, target.attribute)) {
    *const_cast<Value*>(known) = std::move(value);
    return ok_status();
  }
  TRY_VOID(meter_.create(target.attribute.size() + sizeof(Value) * 2));
  (*space)->items.emplace_back(target.attribute, std::move(value));
  return ok_status();
}

Status Interpreter::set_name(std::uint32_t symbol, Value value) {
  if (scope_ == nullptr) {
    globals_[symbol] = std::move(value);
    return ok_status();
  }
  TRY_VOID(meter_.steps(scope_->names.size() / 16));
  for (auto& [known, slot] : scope_->names) {
    if (known != symbol) continue;
    slot = std::move(value);
    return ok_status();
  }
  scope_->names.emplace_back(symbol, std::move(value));
  return ok_status();
}

Result<Text> run_program(const Program& program, const Environment& environment, Meter& meter) {
  Interpreter interpreter(program, environment, meter);
  return interpreter.run();
}

}  // namespace hearth::model::jinja
