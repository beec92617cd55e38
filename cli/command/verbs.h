// The command tree: every verb with its flags. A flag beats its HEARTH_* variable, which beats the
// configuration file, which beats the default.
#pragma once

#include <functional>
#include <optional>

#include "placement/problem.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace hearth::cli {

// What the chosen verb does; returns the exit code.
using Action = std::function<int()>;

// The verbs of a program.
using AddVerbs = void (*)(CLI::App& app, Action& action);

void add_all_verbs(CLI::App& app, Action& action);        // all below
void add_client_verbs(CLI::App& app, Action& action);     // run ps ls show pull manifest
void add_observing_verbs(CLI::App& app, Action& action);  // status top ping plan doctor logs
void add_server_verbs(CLI::App& app, Action& action);     // serve worker
void add_owner_verbs(CLI::App& app, Action& action);      // pause resume drain
void add_access_verbs(CLI::App& app, Action& action);     // key
void add_cluster_verbs(CLI::App& app, Action& action);    // init token join approve nodes leave
void add_ledger_verbs(CLI::App& app, Action& action);     // audit ledger
void add_machine_verbs(CLI::App& app, Action& action);    // bench version completion

// --optimise, of the verbs that place layers.
void add_objective(CLI::App& verb, std::optional<placement::Objective>& objective);

struct WorkerOptions;
// What worker and join have in common. The option of the model: one of them cannot do without.
void add_worker_options(CLI::App& verb, WorkerOptions& options);

}  // namespace hearth::cli
