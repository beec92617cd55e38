#include "cli/receipt_build.h"

namespace hearth::cli {

std::string receipt_build() { return "hearth " HEARTH_VERSION; }

}  // namespace hearth::cli
