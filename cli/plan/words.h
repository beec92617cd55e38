// Figures and sentences that all outputs of `hearth plan` share.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "placement/gain.h"
#include "placement/problem.h"
#include "placement/shortage.h"

namespace hearth::cli {

std::string plan_milliseconds(double seconds);
// With so many digits that are not zeros in front, and never with an exponent: "0.19", "168".
std::string plan_number(double value, int digits);

// Bytes of a range with what one sequence of problem.kv_tokens positions keeps.
std::uint64_t kv_bytes_of(const placement::Problem& problem, LayerRange layers);
std::uint64_t weight_bytes_of(const placement::Problem& problem, LayerRange layers);

// "32 layers, 4.1 GB of weights, ...; planned for the latency of one stream"
std::string plan_title(const placement::Problem& problem);
// One line, and a second where the KV has a limit.
void append_figures(std::vector<std::string>& lines, const placement::Prediction& prediction);
// Spares, and what would make it faster.
void append_end(std::vector<std::string>& lines, const placement::Problem& problem,
                const std::vector<placement::Spare>& spares,
                const std::vector<std::string>& improvements);
// The same as fields of the JSON of a plan, as one line.
std::string plan_text(nlohmann::ordered_json json, const placement::Problem& problem,
                      const std::vector<placement::Spare>& spares,
                      const std::vector<std::string>& improvements);

// "twice the memory in den: 125 instead of 55.6 tokens/s"
std::string gain_text(const placement::Problem& problem, const placement::Gain& gain);
std::vector<std::string> gain_texts(const placement::Problem& problem,
                                    const std::vector<placement::Gain>& gains);

}  // namespace hearth::cli
