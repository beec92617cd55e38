// Names of families, as parameters of tests.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "model/spec.h"

namespace hearth::model {

// The name of a family's test: GoogleTest takes letters, digits and underscores alone, and ends the
// whole program for any other.
inline std::string family_test_name(std::string_view family) {
  std::string name(family);
  std::ranges::replace(name, '-', '_');
  return name;
}

// Sequences of the other families keep a state, so they take no drafts.
inline std::vector<std::string_view> families_with_drafts() {
  std::vector<std::string_view> names = known_families();
  std::erase_if(names, [](std::string_view name) { return find_family(name)->delta_net; });
  return names;
}

}  // namespace hearth::model
