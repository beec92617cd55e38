// The formats of JSON Schema that constrain what is generated.
#pragma once

#include <string_view>

namespace hearth::model {

// Empty: the format constrains nothing here.
std::string_view regex_of_format(std::string_view name);
// A format of the standard that this build cannot generate.
bool is_unserved_format(std::string_view name);

}  // namespace hearth::model
