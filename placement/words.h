// How plans say figures, and why there is none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "placement/problem.h"

namespace hearth::placement {

std::string rate_text(double tokens_per_second);
std::string gigabytes(std::uint64_t bytes);

// Why a node holds not even one layer; nothing: it holds one.
std::optional<std::string> why_no_layer(const Problem& problem, std::uint32_t node);

// kNoCapacity, with what is wanted and what there is.
Error no_room(const Problem& problem);

}  // namespace hearth::placement
