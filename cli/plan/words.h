// Figures and sentences that all of `hearth plan` says alike.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "placement/problem.h"

namespace hearth::cli {

std::string plan_rate(double tokens_per_second);
std::string plan_milliseconds(double seconds);

// Of the positions that were asked for.
std::uint64_t kv_bytes_of(const placement::Problem& problem, LayerRange layers);
std::uint64_t weight_bytes_of(const placement::Problem& problem, LayerRange layers);

// "32 layers, 4.1 GB of weights, ...; planned for the latency of one stream"
std::string plan_title(const placement::Problem& problem);
// One line, and a second where the KV has a limit.
void append_figures(std::vector<std::string>& lines, const placement::Prediction& prediction);
void append_improvements(std::vector<std::string>& lines,
                         const std::vector<std::string>& improvements);

}  // namespace hearth::cli
