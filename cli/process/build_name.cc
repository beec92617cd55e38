#include "cli/process/build_name.h"

namespace hearth::cli {

std::string receipt_build() { return "hearth " HEARTH_VERSION; }

}  // namespace hearth::cli
