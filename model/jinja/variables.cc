#include "model/jinja/variables.h"

#include "base/check.h"

namespace hearth::model::jinja {

Variables::Scope::Scope(Variables& of)
    : of_(of), outer_(of.scope_), outer_loop_(of.loop_), parent_(of.scope_), loop_(of.loop_) {
  of_.scope_ = this;
}

Variables::Scope::Scope(Variables& of, Scope* around)
    : of_(of),
      outer_(of.scope_),
      outer_loop_(of.loop_),
      parent_(around),
      loop_(around != nullptr ? around->loop_ : nullptr) {
  of_.scope_ = this;
  of_.loop_ = loop_;
}

Variables::Scope::~Scope() {
  INVARIANT(of_.scope_ == this, "scopes end in the reverse order of their beginnings");
  of_.scope_ = outer_;
  of_.loop_ = outer_loop_;
}

Variables::Loop::Loop(Variables& of, const std::vector<Value>& items)
    : of_(of), outer_(of.loop_), items_(items) {
  of_.loop_ = this;
}

Variables::Loop::~Loop() {
  INVARIANT(of_.loop_ == this, "loops end in the reverse order of their beginnings");
  of_.loop_ = outer_;
}

void Variables::Loop::advance() {
  INVARIANT(!ended(), "a loop ends at its last item");
  ++index_;
}

Status Variables::set_globals(const Environment& environment) {
  INVARIANT(globals_.empty() && at_globals(), "a rendering begins with its globals");
  TRY_VOID(meter_.create(program_.symbols.size() * sizeof(Value)));
  globals_.resize(program_.symbols.size());
  for (std::size_t i = 0; i < program_.symbols.size(); ++i) {
    const std::string& name = program_.symbols[i];
    globals_[i] = Undefined{&name};
    if (name == "range") globals_[i] = Function::kRange;
    if (name == "namespace") globals_[i] = Function::kNamespace;
    if (name == "dict") globals_[i] = Function::kDict;
    if (name == "raise_exception") globals_[i] = Function::kRaiseException;
    if (name == "strftime_now" && environment.unix_seconds) globals_[i] = Function::kStrftimeNow;
    for (const auto& [variable, value] : environment.variables) {
      if (name == variable) globals_[i] = value;
    }
  }
  return ok_status();
}

Result<Value> Variables::lookup(std::uint32_t symbol) const {
  INVARIANT(symbol < globals_.size(), "every symbol of the program has a global");
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent_) {
    TRY_VOID(meter_.steps(scope->names_.size() / 16));
    for (const auto& [known, value] : scope->names_) {
      if (known == symbol) return value;
    }
  }
  return globals_[symbol];
}

Status Variables::set(std::uint32_t symbol, Value value) {
  INVARIANT(symbol < globals_.size(), "every symbol of the program has a global");
  if (scope_ == nullptr) {
    globals_[symbol] = std::move(value);
    return ok_status();
  }
  TRY_VOID(meter_.steps(scope_->names_.size() / 16));
  for (auto& [known, slot] : scope_->names_) {
    if (known != symbol) continue;
    slot = std::move(value);
    return ok_status();
  }
  scope_->names_.emplace_back(symbol, std::move(value));
  return ok_status();
}

// The scope that holds the macro under its own name: the scope of its definition or, for the block
// of a call, that of the called macro.
Result<Variables::Scope*> Variables::around(const Macro& macro) const {
  if (!macro.nested && !macro.of_call) return static_cast<Scope*>(nullptr);
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent_) {
    TRY_VOID(meter_.steps(1 + scope->names_.size() / 16));
    for (const auto& [symbol, value] : scope->names_) {
      const auto* held = symbol == macro.symbol ? std::get_if<const Macro*>(&value) : nullptr;
      if (held != nullptr && *held == &macro) return macro.of_call ? scope->outer_ : scope;
    }
  }
  return Error::of(ErrorCode::kUnsupported, "a call of macro '", macro.name,
                   "' under another name is not supported");
}

Status Variables::set_attribute(std::uint32_t symbol, const std::string& attribute, Value value) {
  TRY(const Value object, lookup(symbol));
  auto* const* space = std::get_if<Namespace*>(&object);
  REQUIRE(space != nullptr, "'", program_.symbols[symbol], "' must be a namespace");
  TRY_VOID(meter_.steps(1 + (*space)->items.size() / 16));
  if (const Value* known = find_name(**space, attribute)) {
    *const_cast<Value*>(known) = std::move(value);
    return ok_status();
  }
  TRY_VOID(meter_.create(attribute.size() + sizeof(Value) * 2));
  (*space)->items.emplace_back(attribute, std::move(value));
  return ok_status();
}

Result<Value> Variables::make_namespace(const Arguments& given) {
  auto space = std::make_unique<Namespace>();
  TRY_VOID(meter_.create(sizeof(Namespace) + 64));
  REQUIRE(given.positional.size() <= 1, "takes at most one dict");
  if (!given.positional.empty()) {
    const Dict* from = as_dict(given.positional[0]);
    REQUIRE(from != nullptr, "takes a dict, not a ", type_name(given.positional[0]));
    for (const auto& [key, value] : from->items) {
      REQUIRE(as_text(key) != nullptr, "takes a dict with string keys only");
      TRY_VOID(meter_.create(as_text(key)->bytes.size() + sizeof(Value) * 2));
      space->items.emplace_back(as_text(key)->bytes, value);
    }
  }
  for (const auto& [name, value] : given.named) {
    TRY_VOID(meter_.create(name.size() + sizeof(Value) * 2));
    TRY_VOID(meter_.steps(space->items.size() / 16));
    if (const Value* known = find_name(*space, name)) {
      *const_cast<Value*>(known) = value;
    } else {
      space->items.emplace_back(std::string(name), value);
    }
  }
  namespaces_.push_back(std::move(space));
  return Value(namespaces_.back().get());
}

}  // namespace hearth::model::jinja
