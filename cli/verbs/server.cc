#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "base/limits.h"
#include "cli/api_address.h"
#include "cli/command/network_values.h"
#include "cli/command/values.h"
#include "cli/command/verbs.h"
#include "cli/serve/serve.h"
#include "cli/worker/device.h"
#include "cli/worker/worker.h"
#include "coordinator/pipelines/hand_layers.h"

namespace hearth::cli {
namespace {

CLI::Validator hours_text() {
  const auto check = [](const std::string& text) -> std::string {
    const auto hours = node::parse_hours(text);
    return hours.ok() ? "" : hours.error().message;
  };
  return CLI::Validator(check, "HH:MM-HH:MM");
}

CLI::Validator hand_layers() {
  const auto check = [](const std::string& text) -> std::string {
    const auto stages = parse_hand_layers(text);
    return stages.ok() ? "" : stages.error().message;
  };
  return CLI::Validator(check, "LIST");
}

// Who forms a pipeline, and with which layers.
void add_pipeline(CLI::App& verb, const std::shared_ptr<ServeOptions>& o) {
  verb.add_option("--local-workers", o->local_workers, "workers to run on this machine")
      ->check(whole_number(0, limits::kStages))
      ->capture_default_str();
  verb.add_option(
          "--stages", o->stages,
          "workers of one pipeline (0: with --optimise as many as are best, else as many as "
          "local workers)")
      ->check(whole_number(0, limits::kStages))
      ->capture_default_str();
  add_objective(verb, o->optimise);
  verb.add_option_function<std::string>(
          "--place",
          [o](const std::string& text) {
            if (auto stages = parse_hand_layers(text); stages.ok()) o->by_hand = *stages;
          },
          "place the layers by hand: NODE:FIRST-LAST,NODE:FIRST-LAST,...")
      ->check(hand_layers())
      ->excludes("--optimise")
      ->excludes("--stages");
}

void add_audits(CLI::App& verb, const std::shared_ptr<ServeOptions>& o) {
  using coordinator::AuditMode;
  const std::map<std::string, AuditMode> modes = {
      {"off", AuditMode::kOff}, {"spot", AuditMode::kSpot}, {"full", AuditMode::kFull}};
  verb.add_option_function<std::string>(
          "--audit", [o, modes](const std::string& name) { o->audits = modes.at(name); },
          "have answers computed again by another pipeline of the same cut, where there is one: "
          "none, those that are drawn at the ledger's rates, or all")
      ->check(CLI::IsMember({"off", "spot", "full"}))
      ->default_str("spot");
  verb.add_option_function<double>(
          "--referee-rate",
          [o](double share) {
            o->referee_rate = std::llround(share * static_cast<double>(ledger::kMillion));
          },
          "share of windows that this machine computes again itself, when it has nothing else to "
          "do, with its own copy of the model (0: none)")
      ->check(number(0, 1))
      ->default_str("0.005");
  verb.add_flag("--no-referee", o->no_referee,
                "have this machine compute nothing again: a third pipeline judges disputes")
      ->excludes("--referee-rate");
  verb.add_flag("--no-games", o->no_games,
                "keep no files of disputes: they show anybody who was wrong, and a part of what "
                "was computed");
  verb.add_option_function<std::string>(
          "--verify",
          [o](const std::string& name) { o->verify = *coordinator::verify_named(name); },
          "how answers are verified whose request does not say (hearth run --help)")
      ->check(verify_text())
      ->default_str("none");
  verb.add_option_function<std::string>(
          "--min-level",
          [o](const std::string& name) { o->min_level = *coordinator::level_named(name); },
          "nodes below this level see no prompt whose request does not say otherwise")
      ->check(level_text())
      ->default_str("newcomer");
}

void add_serve(CLI::App& app, Action& action) {
  const auto o = std::make_shared<ServeOptions>();
  CLI::App* verb = app.add_subcommand("serve", "Run the coordinator and its API");
  verb->add_option("-m,--model", o->model, "GGUF file or pulled name")->required();
  verb->add_option("--model-id,--alias", o->model_id, "the model's name for clients")
      ->check(text_within(limits::kModelNameBytes));
  add_pipeline(*verb, o);
  verb->add_option(
          "--host", o->host,
          "address of the API, with or without port; beyond loopback every request needs a key")
      ->check(listen_host())
      ->capture_default_str();
  verb->add_option("--host-name", o->host_names,
                   "another name of this machine, for clients beyond it (repeatable)")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(api_host());
  CLI::Option* port = verb->add_option("-p,--port", o->port, "port of the API (0: any free one)");
  port->check(whole_number(0, 65'535))->capture_default_str();
  verb->add_option("--control-port", o->control_port, "port that workers dial (0: any free one)")
      ->check(whole_number(0, 65'535))
      ->capture_default_str();
  verb->add_option("--data-port", o->data_port,
                   "port of the links over which answers come back (0: any free one)")
      ->check(whole_number(0, 65'535))
      ->capture_default_str();
  verb->add_option("--data-dir", o->data_dir, "folder of serve.json, the store and the keys");
  verb->add_flag("--no-announce", o->no_announce,
                 "do not tell this network of the cluster (DNS-SD, through Avahi)");
  verb->add_flag("--no-resume", o->no_resume,
                 "write no request to disk: an answer that a restart cuts off is computed anew");
  verb->add_flag("--no-receipts", o->no_receipts,
                 "keep no ledger: answers have no receipts that prove who computed what");
  add_audits(*verb, o);
  verb->add_option("-t,--threads", o->worker_threads, "threads of each local worker (0: chosen)")
      ->check(whole_number(0, limits::kComputeThreads));
  verb->add_flag("--pin", o->pin, "as of a worker");
  verb->add_option("--kv-budget", o->kv_budget_bytes, "KV memory of each local worker, e.g. 512MB")
      ->transform(memory_size(1, kMemoryMax));
  verb->add_option("--memory", o->memory_bytes,
                   "memory of each local worker in all, e.g. 8GB (default: all available)")
      ->transform(memory_size(1, kMemoryMax));
  verb->add_option("--device", o->device,
                   "of each local worker; auto: a card each, while there are cards")
      ->check(device_text())
      ->capture_default_str();
  verb->add_option("--batch-rows", o->batch_rows, "rows of one step at most")
      ->check(whole_number(1, limits::kBatchRows))
      ->capture_default_str();
  verb->add_option("--log-level", o->log_level, "trace, debug, info, warn, error or off")
      ->check(log_level())
      ->capture_default_str();
  verb->add_flag("--no-log-file", o->no_log_file,
                 "log to stderr alone, not to the data folder too");
  verb->callback([o, port, &action] {
    const auto address = parse_api_address(o->host);  // checked above
    if (address.ok()) {
      o->host = address->host;
      if (address->port && port->count() == 0) o->port = *address->port;
    }
    action = [o] { return run_serve(*o); };
  });
}

void add_worker(CLI::App& app, Action& action) {
  const auto o = std::make_shared<WorkerOptions>();
  CLI::App* verb = app.add_subcommand("worker", "Run one worker of a swarm");
  verb->add_option("--coordinator", o->coordinator,
                   "the coordinator's control address (default: as this machine's folder says)")
      ->check(link_address());
  add_worker_options(*verb, *o);
  verb->callback([o, &action] { action = [o] { return run_worker(*o); }; });
}

}  // namespace

void add_worker_options(CLI::App& verb, WorkerOptions& o) {
  verb.add_option("-m,--model", o.model,
                  "GGUF file or pulled name (default, on a machine that has joined a cluster: "
                  "what of the coordinator's model it shall hold is fetched)");
  verb.add_option("--model-dir", o.model_folders, "look here too for the model's file (repeatable)")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb.add_flag("--offline", o.offline, "fetch from the cluster's nodes alone");
  verb.add_option("--connections", o.connections, "at once, to fetch layers")
      ->check(whole_number(1, limits::kFetchConnections))
      ->capture_default_str();
  verb.add_option("--stall", o.stall_seconds,
                  "seconds without a byte, then a source is asked again")
      ->check(whole_number(1, 3600))
      ->capture_default_str();
  verb.add_flag("--json", o.json, "say on stdout, in JSON, what is held and fetched");
  verb.add_option("--data-dir", o.data_dir,
                  "folder of this machine's state, or of the server that the worker belongs to");
  verb.add_option("--name", o.name, "unique in the cluster (default: from the host name)")
      ->check(text_within(limits::kNodeNameBytes));
  verb.add_option("--listen", o.listen,
                  "address of the data links (default: the one that the coordinator sees)")
      ->check(link_address());
  verb.add_option("-t,--threads", o.threads, "0: all cores")
      ->check(whole_number(0, limits::kComputeThreads));
  verb.add_flag("--pin", o.pin, "each thread on a cpu of its own, where cpus are as many");
  verb.add_option("--kv-budget", o.kv_budget_bytes, "KV memory, e.g. 512MB")
      ->transform(memory_size(1, kMemoryMax));
  verb.add_option("--memory", o.memory_bytes, "memory in all, e.g. 8GB (default: all available)")
      ->transform(memory_size(1, kMemoryMax));
  verb.add_option("--device", o.device, "what computes; auto: the first card, if there is one")
      ->check(device_text())
      ->capture_default_str();
  verb.add_flag("--no-pause-on-game", o.no_pause_on_game, "serve while GameMode says a game runs");
  verb.add_flag("--no-pause-on-battery", o.no_pause_on_battery, "serve on battery too");
  verb.add_option("--pause-above", o.pause_above,
                  "pause while others use more of the card's memory (default: 2GB; 0: never)")
      ->transform(memory_size(0, kMemoryMax));
  verb.add_option("--hours", o.hours, "serve between these times alone, e.g. 22:00-08:00")
      ->check(hours_text());
  verb.add_option("--log-level", o.log_level, "trace, debug, info, warn, error or off")
      ->check(log_level())
      ->capture_default_str();
  verb.add_flag("--no-log-file", o.no_log_file, "log to stderr alone, not to the data folder too");
}

void add_server_verbs(CLI::App& app, Action& action) {
  add_serve(app, action);
  add_worker(app, action);
}

}  // namespace hearth::cli
