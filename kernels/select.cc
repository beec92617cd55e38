#include <cstdlib>
#include <string>

#include "kernels/tables.h"

namespace hearth::kernels {
std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> tables = {&kScalarKernels};
  return tables;
}

Result<const Kernels*> kernels_named(std::string_view name) {
  std::string choices;
  for (const Kernels* table : available_kernels()) {
    if (table->name == name) return table;
    choices += choices.empty() ? "" : ", ";
    choices += table->name;
  }
  return Error{ErrorCode::kUnsupported, "no kernels named \"" + std::string(name) +
                                            "\" run on this processor; it runs " + choices};
}

Result<const Kernels*> select_kernels() {
  if (const char* name = std::getenv("HEARTH_ISA"); name != nullptr && *name != '\0') {
    return kernels_named(name);
  }
  return available_kernels().back();
}

}  // namespace hearth::kernels
