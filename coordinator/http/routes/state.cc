// Routes that show the coordinator's status: GET /api/v1/state (`hearth status` and `hearth ps`
// show it), /metrics, and whether a prompt would be answered.
#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/limits.h"
#include "coordinator/http/api/router.h"

namespace hearth::coordinator::http {
namespace {

OrderedJson layers_value(const LayerRange& layers) { return {layers.begin, layers.end}; }

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

OrderedJson standing_object(const NodeStanding& standing) {
  OrderedJson out = {{"level", ledger::level_name(standing.level)},
                     {"audited_right", standing.audited_right},
                     {"faults", standing.faults},
                     {"tombstoned", standing.is_tombstoned},
                     {"disputes", standing.disputes}};
  if (standing.level == ledger::Level::kNewcomer) {
    out["checks"] = standing.checks;
    out["check_days"] = standing.check_days;
  }
  return out;
}

// `manages`: as of state_object().
OrderedJson node_object(const NodeStatus& node, bool manages) {
  OrderedJson out = {{"name", node.name}, {"state", node.state}};
  if (const auto& away = node.away) {
    out["away"] = {{"drain", away->drain},
                   {"until", away->until > 0 ? OrderedJson(away->until) : OrderedJson(nullptr)},
                   {"why", away->why}};
  }
  out["data_address"] = node.data_address;
  if (manages && !node.seen_host.empty()) out["seen_host"] = node.seen_host;
  if (manages && node.outside_port > 0) out["outside_port"] = node.outside_port;
  out.update({{"protocol", node.protocol},
              {"isa", node.isa},
              {"threads", node.threads},
              {"device", node.device}});
  if (node.layers_most > 0) out["layers_most"] = node.layers_most;
  if (node.partial) {
    out["held"] = {{"layers", layers_value(node.held)},
                   {"bytes", node.held_bytes},
                   {"bytes_total", node.held_total}};
  }
  if (node.card) out["card"] = card_object(*node.card);
  out.update({{"process_id", node.process_id},
              {"epoch", node.epoch.value},
              {"stage", node.stage},
              {"layers", layers_value(node.layers)},
              {"kv_pages", node.kv_pages},
              {"weight_bytes", node.weight_bytes},
              {"draft_bytes", node.draft_bytes},
              {"weight_bytes_per_second", node.weight_bytes_per_second},
              {"steps_total", node.steps_total},
              {"rows_total", node.rows_total},
              {"busy_seconds_total", node.busy_seconds_total},
              {"kv_tokens_used", node.kv_tokens_used},
              {"kv_pages_kept", node.kv_pages_kept},
              {"ring_steps_total", node.ring_steps_total},
              {"ring_seconds_total", node.ring_seconds_total},
              {"late_frames_total", node.late_frames_total},
              {"replayed_rows_total", node.replayed_rows_total},
              {"rows_per_second", node.rows_per_second},
              {"busy_ratio", node.busy_ratio},
              {"heartbeat_age_seconds", node.heartbeat_age_seconds}});
  if (node.ranks > 1) {
    out["rank"] = node.rank;
    out["ranks"] = node.ranks;
  }
  if (node.energy_joules_total) {
    out["energy_joules_total"] = *node.energy_joules_total;
    out["watts"] = node.watts;
  }
  if (!node.spare.empty()) out["spare"] = node.spare;
  if (!node.slow.empty()) out["slow"] = node.slow;
  if (!node.barred.empty()) out["barred"] = node.barred;
  if (!node.unreceipted.empty()) out["unreceipted"] = node.unreceipted;
  if (node.unreceipted_windows > 0) out["unreceipted_windows"] = node.unreceipted_windows;
  if (!node.owner.empty()) out["owner"] = node.owner;
  if (!node.checking.empty()) out["newcomer"] = node.checking;
  if (node.standing) out["standing"] = standing_object(*node.standing);
  return out;
}

// Sums over all nodes that report power. Workers on the processors of one machine all report the
// same processors.
OrderedJson power_object(const std::vector<NodeStatus>& nodes) {
  std::map<std::string, double> machines;
  double watts = 0.0;
  std::uint32_t count = 0;
  for (const NodeStatus& node : nodes) {
    if (!node.energy_joules_total || node.state == "lost") continue;
    ++count;
    if (!node.device.empty()) {
      watts += node.watts;
      continue;
    }
    double& machine = machines[node.machine()];
    machine = std::max(machine, node.watts);
  }
  for (const auto& [host, machine] : machines) watts += machine;
  return {{"watts", watts}, {"nodes", count}};
}

OrderedJson pipeline_object(const PipelineStatus& pipeline) {
  OrderedJson twins = OrderedJson::array();
  for (const Epoch twin : pipeline.twins) twins.push_back(twin.value);
  return {{"epoch", pipeline.epoch.value},
          {"state", pipeline.state},
          {"nodes", pipeline.nodes},
          {"running", pipeline.running},
          {"kv_pages", pipeline.kv_pages},
          {"kv_pages_reserved", pipeline.kv_pages_reserved},
          {"kv_page_tokens", pipeline.kv_page_tokens},
          {"sequences", pipeline.sequences},
          {"level", ledger::level_name(pipeline.level)},
          {"twins", std::move(twins)}};
}

// The links of pipelines, with their measured figures, if there are any.
OrderedJson links_of_pipelines(const SwarmStatus& status) {
  OrderedJson out = OrderedJson::array();
  for (const PipelineStatus& pipeline : status.pipelines) {
    for (std::size_t stage = 0; stage < pipeline.routes.size(); ++stage) {
      const std::string& from = pipeline.nodes[stage];
      const std::string& to = pipeline.nodes[(stage + 1) % pipeline.nodes.size()];
      OrderedJson& link = out.emplace_back(OrderedJson{
          {"from", from}, {"to", to}, {"route", route_name(pipeline.routes[stage].kind)}});
      if (!pipeline.routes[stage].relay.empty()) link["relay"] = pipeline.routes[stage].relay;
      const auto measured = std::ranges::find_if(
          status.links, [&](const LinkStatus& one) { return one.from == from && one.to == to; });
      if (measured == status.links.end()) continue;
      link["seconds"] = measured->link.delay_seconds;
      link["bytes_per_second"] = measured->link.bytes_per_second;
    }
  }
  return out;
}

// The routes over which links were measured. `hearth plan` reads the measured links themselves, and
// refuses fields that it does not know.
OrderedJson measured_routes(const SwarmStatus& status) {
  OrderedJson out = OrderedJson::array();
  for (const LinkStatus& link : status.links) {
    out.push_back({{"from", link.from}, {"to", link.to}, {"route", route_name(link.route)}});
  }
  return out;
}

OrderedJson uncovered_object(const LayerRange& layers, const std::vector<StageNeed>& needs) {
  OrderedJson out = {{"layers", layers_value(layers)}};
  for (const StageNeed& need : needs) {
    if (need.layers != layers) continue;
    out["weight_bytes"] = need.weight_bytes;
    out["memory_bytes"] = need.memory_bytes;
  }
  return out;
}

OrderedJson drafts_object(const SwarmStatus& status) {
  OrderedJson out;
  for (std::size_t kind = 0; kind < kDraftKinds; ++kind) {
    out[std::string(kDraftKindNames[kind])] = {{"drafted", status.drafted_total[kind]},
                                               {"accepted", status.accepted_total[kind]}};
  }
  return out;
}

OrderedJson totals_object(const SwarmStatus& status) {
  return {{"admitted", status.admitted_total},
          {"resumed", status.resumed_total},
          {"late_frames", status.late_frames_total},
          {"finished_stop", status.finished_stop_total},
          {"finished_length", status.finished_length_total},
          {"finished_error", status.finished_error_total},
          {"cancelled", status.cancelled_total},
          {"prompt_tokens", status.prompt_tokens_total},
          {"prefix_queries", status.prefix_queries_total},
          {"prefix_hits", status.prefix_hits_total},
          {"generation_tokens", status.generation_tokens_total},
          {"drafts", drafts_object(status)}};
}

OrderedJson audits_object(const AuditStatus& audits) {
  OrderedJson out = {{"mode", audits.mode == AuditMode::kFull   ? "full"
                              : audits.mode == AuditMode::kSpot ? "spot"
                                                                : "off"},
                     {"selected", audits.selected_total},
                     {"agreed", audits.agreed_total},
                     {"disputed", audits.disputed_total},
                     {"missed", audits.missed_total},
                     {"waiting", audits.waiting},
                     {"running", audits.running},
                     {"checked_by_newcomers", audits.checked_total},
                     {"canaries", audits.canaries_total}};
  if (!audits.why_waiting.empty()) out["why_waiting"] = audits.why_waiting;
  out.update({{"open_disputes", audits.open_disputes},
              {"ended_disputes", audits.ended_disputes},
              {"unjudged_disputes", audits.unjudged_disputes},
              {"referee",
               {{"selected", audits.referee_selected_total},
                {"missed", audits.referee_missed_total},
                {"waiting", audits.referee_waiting}}}});
  if (!audits.why_referee_missed.empty()) out["referee"]["why_missed"] = audits.why_referee_missed;
  if (audits.unreceipted.total > 0) {
    out["unreceipted"] = {{"windows", audits.unreceipted.total},
                          {"by_node", audits.unreceipted.by_node},
                          {"by_key", audits.unreceipted.by_key}};
  }
  return out;
}

OrderedJson peer_object(const LeasePeer& peer) {
  return {{"name", peer.name}, {"api", peer.api}, {"control", peer.control}};
}

// Which coordinators share the store.
OrderedJson store_object(const LeaseWatch& lease) {
  const LeaseView view = lease.view();
  OrderedJson out = {{"url", lease.store()},
                     {"epoch", view.epoch},
                     {"leader", peer_object(view.leader)},
                     {"standbys", OrderedJson::array()}};
  for (const LeasePeer& standby : view.standbys) out["standbys"].push_back(peer_object(standby));
  if (const std::string away = lease.away(); !away.empty()) out["away"] = away;
  return out;
}

OrderedJson state_of_model(const ServedModel& served) {
  const auto* family = served.spec.family;
  return {{"id", served.id},
          {"fingerprint", served.fingerprint},
          {"file_bytes", served.file_bytes},
          {"architecture", family != nullptr ? OrderedJson(family->architecture) : OrderedJson()},
          {"name", served.spec.name},
          {"layers", served.spec.layers},
          {"context", served.spec.context},
          {"parameters", served.spec.parameters}};
}

OrderedJson models_array(const Api& api, const SwarmStatus& status) {
  OrderedJson out = OrderedJson::array();
  for (std::uint32_t i = 0; i < status.models.size(); ++i) {
    const ModelStatus& one = status.models[i];
    const ServedModel& served = api.models.at(i);
    out.push_back({{"id", one.name},
                   {"state", one.state},
                   {"waiting", one.waiting},
                   {"file_bytes", served.file_bytes},
                   {"layers", served.spec.layers},
                   {"context", served.spec.context}});
    if (!one.why.empty()) out.back()["why"] = one.why;
  }
  return out;
}

// `manages`: the sender may manage the cluster.
OrderedJson state_object(const Api& api, const SwarmStatus& status, bool manages) {
  OrderedJson out = {{"version", api.options.version},
                     {"manages", manages},
                     {"joinable", api.options.joinable},
                     {"ready", status.ready}};
  if (!api.options.cluster.empty()) out["cluster"] = api.options.cluster;
  if (!status.ready) out["missing"] = status.missing;
  const ServedModel& served = api.models.at(status.model);
  out["uncovered"] = OrderedJson::array();
  for (const LayerRange& layers : status.uncovered) {
    out["uncovered"].push_back(uncovered_object(layers, served.stages));
  }
  out.update({{"stages_wanted", status.stages_wanted},
              {"running", status.running},
              {"running_audits", status.running_audits},
              {"waiting", status.waiting},
              {"tokens_per_second", status.tokens_per_second},
              {"prompt_tokens_per_second", status.prompt_tokens_per_second}});
  out["power"] = power_object(status.nodes);
  if (api.options.lease != nullptr) out["store"] = store_object(*api.options.lease);
  if (api.options.ledger != nullptr) {
    const std::string fault = api.options.ledger->fault();
    out["ledger"] = {{"logs", fault.empty()}};
    if (!fault.empty()) out["ledger"]["fault"] = fault;
    if (const auto time = api.options.ledger->time()) {
      out["ledger"]["ahead_seconds"] = *time - api.clock.unix_seconds();
    }
    if (const auto left = api.options.ledger->free_bytes()) out["ledger"]["free_bytes"] = *left;
  }
  if (api.options.credits) {
    const Credits::Balance own = api.options.credits->balance(api.options.policy.account);
    out["credits"] = {{"account", api.options.policy.account.hex()},
                      {"balance", own.spendable},
                      {"reserved", own.reserved},
                      {"in_circulation", api.options.credits->in_circulation()}};
  }
  out["model"] = state_of_model(served);
  if (!status.models.empty()) out["models"] = models_array(api, status);
  out["nodes"] = OrderedJson::array();
  for (const NodeStatus& node : status.nodes) {
    out["nodes"].push_back(node_object(node, manages));
    if (!status.models.empty()) out["nodes"].back()["model"] = status.models[node.model].name;
  }
  out["wrong_bytes"] = OrderedJson::array();
  for (const AccusedStatus& one : status.accused) {
    out["wrong_bytes"].push_back(
        {{"node", one.node}, {"accusers", one.accusers}, {"item", one.item}, {"out", one.out}});
  }
  out["pipelines"] = OrderedJson::array();
  for (const PipelineStatus& p : status.pipelines) {
    out["pipelines"].push_back(pipeline_object(p));
    if (!status.models.empty()) out["pipelines"].back()["model"] = status.models[p.model].name;
  }
  out["links"] = links_of_pipelines(status);
  const bool measured =
      std::any_of(status.nodes.begin(), status.nodes.end(),
                  [](const NodeStatus& node) { return node.measured.has_value(); });
  if (measured) out["measured"] = measured_nodes(status);
  if (measured) out["routes"] = measured_routes(status);
  if (status.objective) out["optimise"] = placement::name_of(*status.objective);
  if (status.audits) out["audits"] = audits_object(*status.audits);
  out["totals"] = totals_object(status);
  return out;
}

HttpResponse healthy() { return json_response(R"({"status":"ok"})"); }

}  // namespace

OrderedJson measured_nodes(const SwarmStatus& status) {
  OrderedJson out = {{"batch_rows", placement::Problem().batch_rows},
                     {"nodes", OrderedJson::array()},
                     {"links", OrderedJson::array()}};
  std::set<std::string> names;
  for (const NodeStatus& node : status.nodes) {
    if (!node.measured || node.state == "lost" || node.away) continue;
    names.insert(node.name);
    const placement::Node& measured = *node.measured;
    OrderedJson one = {{"name", node.name},
                       {"memory_bytes", measured.memory_bytes},
                       {"layer_seconds", {measured.layer.one, measured.layer.batch}},
                       {"head_seconds", {measured.head.one, measured.head.batch}},
                       {"step_seconds", measured.step_seconds}};
    // A GPU has none: KV takes what the weights leave.
    if (measured.kv_budget_bytes < limits::kPlacedBytes) {
      one["kv_budget_bytes"] = measured.kv_budget_bytes;
    }
    if (!node.island.empty()) one["island"] = node.island;
    out["nodes"].push_back(std::move(one));
  }
  for (const LinkStatus& link : status.links) {
    if (!names.contains(link.from) || !names.contains(link.to)) continue;
    out["links"].push_back({{"from", link.from},
                            {"to", link.to},
                            {"seconds", link.link.delay_seconds},
                            {"bytes_per_second", link.link.bytes_per_second}});
  }
  return out;
}

void with_status(Call call, std::function<void(Call call, const SwarmStatus& status)> function) {
  const std::shared_ptr<Api> api = call.api;
  // Whichever of the two tasks runs first answers the call; both run on the socket thread.
  auto open = std::make_shared<std::optional<Call>>(std::move(call));
  const std::uint32_t seconds = api->options.timeouts.status;
  if (api->later) {
    api->later(std::chrono::seconds(seconds), [open, seconds] {
      if (const auto taken = std::exchange(*open, std::nullopt)) {
        taken->respond(silent_coordinator(seconds));
      }
    });
  }
  api->port.status(
      [api, open = std::move(open), function = std::move(function)](SwarmStatus status) {
        api->sockets.post([open, function, status = std::move(status)] {
          if (auto taken = std::exchange(*open, std::nullopt)) function(*std::move(taken), status);
        });
      });
}

void respond_with_status(Call call, std::function<HttpResponse(const SwarmStatus&)> function) {
  with_status(std::move(call),
              [function = std::move(function)](const Call& taken, const SwarmStatus& status) {
                taken.respond(function(status));
              });
}

void handle_live(Call call) { call.respond(healthy()); }

void handle_ready(Call call) {
  respond_with_status(std::move(call), [](const SwarmStatus& status) {
    if (status.ready) return healthy();
    return error_response(from_coordinator({ErrorCode::kUnavailable, status.missing}, 1));
  });
}

void handle_model_ready(Call call) {
  constexpr std::string_view kBefore = "/readyz/";
  auto found = find_model(*call.api, call.request, call.request.path.substr(kBefore.size()));
  if (!found.ok()) return call.respond(found.error());
  const ServedModel& served = **found;
  respond_with_status(std::move(call), [&served](const SwarmStatus& status) {
    const bool current = status.model == served.number;
    const bool ready = current ? status.ready : status.models[served.number].state == "ready";
    if (ready) return healthy();
    std::string why = "the model '" + served.id + "' is not loaded";
    if (current) {
      why += ": " + status.missing;
    } else {
      const ModelStatus& now = status.models[served.number];
      why += now.why.empty() ? "; a request for it loads it" : ": " + now.why;
    }
    return error_response(from_coordinator({ErrorCode::kUnavailable, why}, 1, "model_not_loaded"));
  });
}

void handle_metrics(Call call) {
  const Api& api = *call.api;
  respond_with_status(std::move(call), [&api](const SwarmStatus& status) {
    return HttpResponse{200, api.metrics.expose(status, api.options.ledger), Metrics::kContentType};
  });
}

void handle_state(Call call) {
  const Api& api = *call.api;
  const bool manages = call.request.manages;
  respond_with_status(std::move(call), [&api, manages](const SwarmStatus& status) {
    return json_response(dump(state_object(api, status, manages)));
  });
}

}  // namespace hearth::coordinator::http
