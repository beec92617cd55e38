#include <CLI/CLI.hpp>
#include <cstdio>
#include <limits>
#include <memory>

#include "base/limits.h"
#include "cli/command/values.h"
#include "cli/launch/clients.h"
#include "cli/launch/launch.h"
#include "cli/models/models.h"
#include "cli/models/pull.h"
#include "cli/models/pull_layers.h"
#include "cli/run/run.h"
#include "cli/terminal/exit_codes.h"
#include "cli/verbs/server_verb.h"
#include "cli/watch/watch.h"
#include "cli/worker/device.h"

namespace hearth::cli {
namespace {

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

void add_sampling(CLI::App* verb, RunOptions& o) {
  verb->add_option("-n,--predict,--max-tokens", o.sampling.max_tokens,
                   "tokens to generate at most (0: to the end of the answer)")
      ->check(whole_number(0, limits::kModelContext));
  verb->add_option("--temperature,--temp", o.sampling.temperature, "0 is greedy")
      ->check(number(0, 100))
      ->capture_default_str();
  verb->add_option("--top-k", o.sampling.top_k, "0 is off")
      ->check(whole_number(0, kInt32Max))
      ->capture_default_str();
  verb->add_option("--top-p", o.sampling.top_p, "1 is off")
      ->check(number(0, 1, Low::kExcluded))
      ->capture_default_str();
  verb->add_option("--min-p", o.sampling.min_p, "0 is off")
      ->check(number(0, 1))
      ->capture_default_str();
  verb->add_option("--repeat-penalty", o.sampling.repetition_penalty, "1 is off")
      ->check(number(0, 100, Low::kExcluded))
      ->capture_default_str();
  verb->add_option("--presence-penalty", o.sampling.presence_penalty, "0 is off")
      ->check(number(-100, 100))
      ->capture_default_str();
  verb->add_option("--frequency-penalty", o.sampling.frequency_penalty, "0 is off")
      ->check(number(-100, 100))
      ->capture_default_str();
  verb->add_option("-s,--seed", o.seed, "the same seed gives the same answer, bit for bit")
      ->check(whole_number(std::numeric_limits<std::int64_t>::min(),
                           std::numeric_limits<std::int64_t>::max())
                  .description(""));
  verb->add_option("--stop", o.stop, "end the answer before this text (repeatable)")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(stop_string());
}

void add_run(CLI::App& app, Action& action) {
  auto o = std::make_shared<RunOptions>();
  auto host = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("run", "Answer a prompt, or start a chat");
  verb->add_option(
      "model", o->model,
      "name of the served model; with --local a file or pulled name (default: the only "
      "one)");
  verb->add_option("prompt", o->prompt, "the prompt (default: stdin; on a terminal, a chat)");
  add_server(verb, *host, o->api_key);
  add_sampling(verb, *o);
  verb->add_option("--system", o->system, "the system prompt");
  verb->add_flag("--raw", o->raw, "send the prompt without the chat template");
  verb->add_flag("--ignore-eos", o->ignore_eos, "continue past the end-of-sequence token");
  verb->add_flag("--token-ids", o->token_ids, "print token ids instead of text, one line");
  verb->add_option("--hashes", o->hashes_file,
                   "write JSON lines: step, stage, layers, hash in, hash out");
  verb->add_option("--receipt", o->receipt_file,
                   "write the prompt, the answer and its receipt id, as hearth verify reads them");
  verb->add_flag("--verbose", o->verbose, "print figures on stderr");
  verb->add_flag("--json", o->json, "print one JSON object when done");
  verb->add_option("--timeout", o->timeout_seconds, "seconds (0: no limit)")->check(seconds());
  verb->add_flag("--no-resume", o->no_resume,
                 "do not keep the request on the server; a lost connection ends the answer");
  verb->add_flag("--no-speculation", o->no_speculation,
                 "draft no tokens; the answer is the same, and predictable text comes slower");
  verb->add_option("--trust", o->trust, "only these nodes may compute it (a,b,c)")
      ->delimiter(',')
      ->check(text_within(limits::kNodeNameBytes));
  verb->add_option("--verify", o->verify,
                   "none: random windows are audited; spot: also prefer nodes with standing; full: "
                   "audit every window and report the result (exit code 6: wrong or disputed)")
      ->check(verify_text());
  verb->add_flag("--share", o->share,
                 "let newcomers audit it to earn standing; they see its content (default: only "
                 "serving nodes see it)");
  verb->add_option("--min-level", o->min_level,
                   "only nodes of at least this level may see it: newcomer, probation, regular or "
                   "veteran (hearth ledger shows levels)")
      ->check(level_text());
  verb->add_flag("--local", o->local, "compute in this process, without a swarm");
  verb->add_option("--chat-template", o->chat_template,
                   "with --local: a Jinja file in place of the model's chat template");
  verb->add_option("--stages", o->stages, "with --local: number of engines that share the layers")
      ->check(whole_number(1, limits::kStages));
  verb->add_option("-t,--threads", o->threads, "with --local: compute threads (0: all cores)")
      ->check(whole_number(0, limits::kComputeThreads));
  verb->add_option("--memory", o->memory_bytes,
                   "with --local: memory in all, e.g. 8GB (default: all available)")
      ->transform(memory_size(1, kMemoryMax));
  verb->add_option("--draft", o->draft,
                   "with --local: smaller model with the same vocabulary that drafts tokens");
  verb->add_option("--device", o->device,
                   "with --local: device; auto: the first GPU, if there is one")
      ->check(device_text())
      ->capture_default_str();
  verb->callback([o, host, &action] {
    o->api_base = server_base(*host, o->api_key);
    action = [o] { return run_run(*o); };
  });
}

void add_ps(CLI::App& app, Action& action) {
  const auto [verb, o] = add_server_verb(app, "ps", "Show the models being served", action, run_ps);
  verb->add_flag("--json", o->json, "print JSON");
  verb->add_option("--wait", o->wait_seconds, "seconds to wait for the swarm")->check(seconds());
}

// The options for pulling some layers; they have a meaning only with the first two.
std::shared_ptr<PullLayersOptions> add_layers(CLI::App& pull) {
  auto o = std::make_shared<PullLayersOptions>();
  pull.add_option("--layers", o->layers,
                  "fetch only these layers, e.g. 0-9, verified against --manifest");
  pull.add_option("--manifest", o->manifest, "file from hearth manifest");
  pull.add_option("--mirror", o->sources, "another address of the same file (repeatable)")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  pull.add_option("--model-dir", o->model_folders,
                  "also search this folder for the whole model, and use it in place (repeatable)")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  pull.add_option("--connections", o->connections, "ranges to fetch at once")
      ->check(whole_number(1, limits::kFetchConnections))
      ->capture_default_str();
  pull.add_option("--stall", o->stall_seconds, "seconds without a byte before a retry")
      ->check(whole_number(1, 3600))
      ->capture_default_str();
  return o;
}

void add_rm(CLI::App& app, Action& action) {
  auto removed = std::make_shared<std::string>();
  CLI::App* rm = app.add_subcommand("rm", "Delete a pulled model from this disk");
  rm->add_option("model", *removed, "pulled name")->required();
  rm->callback([removed, &action] {
    action = [removed] {
      const Status gone = remove_model(*removed);
      return gone.ok() ? kExitDone : fail(gone.error());
    };
  });
}

void add_models(CLI::App& app, Action& action) {
  auto json = std::make_shared<bool>(false);
  CLI::App* ls = app.add_subcommand("ls", "List the models on this disk");
  ls->alias("list");
  ls->add_flag("--json", *json, "print JSON");
  ls->callback([json, &action] { action = [json] { return run_ls(*json); }; });

  auto shown = std::make_shared<std::string>();
  auto show_json = std::make_shared<bool>(false);
  CLI::App* show = app.add_subcommand("show", "Show the contents of a model file");
  show->add_option("model", *shown, "file or pulled name")->required();
  show->add_flag("--json", *show_json, "print JSON");
  show->callback([shown, show_json, &action] {
    action = [shown, show_json] { return run_show(*shown, *show_json); };
  });

  auto o = std::make_shared<PullOptions>();
  auto pull_json = std::make_shared<bool>(false);
  CLI::App* pull = app.add_subcommand("pull", "Copy or download a model to this disk");
  pull->add_option(
          "source", o->source,
          "a path, https://..., hf:org/repo/file[@revision], hf:org/repo:Q4_K_M[@revision], or the "
          "name of a pulled model; of a model in several files the first")
      ->required();
  pull->add_option("--name", o->name, "name under which it is stored")
      ->envname("HEARTH_PULL_NAME")  // HEARTH_NAME is a worker's
      ->check(model_name_text());
  pull->add_option("--sha256", o->sha256, "expected SHA-256 digest")->check(sha256_text());
  pull->add_flag("--force", o->force, "replace a model of the same name");
  pull->add_flag("--offline", o->offline, "do not use the network");
  pull->add_flag("--quiet", o->quiet, "no progress");
  pull->add_flag("--json", *pull_json, "print JSON");
  const auto part = add_layers(*pull);
  pull->callback([o, pull_json, part, &action] {
    const bool whole = part->manifest.empty() && part->layers.empty();
    if (whole ? !part->sources.empty() : part->manifest.empty() || part->layers.empty()) {
      action = [] {
        std::fputs(
            "hearth: --layers and --manifest need each other, and --mirror needs both; hearth "
            "manifest MODEL writes a manifest\n",
            stderr);
        return kExitUsage;
      };
      return;
    }
    if (whole) {
      action = [o, pull_json] { return run_pull(*o, *pull_json); };
      return;
    }
    part->sources.insert(part->sources.begin(), o->source);
    part->offline = o->offline;
    part->quiet = o->quiet;
    part->json = *pull_json;
    action = [part] { return run_pull_layers(*part); };
  });

  const auto [manifest, made] =
      add_verb(app, "manifest", "Write the hash of each tensor of a model", action, run_manifest);
  manifest->add_option("model", made->model, "file or pulled name")->required();
  manifest->add_option("-o,--output", made->out, "file to write (default: beside the model)");
  manifest->add_flag("--json", made->json, "print JSON");
}

void add_launch(CLI::App& app, Action& action) {
  const auto [verb, o] = add_server_verb(
      app, "launch", "Run a client program, such as claude or aider, on this server", action,
      run_launch);
  verb->add_option("client", o->client, "one of " + known_clients());
  verb->add_option("arguments", o->arguments, "arguments of the client, after --");
  verb->add_option("-m,--model", o->model, "the model (default: the one that is served)")
      ->check(text_within(limits::kModelNameBytes));
  verb->add_flag("--print", o->print, "print the variables and the command, and start nothing");
}

}  // namespace

void add_client_verbs(CLI::App& app, Action& action) {
  add_run(app, action);
  add_launch(app, action);
  add_ps(app, action);
  add_models(app, action);
  add_rm(app, action);
}

}  // namespace hearth::cli
