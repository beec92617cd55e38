// The parsed template. Immutable after parsing; renderings on several threads share it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/jinja/value.h"

namespace hearth::model::jinja {

enum class ExprKind : std::uint8_t {
  kConstant,     // constant
  kName,         // name, symbol
  kLoop,         // name: the attribute of the innermost loop; empty: the loop itself
  kList,         // args
  kTuple,        // args
  kDict,         // args: key, value, key, value ...
  kSubscript,    // args: object, key
  kSlice,        // args: object, start, stop, step; the last three may be null
  kAttribute,    // args: object; name
  kCall,         // args: callee, positional ...; named
  kFilter,       // args: input (null: the body of a block), positional ...; named; name
  kTest,         // args: input, positional ...; named; name
  kNot,          // args: one
  kNegate,       // args: one
  kPlus,         // args: one
  kAnd,          // args: two or more
  kOr,           // args: two or more
  kConcat,       // args: two or more
  kConditional,  // args: value, condition, otherwise (may be null)
  kCompare,      // args: n, ops: n - 1
  kArithmetic,   // args: n, ops: n - 1, from the left
  kUnsupported,  // name: what the subset lacks
};

enum class Operator : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};
std::string_view operator_name(Operator op);

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  std::uint32_t line = 1;
  std::uint32_t height = 1;  // longest way down to a leaf; bounds the depth of evaluation
  std::uint32_t symbol = 0;  // index into Program::symbols
  std::string name;
  Value constant;
  std::vector<ExprPtr> args;
  std::vector<Operator> ops;
  std::vector<std::pair<std::string, ExprPtr>> named;
};

// The target of a set or for statement.
struct Target {
  enum class Kind : std::uint8_t { kName, kAttribute, kTuple };
  Kind kind = Kind::kName;
  std::uint32_t symbol = 0;
  std::string attribute;  // of the namespace that the symbol names
  std::vector<Target> parts;
};

enum class StmtKind : std::uint8_t {
  kText,         // text
  kOutput,       // expr
  kIf,           // branches, otherwise
  kFor,          // target, expr, condition (may be null), body, otherwise
  kSet,          // target, expr
  kSetBlock,     // target, expr: filters (may be null), body
  kFilterBlock,  // expr: filters, body
  kScope,        // body: a generation block
  kWith,         // target, expr: tuples of as many parts; body
  kBreak,
  kContinue,
  kMacro,  // macro
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Branch {
  ExprPtr condition;
  Body body;
};

struct Parameter {
  std::string name;
  std::uint32_t symbol = 0;
  ExprPtr fallback;  // may be null: undefined
};

struct Macro {
  std::string name;
  std::uint32_t symbol = 0;
  std::vector<Parameter> parameters;
  Body body;
  bool nested = false;   // its text is in a scope and sees the names of that scope
  bool of_call = false;  // the block of a call statement, which the macro called knows as 'caller'
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  std::uint32_t line = 1;
  TextPtr text;
  Target target;
  ExprPtr expr;
  ExprPtr condition;
  Body body;
  Body otherwise;
  std::vector<Branch> branches;
  std::unique_ptr<Macro> macro;
};

struct Program {
  Body body;
  std::vector<std::string> symbols;
};

}  // namespace hearth::model::jinja
