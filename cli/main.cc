// The one program. Verbs and their flags: client_verbs.cc, server_verbs.cc, machine_verbs.cc.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/exit_codes.h"
#include "cli/paths.h"
#include "cli/verbs.h"

int main(int argc, char** argv) {
  using namespace hearth::cli;
  CLI::App app("Hearth: one inference machine out of several home GPUs", "hearth");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every verb");
  app.set_version_flag("--version,-v", "hearth " HEARTH_VERSION);
  app.set_config("--config", config_file().string(), "TOML; one table a verb, keys as the flags");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.footer("Flag beats HEARTH_* variable beats configuration file beats default.");

  Action action;
  add_client_verbs(app, action);
  add_server_verbs(app, action);
  add_machine_verbs(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked) == 0 ? kExitDone : kExitFailed;
  } catch (const CLI::ParseError& wrong) {
    std::fprintf(stderr, "hearth: %s\nSee: hearth --help, hearth VERB --help\n", wrong.what());
    return kExitUsage;
  }
  return action();
}
