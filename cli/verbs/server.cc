#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "base/limits.h"
#include "base/number.h"
#include "base/result.h"
#include "cli/command/network_values.h"
#include "cli/command/values.h"
#include "cli/command/verbs.h"
#include "cli/serve/serve.h"
#include "cli/terminal/exit_codes.h"
#include "cli/worker/device.h"
#include "cli/worker/worker.h"
#include "coordinator/client/api_address.h"
#include "coordinator/pipelines/hand_layers.h"

namespace hearth::cli {
namespace {

// "off" is 1, "auto" 0.
Result<std::uint32_t> parse_ranks(const std::string& text) {
  if (text == "off") return 1;
  if (text == "auto") return 0;
  const auto ranks = parse_number<std::uint32_t>(text);
  if (ranks && *ranks >= 2 && *ranks <= limits::kRanks) return *ranks;
  return Error::of(ErrorCode::kInvalidInput, "'", text.substr(0, 64),
                   "' is refused; it must be a whole number from 2 to ", limits::kRanks,
                   ", auto or off");
}

// The options that decide which workers form a pipeline, and with which layers.
void add_pipeline(CLI::App& verb, const std::shared_ptr<ServeOptions>& o) {
  verb.add_option("--local-workers", o->local_workers,
                  "workers to run on this machine (0: a server alone)")
      ->check(whole_number(0, limits::kStages))
      ->capture_default_str();
  verb.add_option("--stages", o->stages,
                  "split the layers evenly into this many stages (0: place them by measurements)")
      ->check(whole_number(0, limits::kStages))
      ->capture_default_str();
  add_objective(verb, o->optimise);
  verb.add_option_function<std::string>(
          "--place",
          [o](const std::string& text) {
            if (auto stages = coordinator::parse_hand_layers(text); stages.ok())
              o->by_hand = *stages;
          },
          "fix the placement: NODE:FIRST-LAST,NODE:FIRST-LAST,...")
      ->check(refused_by(coordinator::parse_hand_layers, "LIST"))
      ->excludes("--optimise")
      ->excludes("--stages");
  verb.add_option_function<std::string>(
          "--tensor-parallel",
          [o](const std::string& text) {
            if (const auto ranks = parse_ranks(text); ranks.ok()) o->ranks = *ranks;
          },
          "workers that compute each stage together; auto: as many as are best, by measurements; "
          "off: each stage has one worker")
      ->check(refused_by(parse_ranks, message_of("2 to ", limits::kRanks, ", auto, off")))
      ->default_str("off")
      ->excludes("--place");
}

void add_audits(CLI::App& verb, const std::shared_ptr<ServeOptions>& o) {
  using coordinator::AuditMode;
  const std::map<std::string, AuditMode> modes = {
      {"off", AuditMode::kOff}, {"spot", AuditMode::kSpot}, {"full", AuditMode::kFull}};
  verb.add_option_function<std::string>(
          "--audit", [o, modes](const std::string& name) { o->audits = modes.at(name); },
          "audit answers on another pipeline with the same layer split: none, a random share by "
          "the ledger's rates, or all")
      ->check(CLI::IsMember({"off", "spot", "full"}))
      ->default_str("spot");
  verb.add_option_function<double>(
          "--referee-rate",
          [o](double share) {
            o->referee_rate = std::llround(share * static_cast<double>(ledger::kMillion));
          },
          "share of windows that the referee recomputes as an auditor")
      ->group("")  // not listed: the ledger's policy fixes the share; tests need none or all
      ->check(number(0, 1))
      ->default_str("0.005");
  verb.add_option_function<std::string>(
          "--verify",
          [o](const std::string& name) { o->verify = *coordinator::verify_named(name); },
          "verification of requests that do not ask for one (hearth run --help)")
      ->check(verify_text())
      ->default_str("none");
  verb.add_option_function<std::string>(
          "--min-level",
          [o](const std::string& name) { o->min_level = *coordinator::level_named(name); },
          "least level of nodes that see prompts, for requests that do not set one")
      ->check(level_text())
      ->default_str("newcomer");
}

void add_models(CLI::App& verb, ServeOptions& o) {
  verb.add_option("-m,--model", o.models,
                  "GGUF file, pulled name, or a folder of files (repeatable; the flag may be "
                  "omitted). Of several models, each is loaded when a request names it")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb.add_option("model", o.models, "the same");
  verb.add_option("--loaded-models", o.loaded_models,
                  "most models that are loaded at once (default: as many as this machine's memory "
                  "holds); 1: each has all machines while it is loaded")
      ->check(whole_number(1, limits::kServedModels));
  verb.add_option("--model-id,--alias", o.model_id, "name of the model in the API")
      ->check(text_within(limits::kModelNameBytes));
  verb.add_option("--chat-template", o.chat_template,
                  "a Jinja file in place of the model's chat template");
}

void add_steps(CLI::App& verb, ServeOptions& o) {
  verb.add_option("--batch-rows", o.batch_rows, "most rows of one step batch")
      ->check(whole_number(1, limits::kBatchRows))
      ->capture_default_str();
  verb.add_option("--itl-target", o.itl_target_ms,
                  "target: milliseconds between two tokens of an answer while prompts are computed "
                  "(default: 100, or the time of three steps without prompts if that is longer)")
      ->check(whole_number(1, limits::kItlTargetMilliseconds));
  verb.add_flag("--no-prefix-cache", o.no_prefix_cache,
                "turn the prefix cache off: compute every prompt from its beginning");
  verb.add_flag("--no-speculation", o.no_speculation,
                "draft no tokens; answers are the same, and predictable text comes slower");
  verb.add_option("--draft", o.draft,
                  "smaller model with the same vocabulary that drafts tokens, if this machine is "
                  "the first stage and drafts make it faster; GGUF file or pulled name");
}

// Of a server or a worker. The catalogue checks the names when the verb runs.
template <typename Options>
void add_emulation(CLI::App& verb, Options& o, const char* what) {
  CLI::Option* emulate = verb.add_option("--emulate", o.emulate, what);
  CLI::Option* shape =
      verb.add_option("--shape", o.shape,
                      "with --emulate: a model of hearth plan's catalogue, without weights, e.g. "
                      "llama3-70b");
  verb.add_option("--quant", o.quant, "with --shape: format of its weights (default: q4_k_m)")
      ->needs(shape);
  shape->excludes("--model");
  emulate->excludes("--draft");
}

void add_ports_for_workers(CLI::App& verb, ServeOptions& o) {
  verb.add_option("--control-port", o.control_port, "port for workers (0: any free one)")
      ->check(whole_number(0, 65'535))
      ->capture_default_str();
  verb.add_option("--data-port", o.data_port,
                  "port of the coordinator's data links (0: any free one)")
      ->check(whole_number(0, 65'535))
      ->capture_default_str();
  verb.add_option("--relay-megabits", o.relay_megabits,
                  "forward links of workers that cannot connect to each other, at most so many "
                  "Mbit/s in all (0: none)")
      ->check(whole_number(0, limits::kRelayMegabits))
      ->capture_default_str();
}

void add_serve(CLI::App& app, Action& action) {
  const auto o = std::make_shared<ServeOptions>();
  CLI::App* verb = app.add_subcommand("serve", "Run the coordinator and its API");
  add_models(*verb, *o);
  add_pipeline(*verb, o);
  add_steps(*verb, *o);
  verb->add_option("--host", o->host,
                   "address of the API, with or without port; beyond loopback, requests need a key")
      ->check(listen_host())
      ->capture_default_str();
  verb->add_option("--host-name", o->host_names,
                   "another name of this machine that clients use (repeatable)")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(api_host());
  CLI::Option* port = verb->add_option("-p,--port", o->port, "port of the API (0: any free one)");
  port->check(whole_number(0, 65'535))->capture_default_str();
  add_ports_for_workers(*verb, *o);
  verb->add_option("--data-dir", o->data_dir, "data folder");
  verb->add_option("--store", o->store,
                   "keep members, keys and requests in PostgreSQL: postgresql://USER@HOST/DATABASE "
                   "(default: SQLite in the data folder, or where it was before)");
  verb->add_flag("--no-announce", o->no_announce,
                 "do not announce the cluster on this network (DNS-SD, through Avahi)");
  verb->add_flag("--no-resume", o->no_resume,
                 "do not write requests to disk; a restart then ends running answers");
  verb->add_flag("--no-receipts", o->no_receipts, "keep no ledger; answers then have no receipts");
  add_audits(*verb, o);
  verb->add_option("-t,--threads", o->worker_threads, "threads of each local worker (0: automatic)")
      ->check(whole_number(0, limits::kComputeThreads));
  verb->add_flag("--pin", o->pin, "pin each thread to a CPU");
  verb->add_option("--kv-budget", o->kv_budget_bytes,
                   "KV memory of each local worker, e.g. 2GB (default: 512MB; on a GPU, what the "
                   "weights leave)")
      ->transform(memory_size(1, kMemoryMax));
  verb->add_option("--memory", o->memory_bytes,
                   "memory of each local worker in all, e.g. 8GB (default: all available)")
      ->transform(memory_size(1, kMemoryMax));
  verb->add_option("--device", o->device,
                   "device of each local worker; auto: one GPU each, as far as there are GPUs")
      ->check(device_text())
      ->capture_default_str();
  verb->add_option("--log-level", o->log_level, "trace, debug, info, warn, error or off")
      ->check(log_level())
      ->capture_default_str();
  verb->add_flag("--no-log-file", o->no_log_file, "log to stderr only, not to the data folder");
  add_emulation(
      *verb, *o,
      "each local worker emulates this GPU: a name of hearth plan's catalogue, or a .json "
      "file of figures. Nothing is computed");
  add_detach(*verb, o->detach);
  verb->callback([o, port, &action] {
    const auto address = client::parse_api_address(o->host);  // checked above
    if (address.ok()) {
      o->host = address->host == "localhost" ? "127.0.0.1" : address->host;
      if (address->port && port->count() == 0) o->port = *address->port;
    }
    action = [o] {
      if (!o->models.empty() || !o->shape.empty()) return run_serve(*o);
      return misused(Error::invalid(
          "no model is given: hearth serve MODEL, a GGUF file or a name that hearth ls shows"));
    };
  });
}

void add_worker(CLI::App& app, Action& action) {
  const auto [verb, o] = add_verb(app, "worker", "Run one worker of a swarm", action, run_worker);
  verb->add_option("--coordinator", o->coordinator,
                   "the coordinator's control address (default: from the data folder)")
      ->check(link_address());
  add_worker_options(*verb, *o);
  add_emulation(*verb, *o,
                "emulate a GPU for an emulated server: a name of hearth plan's catalogue, or a "
                ".json file of figures. Nothing is computed");
}

}  // namespace

void add_detach(CLI::App& verb, bool& detach) {
  verb.add_flag("-d,--detach", detach,
                "go on in the background once it runs; hearth logs shows its log")
      ->excludes("--no-log-file");
}

void add_worker_options(CLI::App& verb, WorkerOptions& o) {
  verb.add_option("-m,--model", o.model,
                  "GGUF file or pulled name (default on a member: fetch the assigned layers of the "
                  "coordinator's model)");
  verb.add_option("--model-dir", o.model_folders,
                  "also search this folder for the model file (repeatable)")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  verb.add_flag("--offline", o.offline, "fetch only from nodes of the cluster");
  verb.add_option("--connections", o.connections, "connections at once for fetching layers")
      ->check(whole_number(1, limits::kFetchConnections))
      ->capture_default_str();
  verb.add_option("--stall", o.stall_seconds, "seconds without a byte before a retry")
      ->check(whole_number(1, 3600))
      ->capture_default_str();
  verb.add_flag("--json", o.json, "print held and fetched layers as JSON on stdout");
  verb.add_option("--data-dir", o.data_dir,
                  "data folder of this machine, or of the server that the worker belongs to");
  verb.add_option("--name", o.name, "name, unique in the cluster (default: from the host name)")
      ->check(text_within(limits::kNodeNameBytes));
  verb.add_option("--listen", o.listen,
                  "address of the data links (default: as the coordinator sees it)")
      ->check(link_address());
  verb.add_option("-t,--threads", o.threads, "compute threads (0: all cores)")
      ->check(whole_number(0, limits::kComputeThreads));
  verb.add_flag("--pin", o.pin, "pin each thread to a CPU, if there are enough CPUs");
  verb.add_option("--kv-budget", o.kv_budget_bytes,
                  "KV memory, e.g. 2GB (default: 512MB; on a GPU, what the weights leave)")
      ->transform(memory_size(1, kMemoryMax));
  verb.add_option("--memory", o.memory_bytes, "memory in all, e.g. 8GB (default: all available)")
      ->transform(memory_size(1, kMemoryMax));
  verb.add_option("--device", o.device, "device; auto: the first GPU, if there is one")
      ->check(device_text())
      ->capture_default_str();
  verb.add_option("--draft", o.draft,
                  "smaller model with the same vocabulary that drafts tokens, if this worker is "
                  "the first stage and drafts make it faster; GGUF file or pulled name");
  verb.add_flag("--relay{100}", o.relay_megabits,
                "forward links of nodes that cannot connect to each other, at most so many Mbit/s "
                "(100 without a number)")
      ->check(CLI::Range(1U, limits::kRelayMegabits));
  verb.add_flag("--no-port-mapping", o.no_port_mapping,
                "behind a home router: do not ask it to forward a port to this worker");
  verb.add_flag("--no-pause-on-game", o.no_pause_on_game,
                "keep serving while GameMode reports a running game");
  verb.add_flag("--no-pause-on-battery", o.no_pause_on_battery, "keep serving on battery");
  verb.add_option(
          "--pause-above", o.pause_above,
          "pause while other programs use more GPU memory than this (default: 2GB; 0: never)")
      ->transform(memory_size(0, kMemoryMax));
  verb.add_option("--hours", o.hours, "serve only between these times, e.g. 22:00-08:00")
      ->check(refused_by(node::parse_hours, "HH:MM-HH:MM"));
  verb.add_option("--log-level", o.log_level, "trace, debug, info, warn, error or off")
      ->check(log_level())
      ->capture_default_str();
  verb.add_flag("--no-log-file", o.no_log_file, "log to stderr only, not to the data folder");
}

void add_server_verbs(CLI::App& app, Action& action) {
  add_serve(app, action);
  add_worker(app, action);
}

}  // namespace hearth::cli
