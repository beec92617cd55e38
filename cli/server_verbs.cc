#include <CLI/CLI.hpp>
#include <memory>

#include "cli/serve.h"
#include "cli/verbs.h"
#include "cli/worker.h"

namespace hearth::cli {
namespace {

void add_serve(CLI::App& app, Action& action) {
  const auto o = std::make_shared<ServeOptions>();
  CLI::App* verb = app.add_subcommand("serve", "Run the coordinator and its API");
  verb->add_option("-m,--model", o->model, "GGUF file or pulled name")
      ->envname("HEARTH_MODEL")
      ->required();
  verb->add_option("--model-id,--alias", o->model_id, "the model's name for clients");
  verb->add_option("--local-workers", o->local_workers, "workers to run on this machine")
      ->envname("HEARTH_LOCAL_WORKERS")
      ->capture_default_str();
  verb->add_option("--stages", o->stages, "workers of one pipeline (0: as many as local workers)")
      ->envname("HEARTH_STAGES")
      ->capture_default_str();
  verb->add_option("--host", o->host, "address of the API; loopback only")->capture_default_str();
  verb->add_option("-p,--port", o->port, "port of the API (0: any free one)")
      ->envname("HEARTH_PORT")
      ->capture_default_str();
  verb->add_option("--control-port", o->control_port, "port that workers dial (0: any free one)")
      ->envname("HEARTH_CONTROL_PORT")
      ->capture_default_str();
  verb->add_option("--data-dir", o->data_dir, "folder of serve.json")->envname("HEARTH_DATA_DIR");
  verb->add_option("-t,--threads", o->worker_threads, "threads of each local worker (0: chosen)")
      ->envname("HEARTH_THREADS");
  verb->add_option("--kv-budget", o->kv_budget_bytes, "KV memory of each local worker, e.g. 512MB")
      ->envname("HEARTH_KV_BUDGET")
      ->transform(CLI::AsSizeValue(false));
  verb->add_option("--batch-rows", o->batch_rows, "rows of one step at most")
      ->envname("HEARTH_BATCH_ROWS")
      ->capture_default_str();
  verb->add_option("--log-level", o->log_level, "trace, debug, info, warn, error or off")
      ->envname("HEARTH_LOG_LEVEL")
      ->capture_default_str();
  verb->callback([o, &action] { action = [o] { return run_serve(*o); }; });
}

void add_worker(CLI::App& app, Action& action) {
  const auto o = std::make_shared<WorkerOptions>();
  CLI::App* verb = app.add_subcommand("worker", "Run one worker of a swarm");
  verb->add_option("-m,--model", o->model, "GGUF file or pulled name; the coordinator's own")
      ->envname("HEARTH_MODEL")
      ->required();
  verb->add_option("--coordinator", o->coordinator,
                   "the coordinator's control address (default: the server on this machine)")
      ->envname("HEARTH_COORDINATOR");
  verb->add_option("--data-dir", o->data_dir, "folder of serve.json")->envname("HEARTH_DATA_DIR");
  verb->add_option("--name", o->name, "unique in the swarm (default: host name and process id)")
      ->envname("HEARTH_NAME");
  verb->add_option("--listen", o->listen, "address of the data links; loopback only")
      ->capture_default_str();
  verb->add_option("-t,--threads", o->threads, "0: all cores")->envname("HEARTH_THREADS");
  verb->add_option("--kv-budget", o->kv_budget_bytes, "KV memory, e.g. 512MB")
      ->envname("HEARTH_KV_BUDGET")
      ->transform(CLI::AsSizeValue(false));
  verb->add_option("--log-level", o->log_level, "trace, debug, info, warn, error or off")
      ->envname("HEARTH_LOG_LEVEL")
      ->capture_default_str();
  verb->callback([o, &action] { action = [o] { return run_worker(*o); }; });
}

}  // namespace

void add_server_verbs(CLI::App& app, Action& action) {
  add_serve(app, action);
  add_worker(app, action);
}

}  // namespace hearth::cli
