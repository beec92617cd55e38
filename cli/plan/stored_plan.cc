#include "cli/plan/stored_plan.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "cli/plan/plan.h"
#include "model/gguf/gguf.h"
#include "model/spec.h"
#include "node/engine/placement_model.h"

namespace hearth::cli {

Result<std::string> nodes_by_rate(const std::string& nodes, const placement::Model& measured) try {
  auto json = nlohmann::json::parse(nodes);
  for (auto& node : json.at("nodes")) {
    const double one = node.at("layer_seconds").at(0).get<double>();
    const double batch = node.at("layer_seconds").at(1).get<double>();
    REQUIRE(one > 0.0 && batch > 0.0, "a node has measured no seconds of a layer");
    const double bytes = measured.mean_read_bytes();
    node["weight_bytes_per_second"] = {bytes / one, bytes / batch};
    node.erase("layer_seconds");
    node.erase("head_seconds");
  }
  return json.dump();
} catch (const nlohmann::json::exception&) {
  return Error::invalid("the nodes are not as the server gives them");
}

Result<std::string> plan_stored(const StoredPlan& wish) {
  PlanNodes nodes{wish.nodes, "the server's nodes"};
  if (wish.path != wish.measured_path) {
    TRY(const auto file, model::GgufFile::open(wish.measured_path));
    TRY(const model::ModelSpec spec, model::ModelSpec::read(*file));
    TRY(const placement::Model measured, node::placement_model(*file, spec));
    TRY(nodes.json, nodes_by_rate(wish.nodes, measured));
  }
  TRY(placement::Problem problem, plan_problem(wish.path, nodes));
  problem.objective = wish.objective;
  TRY(PlanTexts texts, plan_texts_of(problem));
  return std::move(texts.json);
}

}  // namespace hearth::cli
