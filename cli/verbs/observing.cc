#include <CLI/CLI.hpp>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "base/limits.h"
#include "cli/command/values.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/update.h"
#include "cli/plan/plan.h"
#include "cli/verbs/server_verb.h"
#include "cli/watch/watch.h"
#include "cli/worker/outside_port.h"
#include "coordinator/client/api_address.h"

namespace hearth::cli {
namespace {

void add_pace(CLI::App* verb, double& interval, std::uint64_t& count) {
  verb->add_option("--interval", interval, "seconds between updates")
      ->check(number(0.1, 3600))
      ->capture_default_str();
  verb->add_option("--count", count, "number of updates (0: until q or Ctrl-C)")
      ->check(whole_number(0, std::numeric_limits<std::int32_t>::max()));
}

void add_status(CLI::App& app, Action& action) {
  const auto [verb, o] =
      add_server_verb(app, "status", "Show the nodes, the layers they hold, and what is missing",
                      action, run_status);
  verb->add_flag("--json", o->json, "print JSON");
  verb->add_option("--wait", o->wait_seconds, "seconds to wait for the swarm")->check(seconds());
  verb->add_flag("-w,--watch", o->watch, "repeat, in place on a terminal");
  add_pace(verb, o->interval_seconds, o->count);
}

void add_top(CLI::App& app, Action& action) {
  const auto [verb, o] =
      add_server_verb(app, "top", "Show nodes with layers, rates, load and KV, repeatedly; q quits",
                      action, run_top);
  verb->add_flag("--json", o->json, "print JSON, one line per update");
  add_pace(verb, o->interval_seconds, o->count);
}

void add_doctor(CLI::App& app, Action& action) {
  auto o = std::make_shared<DoctorOptions>();
  auto host = std::make_shared<std::string>();
  o->api_port = client::kDefaultApiPort;
  CLI::App* verb = app.add_subcommand(
      "doctor", "Diagnose this machine, with the command that fixes each problem");
  add_server(verb, *host, o->api_key);
  verb->add_option("-p,--port", o->api_port, "port that a server on this machine would use")
      ->check(whole_number(1, 65'535))
      ->capture_default_str();
  verb->add_option("--clock", o->clocks,
                   "also compare the clock with this server's, e.g. https://example.org "
                   "(repeatable)")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(text_within(2048));
  verb->add_flag("--offline", o->offline, "make no connections, not even to the server");
  verb->add_flag("--json", o->json, "print JSON");
  verb->callback([o, host, &action] {
    o->api_base = server_base(*host, o->api_key);
    o->server_named = !host->empty();
    action = [o] { return run_doctor(*o); };
  });
}

void add_ping(CLI::App& app, Action& action) {
  const auto [verb, o] =
      add_verb(app, "ping", "Measure round trips and throughput of the encrypted link to a node",
               action, run_ping);
  verb->add_option("node", o->node, "name, as hearth nodes shows it; coordinator is one")
      ->required()
      ->check(text_within(limits::kNodeNameBytes));
  verb->add_option("-c,--count", o->count, "number of probes, each over its own connection")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str();
  verb->add_option("--interval", o->interval_seconds, "seconds between probes")
      ->check(number(0, 3600))
      ->capture_default_str();
  verb->add_flag("--no-rate", o->no_rate, "do not measure the throughput");
  verb->add_option("--data-dir", o->data_dir, "data folder of this machine");
  verb->add_flag("--json", o->json, "print JSON");
}

void add_map_port(CLI::App& app, Action& action) {
  const auto [verb, o] = add_verb(
      app, "map-port",
      "Ask the router of this network to forward a port to this machine for 20 minutes, as workers "
      "behind a home router do",
      action, run_map_port);
  verb->add_option("port", o->port, "TCP port of this machine")
      ->required()
      ->check(whole_number(1, 65'535));
  verb->add_option("--gateway", o->gateway,
                   "IPv4 address of the router, which is asked by NAT-PMP alone (default: the "
                   "default route's, then any router that answers UPnP)");
  verb->add_flag("--json", o->json, "print JSON");
}

// The options for GPUs that the user does not have yet. They cannot be combined with those for real
// nodes.
void add_forecast(CLI::App& verb, ForecastOptions& o) {
  CLI::Option* gpus =
      verb.add_option("--gpus", o.gpus,
                      "predict for GPUs of the catalogue, e.g. 8xrtx4090 or 2xrtx4090,1xrtx3090")
          ->check(refused_by(parse_gpus));
  CLI::Option* speed =
      verb.add_option("--for", o.speed,
                      "search the catalogue for the cheapest GPUs that give each user this speed, "
                      "e.g. 5tok/s")
          ->check(refused_by(parse_speed));
  verb.add_option("--link", o.link,
                  "with --gpus: rate between machines, e.g. 10G; card: all in one machine")
      ->check(refused_by(parse_link))
      ->capture_default_str();
  verb.add_option("--per-machine", o.per_machine,
                  "with --gpus: GPUs in each machine (default: 1, or 8 of those for servers)")
      ->check(whole_number(1, limits::kPlannedCards));
  verb.add_option("--batch", o.batch, "with --gpus: rows of a step batch")
      ->check(whole_number(1, limits::kBatchRows))
      ->capture_default_str();
  verb.add_option("--quant", o.quant,
                  "format of the weights of a shape of the catalogue (default: q4_k_m)")
      ->check(text_within(limits::kModelNameBytes));
  verb.add_option("--users", o.users, "with --for: users at the same time")
      ->check(whole_number(1, static_cast<std::int64_t>(limits::kPlannedUsers)))
      ->capture_default_str();
  verb.add_option("--budget", o.budget_usd, "with --for: the most to spend, in USD")
      ->check(number(0, limits::kPlannedUsd, Low::kExcluded));
  verb.add_option("--electricity", o.usd_per_kwh,
                  "USD a kWh (default: the U.S. price of the catalogue)")
      ->check(number(0, 100, Low::kExcluded));
  gpus->excludes(speed);
  for (const char* name : {"--nodes", "--optimise", "--stages"}) {
    CLI::Option* real = verb.get_option(name);
    speed->excludes(real);
    if (name != std::string_view("--optimise")) gpus->excludes(real);
  }
}

void add_plan(CLI::App& app, Action& action) {
  const auto [verb, o] = add_server_verb(
      app, "plan", "Show which nodes would get which layers of a model, and the predicted speed",
      action, run_plan);
  verb->add_option("model", o->model,
                   "GGUF file or pulled name; with --gpus or --for also a shape, e.g. llama3-70b");
  verb->add_option(
      "--nodes", o->nodes,
      "file of nodes and links (default: those of the server, as measured); memory is for "
      "weights and KV alone");
  add_objective(*verb, o->objective);
  verb->add_option("--context", o->tokens,
                   "positions of KV that every stage must have room for; with --gpus or --for, of "
                   "each user")
      ->check(whole_number(1, static_cast<std::int64_t>(limits::kPlacedTokens)));
  verb->add_option("--stages", o->stages,
                   "number of stages (default: as the server, or the best number)")
      ->check(whole_number(1, limits::kStages));
  verb->add_flag("--json", o->json, "print JSON");
  add_forecast(*verb, o->forecast);
}

void add_update(CLI::App& app, Action& action) {
  const auto [verb, o] = add_verb(
      app, "update", "Show whether there is a newer release; installs nothing", action, run_update);
  verb->add_flag("--check", o->check, "required: only compare, by a signed release manifest")
      ->envname("HEARTH_UPDATE_CHECK");
  verb->add_option("--from", o->from, "URL or file of the manifest (default: the one of the build)")
      ->envname("HEARTH_UPDATE_FROM")
      ->check(text_within(2048));
  verb->add_option("--key", o->key,
                   "the project's public key, 64 digits (default: the one of the build)")
      ->envname("HEARTH_UPDATE_KEY")  // HEARTH_KEY_... are the API's
      ->check(sha256_text());
  verb->add_flag("--json", o->json, "print JSON");
}

void add_logs(CLI::App& app, Action& action) {
  const auto [verb, o] = add_verb(
      app, "logs", "Show the end of the log of this machine's server or of one of its workers",
      action, run_logs);
  o->lines = 100;
  verb->add_option("node", o->node,
                   "a worker that was started by hand (default: the server, with the lines of its "
                   "local workers)");
  verb->add_flag("-f,--follow", o->follow, "continue with new lines until Ctrl-C");
  verb->add_option("-n,--lines", o->lines, "number of lines from the end")
      ->check(whole_number(0, 1'000'000))
      ->capture_default_str();
  verb->add_option("--data-dir", o->data_dir, "folder of the server or worker");
}

}  // namespace

void add_objective(CLI::App& verb, std::optional<placement::Objective>& objective) {
  const std::map<std::string, placement::Objective> names = {
      {"auto", placement::Objective::kAuto},
      {"latency", placement::Objective::kLatency},
      {"throughput", placement::Objective::kThroughput}};
  verb.add_option_function<std::string>(
          "--optimise",
          [&objective, names](const std::string& name) { objective = names.at(name); },
          "place layers by measurements: for a quick stream on few nodes (auto, the default), for "
          "the "
          "latency of one stream, or for the throughput of many")
      ->check(CLI::IsMember({"auto", "latency", "throughput"}));
}

void add_observing_verbs(CLI::App& app, Action& action) {
  add_status(app, action);
  add_top(app, action);
  add_ping(app, action);
  add_map_port(app, action);
  add_plan(app, action);
  add_doctor(app, action);
  add_update(app, action);
  add_logs(app, action);
}

}  // namespace hearth::cli
