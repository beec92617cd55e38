// hearth plan: which nodes would take which layers of a model, and how fast that would be. Reads
// the file's header, loads nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/plan/forecast.h"
#include "placement/chains.h"
#include "placement/plan.h"
#include "placement/problem.h"
#include "placement/ranges.h"

namespace hearth::cli {

struct PlanOptions {
  std::string model;  // file, pulled name, or with `forecast` also a shape of the catalogue
  std::string nodes;  // file of cli/plan/nodes_file.h; empty: those of the server, as measured
  std::uint64_t tokens = 0;  // positions of KV on every stage; 0: one sequence of usual length
  // With --nodes: the best number of stages (0), and latency. Otherwise the server's values.
  std::optional<std::uint32_t> stages;
  std::optional<placement::Objective> objective;
  bool json = false;
  std::string api_base;  // "http://host:port", without --nodes
  std::string api_key;
  ForecastOptions forecast;
};

// The printed lines. `plans`: at least one; the spares shown are those of the first plan, from
// which the others are made.
std::vector<std::string> plan_lines(const placement::Problem& problem,
                                    const std::vector<placement::Plan>& plans,
                                    const std::vector<std::string>& improvements);
// One line of JSON.
std::string plan_json(const placement::Problem& problem, const std::vector<placement::Plan>& plans,
                      const std::vector<std::string>& improvements);

// The same for more nodes than the exact search takes: ranges and their replicas
// (placement/ranges.h), the memory of each node, and the pipelines that a server forms of them
// (placement/chains.h).
std::vector<std::string> range_plan_lines(const placement::Problem& problem,
                                          const placement::RangePlan& plan,
                                          const placement::Chains& chains,
                                          const std::vector<std::string>& improvements);
std::string range_plan_json(const placement::Problem& problem, const placement::RangePlan& plan,
                            const placement::Chains& chains,
                            const std::vector<std::string>& improvements);

// The output of `hearth plan`; the number of nodes decides which search is used.
struct PlanTexts {
  std::vector<std::string> lines;
  std::string json;
  double all_tokens_per_second = 0.0;  // of all pipelines together
  // The part of its streams, at most 1, that the pipeline with the least room serves: there is KV
  // of Problem::kv_tokens positions for each of them, and they may run at once.
  double served = 1.0;
};
Result<PlanTexts> plan_texts_of(const placement::Problem& problem);

// The question about the model of a file: `nodes` as cli/plan/nodes_file.h has them.
struct PlanNodes {
  std::string json;
  std::string where;  // begins an error about them
};
Result<placement::Problem> plan_problem(const std::string& model_path, const PlanNodes& nodes);

// kExitNoCapacity where the nodes do not hold the model.
int run_plan(const PlanOptions& options);

}  // namespace hearth::cli
