#include "cli/command/verbs.h"

namespace hearth::cli {

void add_all_verbs(CLI::App& app, Action& action) {
  add_client_verbs(app, action);
  add_observing_verbs(app, action);
  add_server_verbs(app, action);
  add_owner_verbs(app, action);
  add_access_verbs(app, action);
  add_cluster_verbs(app, action);
  add_ledger_verbs(app, action);
  add_machine_verbs(app, action);
}

}  // namespace hearth::cli
