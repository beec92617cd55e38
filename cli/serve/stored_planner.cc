#include "cli/serve/stored_planner.h"

#include <algorithm>
#include <filesystem>

#include "cli/models/models.h"
#include "cli/plan/stored_plan.h"

namespace hearth::cli {
namespace {

using coordinator::http::PlanQuestion;
using coordinator::http::StoredModel;

constexpr std::size_t kModels = 64;  // that the API lists

struct Stored {
  StoredModel model;
  std::string path;
};

// The served models come first. A name is looked up only in this list, so a request cannot name a
// path.
std::vector<Stored> all_of(const std::vector<Stored>& served) {
  std::vector<Stored> all = served;
  for (const LocalModel& local : list_models()) {
    if (all.size() >= kModels) break;
    const std::string path = local.path.string();
    const bool known = std::ranges::any_of(served, [&](const Stored& one) {
      std::error_code ignored;
      return one.model.name == local.name || std::filesystem::equivalent(one.path, path, ignored);
    });
    if (!known) all.push_back({{local.name, local.bytes, false}, path});
  }
  return all;
}

Result<std::string> answer(const std::vector<Stored>& served, const PlanQuestion& question) {
  const std::vector<Stored> all = all_of(served);
  const auto found = std::ranges::find_if(
      all, [&](const Stored& one) { return one.model.name == question.model; });
  if (found == all.end()) {
    return Error{ErrorCode::kNotFound, "the server has no model of this name on its disk"};
  }
  INVARIANT(question.measured_model < served.size(),
            "nodes measure themselves with a served model");
  return plan_stored(
      {found->path, question.nodes, served[question.measured_model].path, question.objective});
}

}  // namespace

coordinator::http::Planner stored_planner(const std::vector<OfferedModel>& offered) {
  std::vector<Stored> served;
  for (const OfferedModel& each : offered) {
    served.push_back({{each.served.id, each.served.file_bytes, true}, each.path});
  }
  coordinator::http::Planner planner;
  planner.models = [served] {
    std::vector<StoredModel> models;
    for (const Stored& one : all_of(served)) models.push_back(one.model);
    return models;
  };
  planner.plan = [served](const PlanQuestion& question) { return answer(served, question); };
  return planner;
}

}  // namespace hearth::cli
