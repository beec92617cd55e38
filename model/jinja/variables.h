// Variables: the values of the names of one rendering: globals, scopes and loops around the current
// statement, and the namespaces that it made. Names are numbers (Program::symbols).
//
// A Scope or Loop is in force from its construction to its destruction; they nest like the
// statements that they belong to, and outlive no Variables. Errors name the limit of the meter or
// the name; the interpreter adds line and construct.
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
#include "model/jinja/value.h"

namespace hearth::model::jinja {

class Variables {
 public:
  class Loop;

  // Names of their own, for a block or for a call of a macro.
  class Scope {
   public:
    // A block's scope, which sees the scopes and the loop around it.
    explicit Scope(Variables& of);
    // A macro's scope, which sees the scopes around its text: around(macro).
    Scope(Variables& of, Scope* around);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    friend class Variables;
    Variables& of_;
    Scope* const outer_;
    Loop* const outer_loop_;
    Scope* const parent_;  // null: above are the globals
    Loop* const loop_;     // that the block or the text of the macro sees
    std::vector<std::pair<std::uint32_t, Value>> names_;
  };

  // The value of 'loop' in the body of a for statement. `items` outlive it.
  class Loop {
   public:
    Loop(Variables& of, const std::vector<Value>& items);
    ~Loop();
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;
    const std::vector<Value>& items() const { return items_; }
    std::size_t index() const { return index_; }
    bool ended() const { return index_ == items_.size(); }
    void advance();

   private:
    Variables& of_;
    Loop* const outer_;
    const std::vector<Value>& items_;
    std::size_t index_ = 0;
  };

  // `program` and `meter` outlive the variables.
  Variables(const Program& program, Meter& meter) : program_(program), meter_(meter) {}
  // Once, before anything else: the functions, and the variables of the environment.
  Status set_globals(const Environment& environment);

  Result<Value> lookup(std::uint32_t symbol) const;
  // In the innermost scope, or the globals outside of every scope.
  Status set(std::uint32_t symbol, Value value);
  // The attribute of the namespace that the symbol names.
  Status set_attribute(std::uint32_t symbol, const std::string& attribute, Value value);
  Result<Value> make_namespace(const Arguments& given);
  // The scope around the text of a macro; null: the macro sees only the globals. An error if that
  // scope has ended or is not visible from here.
  Result<Scope*> around(const Macro& macro) const;

  const Loop* loop() const { return loop_; }  // null where the text stands in no loop
  bool at_globals() const { return scope_ == nullptr && loop_ == nullptr; }

 private:
  const Program& program_;
  Meter& meter_;
  std::vector<Value> globals_;  // by symbol
  Scope* scope_ = nullptr;      // innermost
  Loop* loop_ = nullptr;        // innermost around the text
  std::vector<std::unique_ptr<Namespace>> namespaces_;
};

}  // namespace hearth::model::jinja
