// GET /api/v1/plan: the models on the server's disk. GET /api/v1/plan/NAME: which of the connected
// nodes would take which layers of one of them, and how fast that would be (hearth plan).
#include <algorithm>
#include <utility>

#include "coordinator/http/routes/manage.h"

namespace hearth::coordinator::http {
namespace {

constexpr std::string_view kPlanPath = "/api/v1/plan/";

ApiError no_planner() {
  return ApiError::of(409, "this server has no planner; run hearth plan on its machine",
                      "no_planner");
}

ApiResult<OrderedJson> list_models(const Call& call) {
  OrderedJson out = {{"models", OrderedJson::array()}};
  for (const StoredModel& model : call.api->options.planner->models()) {
    out["models"].push_back(
        {{"id", model.name}, {"bytes", model.bytes}, {"served", model.is_served}});
  }
  return out;
}

ApiResult<OrderedJson> plan_object(const Api& api, const PlanQuestion& question) {
  const auto plan = api.options.planner->plan(question);
  OrderedJson out = {{"id", question.model},
                     {"measured_with", api.models.at(question.measured_model).id}};
  if (!plan && plan.error().code == ErrorCode::kNoCapacity) {
    out["fits"] = false;
    out["why"] = plan.error().message;
    return out;
  }
  if (!plan) return manage_error(plan.error(), "model_not_found");
  TRY(Json json, parse_json(*plan));
  out["fits"] = true;
  out["plan"] = std::move(json);
  return out;
}

ApiResult<PlanQuestion> question_of(const Call& call, const SwarmStatus& status) {
  const bool measured = std::ranges::any_of(
      status.nodes, [](const NodeStatus& node) { return node.measured.has_value(); });
  if (!measured) {
    return ApiError::of(409,
                        "no node has measured itself yet: wait a few seconds, or start the server "
                        "without --stages and --place",
                        "not_measured");
  }
  return PlanQuestion{path_name(call, kPlanPath), dump(measured_nodes(status)), status.model,
                      status.objective.value_or(placement::Objective::kAuto)};
}

}  // namespace

void handle_plan_models(Call call) {
  if (!call.api->options.planner) return call.respond(no_planner());
  answer_on_pool(std::move(call), list_models);
}

void handle_plan(Call call) {
  if (!call.api->options.planner) return call.respond(no_planner());
  with_status(std::move(call), [](const Call& taken, const SwarmStatus& status) {
    auto question = question_of(taken, status);
    if (!question.ok()) return taken.respond(question.error());
    answer_slowly(taken, [question = *std::move(question)](const Call& planned) {
      return plan_object(*planned.api, question);
    });
  });
}

}  // namespace hearth::coordinator::http
