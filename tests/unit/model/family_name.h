// The name of a family's test: GoogleTest takes letters, digits and underscores alone, and ends the
// whole program for any other.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace hearth::model {

inline std::string family_test_name(std::string_view family) {
  std::string name(family);
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace hearth::model
