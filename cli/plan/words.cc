#include "cli/plan/words.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/ids.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/progress.h"
#include "coordinator/pipelines/placement_text.h"

namespace hearth::cli {

using coordinator::rate_text;
using placement::Gain;
using placement::Problem;

namespace {

constexpr int kDecimalsMost = 9;

}  // namespace

std::string plan_milliseconds(double seconds) { return plan_number(seconds * 1e3, 3) + " ms"; }

std::string plan_number(double value, int digits) {
  const double magnitude = std::abs(value);
  const int above = magnitude > 0.0 ? static_cast<int>(std::floor(std::log10(magnitude))) + 1 : 1;
  const int decimals = std::clamp(digits - above, 0, kDecimalsMost);
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (decimals == 0) return text;
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

std::uint64_t kv_bytes_of(const Problem& problem, LayerRange layers) {
  return problem.model.kv_of(layers).of(problem.kv_tokens);
}

std::uint64_t weight_bytes_of(const Problem& problem, LayerRange layers) {
  return stage_bytes(problem, layers) - kv_bytes_of(problem, layers);
}

std::string plan_title(const Problem& problem) {
  return counted(problem.layers(), "layer") + ", " +
         format_bytes(weight_bytes_of(problem, {0, problem.layers()})) + " of weights, KV for " +
         std::to_string(problem.kv_tokens) + " positions; planned for " +
         (problem.objective != placement::Objective::kThroughput
              ? "the latency of one stream"
              : "the throughput of many streams");
}

void append_figures(std::vector<std::string>& lines, const placement::Prediction& p) {
  lines.push_back(rate_text(p.tokens_per_second) + " tokens/s for one stream, " +
                  rate_text(p.all_tokens_per_second) + " for " + std::to_string(p.streams) +
                  " streams together, " + rate_text(p.prompt_tokens_per_second) +
                  " of a long prompt");
  if (p.kv_tokens < std::numeric_limits<std::uint64_t>::max()) {
    lines.push_back("room for " + std::to_string(p.kv_tokens) + " positions of KV in all");
  }
}

void append_end(std::vector<std::string>& lines, const Problem& problem,
                const std::vector<placement::Spare>& spares,
                const std::vector<std::string>& improvements) {
  for (const placement::Spare& spare : spares) {
    lines.push_back("spare " + escape_control(problem.nodes[spare.node].name) + ": " +
                    coordinator::spare_text(problem, spare));
  }
  if (!improvements.empty()) lines.push_back("what would make it faster:");
  for (const std::string& sentence : improvements) lines.push_back("  " + escape_control(sentence));
}

std::string plan_text(nlohmann::ordered_json json, const Problem& problem,
                      const std::vector<placement::Spare>& spares,
                      const std::vector<std::string>& improvements) {
  json["spares"] = nlohmann::ordered_json::array();
  for (const placement::Spare& spare : spares) {
    json["spares"].push_back({{"node", problem.nodes[spare.node].name},
                              {"why", coordinator::spare_text(problem, spare)}});
  }
  json["improvements"] = improvements;
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

namespace {

// "den", "the 20 machines like den"
std::string nodes_text(const Problem& problem, const std::vector<std::uint32_t>& nodes) {
  const std::string first = problem.nodes[nodes.front()].name;
  if (nodes.size() == 1) return first;
  return "the " + std::to_string(nodes.size()) + " machines like " + first;
}

std::string change_text(const Problem& problem, const Gain& gain) {
  switch (gain.change) {
    case Gain::Change::kMemory: return "twice the memory in " + nodes_text(problem, gain.nodes);
    case Gain::Change::kSpeed:
      return std::string(gain.nodes.size() == 1 ? "a machine" : "machines") +
             " twice as fast in place of " + nodes_text(problem, gain.nodes);
    case Gain::Change::kLinkRate: return "links of ten times the rate";
    case Gain::Change::kLinkDelay: return "half the delay of every link";
    case Gain::Change::kThroughput: return "--optimise throughput";
  }
  return "";
}

}  // namespace

std::string gain_text(const Problem& problem, const Gain& gain) {
  std::string text = change_text(problem, gain) + ": " + rate_text(gain.after_tokens_per_second) +
                     " instead of " + rate_text(gain.tokens_per_second) + " tokens/s";
  if (gain.change == Gain::Change::kThroughput) {
    text +=
        " for all streams together, with " + rate_text(gain.after_one_stream) + " for one stream";
  }
  return text;
}

std::vector<std::string> gain_texts(const Problem& problem, const std::vector<Gain>& gains) {
  std::vector<std::string> texts;
  for (const Gain& gain : gains) texts.push_back(gain_text(problem, gain));
  return texts;
}

}  // namespace hearth::cli
