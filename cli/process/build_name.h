// This program's name in receipts. Every instruction set and card computes the same bits.
#pragma once

#include <string>

namespace hearth::cli {

std::string receipt_build();

}  // namespace hearth::cli
