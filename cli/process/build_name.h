// The name of this build in receipts. Every instruction set and GPU computes the same bits.
#pragma once

#include <string>

namespace hearth::cli {

std::string receipt_build();

}  // namespace hearth::cli
