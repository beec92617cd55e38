#include "cli/plan/plan.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/limits.h"
#include "cli/home/own_server.h"
#include "cli/models/models.h"
#include "cli/plan/nodes_file.h"
#include "cli/plan/words.h"
#include "cli/process/paths.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/table.h"
#include "coordinator/pipelines/placement_text.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/placement_model.h"
#include "placement/groups.h"
#include "placement/parts.h"

namespace hearth::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;
using placement::Plan;
using placement::Problem;
using placement::Stage;

double hop_seconds(const Problem& problem, const std::vector<Stage>& stages, std::size_t from) {
  return delay_seconds(problem, stages, from) + bytes_seconds(problem, stages, from, 1.0);
}

// "den", of a group "den+attic".
std::string nodes_of(const Problem& problem, const Stage& stage) {
  std::string names;
  stage.for_each_node(
      [&](std::uint32_t node) { names += (names.empty() ? "" : "+") + problem.nodes[node].name; });
  return names;
}

std::uint64_t memory_of(const Problem& problem, const Stage& stage) {
  if (stage.group.empty()) return problem.nodes[stage.node].memory_bytes;
  return placement::group_node(problem, stage.group).memory_bytes;
}

void append(std::vector<std::string>& lines, const Problem& problem, const Plan& plan) {
  Table table({"STAGE", "NODE", "LAYERS", "WEIGHTS", "KV", "OF", "ONE ROW", "TO THE NEXT"});
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    const std::uint64_t kv = kv_bytes_of(problem, stage.layers);
    table.add({std::to_string(i + 1), nodes_of(problem, stage), text_of(stage.layers),
               format_bytes(stage_bytes(problem, stage.layers) - kv), format_bytes(kv),
               format_bytes(memory_of(problem, stage)),
               plan_milliseconds(stage_seconds(problem, stage, 1.0)),
               plan_milliseconds(hop_seconds(problem, plan.stages, i))});
  }
  for (std::string& line : table.lines()) lines.push_back(std::move(line));
  append_figures(lines, plan.prediction);
}

OrderedJson plan_object(const Problem& problem, const Plan& plan) {
  OrderedJson json;
  json["stages"] = OrderedJson::array();
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    const std::uint64_t kv = kv_bytes_of(problem, stage.layers);
    json["stages"].push_back({{"node", problem.nodes[stage.node].name},
                              {"layers", {stage.layers.begin, stage.layers.end}},
                              {"weight_bytes", stage_bytes(problem, stage.layers) - kv},
                              {"kv_bytes", kv},
                              {"memory_bytes", memory_of(problem, stage)},
                              {"seconds", stage_seconds(problem, stage, 1.0)},
                              {"to_next_seconds", hop_seconds(problem, plan.stages, i)}});
    for (const placement::Rank& rank : stage.group) {
      json["stages"].back()["group"].push_back(
          {{"node", problem.nodes[rank.node].name},
           {"part", rank.part / static_cast<double>(placement::kParts)}});
    }
  }
  const placement::Prediction& p = plan.prediction;
  json["tokens_per_second"] = p.tokens_per_second;
  json["all_tokens_per_second"] = p.all_tokens_per_second;
  json["streams"] = p.streams;
  json["prompt_tokens_per_second"] = p.prompt_tokens_per_second;
  json["kv_tokens"] = p.kv_tokens;
  return json;
}

Result<std::string> read_nodes_file(const std::string& path) {
  std::error_code ignored;
  REQUIRE(!std::filesystem::is_directory(path, ignored), path,
          " is a folder; give a file of nodes");
  TRY(std::string text, read_text(path, limits::kNodesFileBytes));
  REQUIRE(text.size() <= limits::kNodesFileBytes, path, " has more than ", limits::kNodesFileBytes,
          " bytes, the limit for a file of nodes");
  return text;
}

// The server's nodes in the form of the file. The server's own objective applies where the options
// set none.
Result<std::string> measured_nodes(PlanOptions& options) {
  client::HttpClient http(interrupted);
  TRY(const SwarmAnswer answer, fetch_swarm(http, options.api_base, options.api_key));
  const auto state = nlohmann::json::parse(answer.json, nullptr, false);
  const auto found = state.find("measured");
  if (found == state.end() || !found->is_object()) {
    return Error{ErrorCode::kUnavailable,
                 "no node of the server has measured itself yet; start the server without --stages "
                 "and --place, wait a few seconds, or give --nodes FILE"};
  }
  const auto optimise = state.find("optimise");
  for (const auto objective : {placement::Objective::kLatency, placement::Objective::kThroughput}) {
    if (options.objective || optimise == state.end()) continue;
    if (*optimise == placement::name_of(objective)) options.objective = objective;
  }
  const auto stages = state.find("stages_wanted");
  if (!options.stages && stages != state.end() && stages->is_number_unsigned() &&
      *stages <= limits::kStages) {
    options.stages = stages->get<std::uint32_t>();
  }
  return found->dump();
}

Result<Problem> read_problem(PlanOptions options) {
  TRY(const auto path, resolve_model(options.model));
  PlanNodes nodes;
  if (options.nodes.empty()) {
    TRY(nodes.json, measured_nodes(options));
    nodes.where = "the server's nodes";
  } else {
    TRY(nodes.json, read_nodes_file(options.nodes));
    nodes.where = options.nodes;
  }
  TRY(Problem problem, plan_problem(path.string(), nodes));
  problem.objective = options.objective.value_or(placement::Objective::kAuto);
  problem.stages = options.stages.value_or(problem.stages);
  if (options.tokens > 0) problem.kv_tokens = options.tokens;
  return problem;
}

// The first plan's spares that no later plan uses.
std::vector<placement::Spare> unused(const std::vector<Plan>& plans) {
  std::vector<placement::Spare> spares = plans.front().spares;
  std::erase_if(spares, [&](const placement::Spare& spare) {
    return std::any_of(plans.begin() + 1, plans.end(), [&](const Plan& later) {
      bool used = false;
      for (const Stage& stage : later.stages) {
        stage.for_each_node([&](std::uint32_t node) { used = used || node == spare.node; });
      }
      return used;
    });
  });
  return spares;
}

int print(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) std::printf("%s\n", line.c_str());
  return kExitDone;
}

bool takes_ranges(const Problem& problem) { return problem.nodes.size() > limits::kExactNodes; }

double served_of(const Problem& problem, const placement::Prediction& prediction) {
  const double streams = prediction.streams;
  const double positions = static_cast<double>(std::max<std::uint64_t>(1, problem.kv_tokens));
  const double room = static_cast<double>(prediction.kv_tokens) / positions;
  return std::min({1.0, room / streams, limits::kRunningSequences / streams});
}

// With the pipelines that a server forms of the ranges.
Result<PlanTexts> texts_of_ranges(const Problem& problem) {
  TRY(const placement::RangePlan plan, placement::plan_ranges(problem));
  TRY(const placement::Chains chains, placement::plan_chains(problem));
  const auto improvements = gain_texts(problem, placement::improvements(problem, plan));
  return PlanTexts{range_plan_lines(problem, plan, chains, improvements),
                   range_plan_json(problem, plan, chains, improvements),
                   plan.prediction.all_tokens_per_second, served_of(problem, plan.prediction)};
}

Result<PlanTexts> texts_of_exact(const Problem& problem) {
  TRY(const std::vector<Plan> plans, placement::plan_replicas(problem));
  const auto improvements = gain_texts(problem, placement::improvements(problem, plans.front()));
  PlanTexts texts;
  for (const Plan& plan : plans) {
    texts.all_tokens_per_second += plan.prediction.all_tokens_per_second;
    texts.served = std::min(texts.served, served_of(problem, plan.prediction));
  }
  texts.lines = plan_lines(problem, plans, improvements);
  texts.json = plan_json(problem, plans, improvements);
  return texts;
}

}  // namespace

std::vector<std::string> plan_lines(const Problem& problem, const std::vector<Plan>& plans,
                                    const std::vector<std::string>& improvements) {
  std::vector<std::string> lines;
  lines.push_back(plan_title(problem));
  append(lines, problem, plans.front());
  for (std::size_t i = 1; i < plans.size(); ++i) {
    lines.push_back("a second pipeline, of spares:");
    append(lines, problem, plans[i]);
  }
  append_end(lines, problem, unused(plans), improvements);
  return lines;
}

std::string plan_json(const Problem& problem, const std::vector<Plan>& plans,
                      const std::vector<std::string>& improvements) {
  OrderedJson json;
  json["objective"] = placement::name_of(problem.objective);
  json["pipelines"] = OrderedJson::array();
  for (const Plan& plan : plans) json["pipelines"].push_back(plan_object(problem, plan));
  return plan_text(std::move(json), problem, unused(plans), improvements);
}

Result<PlanTexts> plan_texts_of(const Problem& problem) {
  auto texts = takes_ranges(problem) ? texts_of_ranges(problem) : texts_of_exact(problem);
  if (!texts.ok()) return coordinator::placement_error(problem, texts.error());
  return texts;
}

Result<Problem> plan_problem(const std::string& model_path, const PlanNodes& nodes) {
  TRY(const auto file, model::GgufFile::open(model_path));
  TRY(const model::ModelSpec spec, model::ModelSpec::read(*file));
  TRY(placement::Model model, node::placement_model(*file, spec));
  auto problem = read_plan_nodes(nodes.json, std::move(model));
  if (!problem.ok()) {
    return Error{problem.error().code, nodes.where + ": " + problem.error().message};
  }
  problem->kv_tokens = std::min(spec.context, limits::kDefaultMaxTokens);
  return problem;
}

int run_plan(const PlanOptions& options) {
  ForecastOptions forecast = options.forecast;
  forecast.objective = options.objective;
  const Status used = check_used(forecast);
  if (!used.ok()) return misused(used.error());
  if (options.model.empty()) {
    return misused(Error::invalid(
        "no model given: pass a GGUF file, a pulled name, or with --gpus or --for a shape such as "
        "llama3-70b"));
  }
  if (!forecast.gpus.empty() || !forecast.speed.empty()) {
    return run_forecast(options.model, forecast, options.tokens, options.json);
  }
  const auto problem = read_problem(options);
  if (!problem.ok()) return fail(problem.error());
  const auto texts = plan_texts_of(*problem);
  if (!texts.ok()) return fail(texts.error());
  return print(options.json ? std::vector{texts->json} : texts->lines);
}

}  // namespace hearth::cli
