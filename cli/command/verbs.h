// The command tree: every verb with its flags. A flag beats its HEARTH_* variable, which beats the
// configuration file, which beats the default.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/result.h"
#include "placement/problem.h"

namespace hearth::cli {

// The action of the chosen verb; returns the exit code, or an error that the caller prints.
using Action = std::function<Result<int>()>;

template <typename Options>
struct NewVerb {
  CLI::App* app;
  std::shared_ptr<Options> options;
};
// A verb that runs with its options, which the caller binds to flags, unless a verb below it was
// chosen.
template <typename Options, typename Exit>
NewVerb<Options> add_verb(CLI::App& parent, const char* name, const char* text, Action& action,
                          Exit (*run)(const Options&)) {
  auto options = std::make_shared<Options>();
  CLI::App* app = parent.add_subcommand(name, text);
  app->callback([app, options, run, &action] {
    if (app->get_subcommands().empty()) action = [options, run] { return run(*options); };
  });
  return {app, std::move(options)};
}

// The verbs of a program.
using AddVerbs = void (*)(CLI::App& app, Action& action);

void add_all_verbs(CLI::App& app, Action& action);     // all below
void add_client_verbs(CLI::App& app, Action& action);  // run launch ps ls rm show pull manifest
void add_observing_verbs(CLI::App& app,
                         Action& action);  // status top ping map-port plan doctor update logs
void add_server_verbs(CLI::App& app, Action& action);   // serve worker
void add_owner_verbs(CLI::App& app, Action& action);    // pause resume drain
void add_access_verbs(CLI::App& app, Action& action);   // key
void add_cluster_verbs(CLI::App& app, Action& action);  // init token join approve nodes store leave
void add_ledger_verbs(CLI::App& app, Action& action);   // audit ledger
void add_machine_verbs(CLI::App& app, Action& action);  // bench version completion

// --optimise, of the verbs that place layers.
void add_objective(CLI::App& verb, std::optional<placement::Objective>& objective);

struct WorkerOptions;
// Adds the options that worker and join have in common, and returns the option of the model, which
// only one of the two requires.
void add_worker_options(CLI::App& verb, WorkerOptions& options);
// --detach, of a verb that has --no-log-file already.
void add_detach(CLI::App& verb, bool& detach);

}  // namespace hearth::cli
