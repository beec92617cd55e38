// The command tree: every verb with its flags. A flag beats its HEARTH_* variable, which beats the
// configuration file, which beats the default.
#pragma once

#include <functional>

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
void add_observing_verbs(CLI::App& app, Action& action);  // status top ping doctor logs
void add_server_verbs(CLI::App& app, Action& action);     // serve worker
void add_access_verbs(CLI::App& app, Action& action);     // key
void add_cluster_verbs(CLI::App& app, Action& action);    // init token join approve nodes leave
void add_machine_verbs(CLI::App& app, Action& action);    // bench version completion

struct WorkerOptions;
// What worker and join have in common. The option of the model: one of them cannot do without.
CLI::Option* add_worker_options(CLI::App& verb, WorkerOptions& options);

}  // namespace hearth::cli
