// The one program. Verbs and their flags: client_verbs.cc, server_verbs.cc, machine_verbs.cc.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "cli/exit_codes.h"
#include "cli/paths.h"
#include "cli/verbs.h"

namespace {

// The configuration file, less the keys whose HEARTH_* variable is set: CLI11 alone would let the
// file beat the environment.
class ConfigBelowEnvironment : public CLI::ConfigTOML {
 public:
  explicit ConfigBelowEnvironment(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> items = CLI::ConfigTOML::from_config(input);
    std::erase_if(items, [this](const CLI::ConfigItem& item) { return overridden(item); });
    return items;
  }

 private:
  bool overridden(const CLI::ConfigItem& item) const {
    const CLI::App* verb = &app_;
    for (const std::string& parent : item.parents) {
      const auto named = [&](const CLI::App* sub) { return sub->get_name() == parent; };
      const auto found = verb->get_subcommands(named);
      if (found.empty()) return false;
      verb = found.front();
    }
    const CLI::Option* option = verb->get_option_no_throw("--" + item.name);
    if (option == nullptr || option->get_envname().empty()) return false;
    return std::getenv(option->get_envname().c_str()) != nullptr;
  }

  const CLI::App& app_;
};

}  // namespace

int main(int argc, char** argv) {
  using namespace hearth::cli;
  CLI::App app("Hearth: one inference machine out of several home GPUs", "hearth");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every verb");
  app.set_version_flag("--version,-v", "hearth " HEARTH_VERSION);
  app.set_config("--config", config_file().string(), "TOML; one table a verb, keys as the flags");
  app.config_formatter(std::make_shared<ConfigBelowEnvironment>(app));
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
