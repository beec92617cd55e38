// Texts about placements: why a node has no stage, and what the nodes lack. `hearth plan` prints
// the same texts (cli/plan).
#pragma once

#include <string>

#include "base/result.h"
#include "placement/problem.h"
#include "placement/shortage.h"

namespace hearth::coordinator {

std::string rate_text(double tokens_per_second);  // "55.6", "122"

// "adding it makes the pipeline slower: 122 instead of 125 tokens/s"
std::string spare_text(const placement::Problem& problem, const placement::Spare& spare);

// What the nodes lack, with the figures and the next step.
std::string shortage_text(const placement::Problem& problem);

// The error for display; for a placement that was not found, with shortage_text().
Error placement_error(const placement::Problem& problem, const Error& error);

}  // namespace hearth::coordinator
