#include "cli/plan/words.h"

#include <cstdio>
#include <limits>

#include "cli/terminal/escape.h"
#include "cli/terminal/progress.h"

namespace hearth::cli {

using placement::Problem;

std::string plan_rate(double tokens_per_second) {
  char text[32];
  std::snprintf(text, sizeof text, tokens_per_second < 99.95 ? "%.1f" : "%.0f", tokens_per_second);
  return text;
}

std::string plan_milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g ms", seconds * 1e3);
  return text;
}

std::uint64_t kv_bytes_of(const Problem& problem, LayerRange layers) {
  return problem.model.kv_bytes * layers.size() * problem.kv_tokens;
}

std::uint64_t weight_bytes_of(const Problem& problem, LayerRange layers) {
  return stage_bytes(problem, layers) - kv_bytes_of(problem, layers);
}

std::string plan_title(const Problem& problem) {
  return std::to_string(problem.layers()) + " layers, " +
         format_bytes(weight_bytes_of(problem, {0, problem.layers()})) + " of weights, KV of " +
         std::to_string(problem.kv_tokens) + " positions; planned for " +
         (problem.objective == placement::Objective::kLatency ? "the latency of one stream"
                                                              : "the throughput of many streams");
}

void append_figures(std::vector<std::string>& lines, const placement::Prediction& p) {
  lines.push_back(plan_rate(p.tokens_per_second) + " tokens/s for one stream, " +
                  plan_rate(p.all_tokens_per_second) + " for " + std::to_string(p.streams) +
                  " streams together, " + plan_rate(p.prompt_tokens_per_second) +
                  " of a long prompt");
  if (p.kv_tokens < std::numeric_limits<std::uint64_t>::max()) {
    lines.push_back("room for " + std::to_string(p.kv_tokens) + " positions of KV in all");
  }
}

void append_improvements(std::vector<std::string>& lines,
                         const std::vector<std::string>& improvements) {
  if (!improvements.empty()) lines.push_back("what would make it quicker:");
  for (const std::string& sentence : improvements) {
    lines.push_back("  " + escape_control(sentence));
  }
}

}  // namespace hearth::cli
