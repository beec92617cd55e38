// SymbolTable: the numbers of a template's names. Parsing gives every different name the next
// number, so that a rendering finds a variable by its number.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"

namespace hearth::model::jinja {

class SymbolTable {
 public:
  std::uint32_t of(const std::string& name) {
    const auto [found, added] = ids_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
    if (added) names_.push_back(name);
    INVARIANT(ids_.size() == names_.size(), "every name has one number");
    return found->second;
  }
  // The names by number. No number is given afterwards.
  std::vector<std::string> take() { return std::exchange(names_, {}); }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint32_t> ids_;
};

}  // namespace hearth::model::jinja
