// What `hearth plan` says of more nodes than an exact search sees: ranges and their replicas
// (placement/ranges.h), and the pipelines that a server forms of them (placement/chains.h).
#pragma once

#include <string>
#include <vector>

#include "placement/chains.h"
#include "placement/ranges.h"

namespace hearth::cli {

// What is printed, for people: ranges, the memory of each node, figures, spares.
std::vector<std::string> range_plan_lines(const placement::Problem& problem,
                                          const placement::RangePlan& plan,
                                          const placement::Chains& chains,
                                          const std::vector<std::string>& improvements);
// One line of JSON.
std::string range_plan_json(const placement::Problem& problem, const placement::RangePlan& plan,
                            const placement::Chains& chains,
                            const std::vector<std::string>& improvements);

}  // namespace hearth::cli
