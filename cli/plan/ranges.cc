#include <nlohmann/json.hpp>
#include <utility>

#include "cli/plan/plan.h"
#include "cli/plan/words.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/table.h"
#include "coordinator/pipelines/placement_text.h"

namespace hearth::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;
using placement::Chains;
using placement::Problem;
using placement::Range;
using placement::RangePlan;

void append(std::vector<std::string>& lines, const Table& table) {
  for (std::string& line : table.lines()) lines.push_back(std::move(line));
}

std::string name_of(const Problem& problem, std::uint32_t node) {
  return escape_control(problem.nodes[node].name);
}

std::string route_text(const Problem& problem, const RangePlan& plan) {
  std::string text = "the fastest pipeline for one stream:";
  for (const placement::Stage& stage : plan.route.stages) {
    text += " " + name_of(problem, stage.node);
  }
  return text;
}

std::string pipelines_text(const Chains& chains) {
  std::string text =
      "a server forms " + std::to_string(chains.pipelines.size()) + " pipelines of these layers: ";
  for (const LayerRange layers : chains.ranges) {
    if (layers.begin > 0) text += ", ";
    text += text_of(layers);
  }
  return text + "; " + coordinator::rate_text(1.0 / chains.pipelines.front().seconds) +
         " tokens/s for one stream, " + coordinator::rate_text(chains.all_tokens_per_second) +
         " in total";
}

OrderedJson pipelines_object(const Problem& problem, const Chains& chains) {
  OrderedJson pipelines = OrderedJson::array();
  for (const placement::Route& pipeline : chains.pipelines) {
    OrderedJson stages = OrderedJson::array();
    for (const placement::Stage& stage : pipeline.stages) {
      stages.push_back({{"node", problem.nodes[stage.node].name},
                        {"layers", {stage.layers.begin, stage.layers.end}}});
    }
    pipelines.push_back(
        {{"stages", std::move(stages)}, {"tokens_per_second", 1.0 / pipeline.seconds}});
  }
  return pipelines;
}

OrderedJson node_object(const Problem& problem, std::uint32_t node, LayerRange layers) {
  return {{"node", problem.nodes[node].name},
          {"memory_bytes", problem.nodes[node].memory_bytes},
          {"seconds", stage_seconds(problem, {node, layers}, 1.0)}};
}

}  // namespace

std::vector<std::string> range_plan_lines(const Problem& problem, const RangePlan& plan,
                                          const Chains& chains,
                                          const std::vector<std::string>& improvements) {
  std::vector<std::string> lines{plan_title(problem)};
  Table ranges({"RANGE", "LAYERS", "REPLICAS", "WEIGHTS", "KV", "TOKENS/S TOTAL"});
  Table nodes({"NODE", "RANGE", "LAYERS", "WEIGHTS", "KV", "OF", "ONE ROW"});
  for (std::size_t i = 0; i < plan.ranges.size(); ++i) {
    const Range& range = plan.ranges[i];
    const std::string number = std::to_string(i + 1);
    const std::string layers = text_of(range.layers);
    const std::string weights = format_bytes(weight_bytes_of(problem, range.layers));
    const std::string kv = format_bytes(kv_bytes_of(problem, range.layers));
    ranges.add({number, layers, std::to_string(range.nodes.size()), weights, kv,
                coordinator::rate_text(range.all_tokens_per_second)});
    for (const std::uint32_t node : range.nodes) {
      nodes.add({problem.nodes[node].name, number, layers, weights, kv,
                 format_bytes(problem.nodes[node].memory_bytes),
                 plan_milliseconds(stage_seconds(problem, {node, range.layers}, 1.0))});
    }
  }
  append(lines, ranges);
  append_figures(lines, plan.prediction);
  lines.push_back("no placement of these " + std::to_string(problem.nodes.size()) +
                  " nodes gives more than " + coordinator::rate_text(plan.bound) +
                  " tokens/s in total");
  lines.push_back(pipelines_text(chains));
  lines.push_back(route_text(problem, plan));
  append(lines, nodes);
  append_end(lines, problem, plan.spares, improvements);
  return lines;
}

std::string range_plan_json(const Problem& problem, const RangePlan& plan, const Chains& chains,
                            const std::vector<std::string>& improvements) {
  OrderedJson json;
  json["objective"] = placement::name_of(problem.objective);
  json["ranges"] = OrderedJson::array();
  for (const Range& range : plan.ranges) {
    OrderedJson replicas = OrderedJson::array();
    for (const std::uint32_t node : range.nodes) {
      replicas.push_back(node_object(problem, node, range.layers));
    }
    json["ranges"].push_back({{"layers", {range.layers.begin, range.layers.end}},
                              {"weight_bytes", weight_bytes_of(problem, range.layers)},
                              {"kv_bytes", kv_bytes_of(problem, range.layers)},
                              {"all_tokens_per_second", range.all_tokens_per_second},
                              {"replicas", std::move(replicas)}});
  }
  json["way"] = OrderedJson::array();
  for (const placement::Stage& stage : plan.route.stages) {
    json["way"].push_back(problem.nodes[stage.node].name);
  }
  json["pipelines"] = pipelines_object(problem, chains);
  json["pipelines_tokens_per_second"] = chains.all_tokens_per_second;
  const placement::Prediction& p = plan.prediction;
  json["tokens_per_second"] = p.tokens_per_second;
  json["all_tokens_per_second"] = p.all_tokens_per_second;
  json["all_tokens_per_second_bound"] = plan.bound;
  json["streams"] = p.streams;
  json["prompt_tokens_per_second"] = p.prompt_tokens_per_second;
  json["kv_tokens"] = p.kv_tokens;
  return plan_text(std::move(json), problem, plan.spares, improvements);
}

}  // namespace hearth::cli
