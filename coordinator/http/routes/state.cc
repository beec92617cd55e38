// GET /api/v1/state: what `hearth status` and `hearth ps` show.
#include <algorithm>
#include <set>
#include <string>

#include "coordinator/http/api/handlers.h"
#include "coordinator/http/routes/swarm_query.h"

namespace hearth::coordinator::http {
namespace {

OrderedJson layers_value(const LayerRange& layers) {
  OrderedJson out = OrderedJson::array();
  out.push_back(layers.begin);
  out.push_back(layers.end);
  return out;
}

// Only what the card tells.
OrderedJson card_object(const CardReading& card) {
  OrderedJson out = OrderedJson::object();
  const auto put = [&](const char* name, const auto& figure) {
    if (figure) out[name] = *figure;
  };
  put("celsius", card.celsius);
  put("watts", card.watts);
  put("busy_percent", card.busy_percent);
  put("memory_used", card.memory_used);
  put("foreign_memory", card.foreign_memory);
  return out;
}

OrderedJson away_object(const Away& away) {
  OrderedJson out;
  out["drain"] = away.drain;
  out["until"] = away.until > 0 ? OrderedJson(away.until) : OrderedJson(nullptr);
  out["why"] = away.why;
  return out;
}

OrderedJson standing_object(const NodeStanding& standing) {
  OrderedJson out;
  out["level"] = ledger::level_name(standing.level);
  out["audited_right"] = standing.audited_right;
  out["faults"] = standing.faults;
  out["tombstoned"] = standing.is_tombstoned;
  out["disputes"] = standing.disputes;
  if (standing.level == ledger::Level::kNewcomer) {
    out["checks"] = standing.checks;
    out["check_days"] = standing.check_days;
  }
  return out;
}

OrderedJson node_object(const NodeStatus& node) {
  OrderedJson out;
  out["name"] = node.name;
  out["state"] = node.state;
  if (node.away) out["away"] = away_object(*node.away);
  out["data_address"] = node.data_address;
  out["protocol"] = node.protocol;
  out["isa"] = node.isa;
  out["threads"] = node.threads;
  out["device"] = node.device;
  if (node.layers_most > 0) out["layers_most"] = node.layers_most;
  if (node.partial) {
    out["held"] = {{"layers", layers_value(node.held)},
                   {"bytes", node.held_bytes},
                   {"bytes_total", node.held_total}};
  }
  if (node.card) out["card"] = card_object(*node.card);
  out["process_id"] = node.process_id;
  out["epoch"] = node.epoch.value;
  out["stage"] = node.stage;
  out["layers"] = layers_value(node.layers);
  out["kv_pages"] = node.kv_pages;
  out["weight_bytes"] = node.weight_bytes;
  out["weight_bytes_per_second"] = node.weight_bytes_per_second;
  out["steps_total"] = node.steps_total;
  out["rows_total"] = node.rows_total;
  out["busy_seconds_total"] = node.busy_seconds_total;
  out["kv_tokens_used"] = node.kv_tokens_used;
  out["ring_steps_total"] = node.ring_steps_total;
  out["ring_seconds_total"] = node.ring_seconds_total;
  out["late_frames_total"] = node.late_frames_total;
  out["replayed_rows_total"] = node.replayed_rows_total;
  out["rows_per_second"] = node.rows_per_second;
  out["busy_ratio"] = node.busy_ratio;
  out["heartbeat_age_seconds"] = node.heartbeat_age_seconds;
  if (!node.spare.empty()) out["spare"] = node.spare;
  if (!node.slow.empty()) out["slow"] = node.slow;
  if (!node.barred.empty()) out["barred"] = node.barred;
  if (!node.owner.empty()) out["owner"] = node.owner;
  if (!node.checking.empty()) out["newcomer"] = node.checking;
  if (node.standing) out["standing"] = standing_object(*node.standing);
  return out;
}

// As `hearth plan --nodes` reads it.
OrderedJson measured_object(const SwarmStatus& status) {
  OrderedJson out;
  out["batch_rows"] = placement::Problem().batch_rows;
  out["nodes"] = OrderedJson::array();
  std::set<std::string> names;
  for (const NodeStatus& node : status.nodes) {
    if (!node.measured || node.state == "lost" || node.away) continue;
    names.insert(node.name);
    const placement::Node& measured = *node.measured;
    out["nodes"].push_back({{"name", node.name},
                            {"memory_bytes", measured.memory_bytes},
                            {"kv_budget_bytes", measured.kv_budget_bytes},
                            {"layer_seconds", {measured.layer.one, measured.layer.batch}},
                            {"head_seconds", {measured.head.one, measured.head.batch}},
                            {"step_seconds", measured.step_seconds}});
  }
  out["links"] = OrderedJson::array();
  for (const LinkStatus& link : status.links) {
    if (!names.contains(link.from) || !names.contains(link.to)) continue;
    out["links"].push_back({{"from", link.from},
                            {"to", link.to},
                            {"seconds", link.link.delay_seconds},
                            {"bytes_per_second", link.link.bytes_per_second}});
  }
  return out;
}

OrderedJson pipeline_object(const PipelineStatus& pipeline) {
  OrderedJson out;
  out["epoch"] = pipeline.epoch.value;
  out["state"] = pipeline.state;
  out["nodes"] = pipeline.nodes;
  out["running"] = pipeline.running;
  out["kv_pages"] = pipeline.kv_pages;
  out["kv_pages_reserved"] = pipeline.kv_pages_reserved;
  out["kv_page_tokens"] = pipeline.kv_page_tokens;
  out["level"] = ledger::level_name(pipeline.level);
  out["twins"] = OrderedJson::array();
  for (const Epoch twin : pipeline.twins) out["twins"].push_back(twin.value);
  return out;
}

OrderedJson uncovered_object(const LayerRange& layers, const std::vector<StageNeed>& needs) {
  OrderedJson out;
  out["layers"] = layers_value(layers);
  for (const StageNeed& need : needs) {
    if (need.layers != layers) continue;
    out["weight_bytes"] = need.weight_bytes;
    out["memory_bytes"] = need.memory_bytes;
  }
  return out;
}

OrderedJson totals_object(const SwarmStatus& status) {
  OrderedJson out;
  out["admitted"] = status.admitted_total;
  out["resumed"] = status.resumed_total;
  out["late_frames"] = status.late_frames_total;
  out["finished_stop"] = status.finished_stop_total;
  out["finished_length"] = status.finished_length_total;
  out["finished_error"] = status.finished_error_total;
  out["cancelled"] = status.cancelled_total;
  out["prompt_tokens"] = status.prompt_tokens_total;
  out["generation_tokens"] = status.generation_tokens_total;
  return out;
}

OrderedJson audits_object(const AuditStatus& audits) {
  OrderedJson out;
  out["mode"] = audits.mode == AuditMode::kFull   ? "full"
                : audits.mode == AuditMode::kSpot ? "spot"
                                                  : "off";
  out["selected"] = audits.selected_total;
  out["agreed"] = audits.agreed_total;
  out["disputed"] = audits.disputed_total;
  out["missed"] = audits.missed_total;
  out["waiting"] = audits.waiting;
  out["running"] = audits.running;
  out["checked_by_newcomers"] = audits.checked_total;
  out["canaries"] = audits.canaries_total;
  if (!audits.why_waiting.empty()) out["why_waiting"] = audits.why_waiting;
  out["open_disputes"] = audits.open_disputes;
  out["ended_disputes"] = audits.ended_disputes;
  out["unjudged_disputes"] = audits.unjudged_disputes;
  out["referee"] = {{"selected", audits.referee_selected_total},
                    {"missed", audits.referee_missed_total},
                    {"waiting", audits.referee_waiting}};
  if (!audits.why_referee_missed.empty()) out["referee"]["why_missed"] = audits.why_referee_missed;
  return out;
}

OrderedJson state_of_model(const ServedModel& served) {
  OrderedJson out;
  out["id"] = served.id;
  out["fingerprint"] = served.fingerprint;
  out["file_bytes"] = served.file_bytes;
  out["architecture"] = served.spec.family != nullptr
                            ? OrderedJson(std::string(served.spec.family->architecture))
                            : OrderedJson(nullptr);
  out["name"] = served.spec.name;
  out["layers"] = served.spec.layers;
  out["context"] = served.spec.context;
  out["parameters"] = served.spec.parameters;
  return out;
}

OrderedJson state_object(const Api& api, const SwarmStatus& status) {
  OrderedJson out;
  out["version"] = api.options.version;
  out["joinable"] = api.options.joinable;
  out["ready"] = status.ready;
  if (!status.ready) out["missing"] = status.missing;
  out["uncovered"] = OrderedJson::array();
  for (const LayerRange& layers : status.uncovered) {
    out["uncovered"].push_back(uncovered_object(layers, api.model.stages));
  }
  out["stages_wanted"] = status.stages_wanted;
  out["running"] = status.running;
  out["running_audits"] = status.running_audits;
  out["waiting"] = status.waiting;
  out["tokens_per_second"] = status.tokens_per_second;
  out["prompt_tokens_per_second"] = status.prompt_tokens_per_second;
  if (api.options.ledger != nullptr) {
    const std::string fault = api.options.ledger->fault();
    out["ledger"] = {{"logs", fault.empty()}};
    if (!fault.empty()) out["ledger"]["fault"] = fault;
  }
  if (api.options.credits) {
    const Credits::Balance own = api.options.credits->balance(api.options.policy.account);
    out["credits"] = {{"account", api.options.policy.account.hex()},
                      {"balance", own.spendable},
                      {"reserved", own.reserved},
                      {"in_circulation", api.options.credits->in_circulation()}};
  }
  out["model"] = state_of_model(api.model);
  out["nodes"] = OrderedJson::array();
  for (const NodeStatus& node : status.nodes) out["nodes"].push_back(node_object(node));
  out["wrong_bytes"] = OrderedJson::array();
  for (const AccusedStatus& one : status.accused) {
    out["wrong_bytes"].push_back(
        {{"node", one.node}, {"accusers", one.accusers}, {"item", one.item}, {"out", one.out}});
  }
  out["pipelines"] = OrderedJson::array();
  for (const PipelineStatus& p : status.pipelines) out["pipelines"].push_back(pipeline_object(p));
  const bool measured =
      std::any_of(status.nodes.begin(), status.nodes.end(),
                  [](const NodeStatus& node) { return node.measured.has_value(); });
  if (measured) out["measured"] = measured_object(status);
  if (status.objective) out["optimise"] = placement::name_of(*status.objective);
  if (status.audits) out["audits"] = audits_object(*status.audits);
  out["totals"] = totals_object(status);
  return out;
}

}  // namespace

void handle_state(const std::shared_ptr<Api>& api, HttpRequest,
                  std::shared_ptr<ResponseWriter> writer) {
  respond_with_status(api, std::move(writer), [api](const SwarmStatus& status) {
    return json_response(dump(state_object(*api, status)));
  });
}

}  // namespace hearth::coordinator::http
