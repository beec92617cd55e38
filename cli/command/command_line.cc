#include "cli/command/command_line.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "cli/command/nearest.h"
#include "cli/command/variables.h"
#include "cli/process/paths.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"

namespace hearth::cli {
namespace {

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!verb->get_group().empty()) names.push_back(verb->get_name());
  }
  return names;
}

std::vector<std::string> flag_names(const CLI::App& verb, const std::string& prefix) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(prefix + name);
  }
  return names;
}

std::string full_name(const CLI::App& verb) {
  const CLI::App* parent = verb.get_parent();
  return parent == nullptr ? verb.get_name() : full_name(*parent) + " " + verb.get_name();
}

// The configuration file, less the keys whose HEARTH_* variable is set: CLI11 alone would let the
// file beat the environment. An unknown key is an error that names the nearest known one.
class ConfigBelowEnvironment : public CLI::ConfigTOML {
 public:
  explicit ConfigBelowEnvironment(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> items = CLI::ConfigTOML::from_config(input);
    std::erase_if(items, [this](const CLI::ConfigItem& item) {
      const bool table_mark = item.name == "++" || item.name == "--";
      const CLI::App& verb = verb_of(item);
      return !table_mark && overridden(option_of(verb, item));
    });
    return items;
  }

 private:
  [[noreturn]] void refuse(const std::string& message) const {
    const std::string file = app_.get_config_ptr()->as<std::string>();
    throw CLI::ConfigError("configuration file " + file + ": " + message,
                           CLI::ExitCodes::ConfigError);
  }

  const CLI::App& verb_of(const CLI::ConfigItem& item) const {
    const CLI::App* verb = &app_;
    for (const std::string& parent : item.parents) {
      const auto named = [&](const CLI::App* sub) { return sub->check_name(parent); };
      const auto found = verb->get_subcommands(named);
      if (found.empty()) {
        refuse("unknown table '" + parent + "'" + did_you_mean(parent, verb_names(*verb)));
      }
      verb = found.front();
    }
    return *verb;
  }

  const CLI::Option& option_of(const CLI::App& verb, const CLI::ConfigItem& item) const {
    const std::string dashes = item.name.size() == 1 ? "-" : "--";
    const CLI::Option* option = verb.get_option_no_throw(dashes + item.name);
    if (option == nullptr) option = verb.get_option_no_throw(item.name);
    if (option != nullptr) return *option;
    const std::string where = &verb == &app_ ? "" : " of table [" + verb.get_name() + "]";
    refuse("unknown key '" + item.name + "'" + where +
           did_you_mean(item.name, flag_names(verb, "")));
  }

  static bool overridden(const CLI::Option& option) {
    if (option.get_envname().empty()) return false;
    const char* value = std::getenv(option.get_envname().c_str());
    return value != nullptr && *value != '\0';
  }

  const CLI::App& app_;
};

// The verb that the words have chosen, "bench model" rather than "bench".
const CLI::App& chosen_verb(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : chosen_verb(*chosen.back());
}

}  // namespace

CommandLine::CommandLine(AddVerbs add_verbs)
    : app_("Hearth: one inference swarm out of several home GPUs", "hearth") {
  app_.require_subcommand(1);
  app_.set_help_all_flag("--help-all", "help for every command");
  app_.set_version_flag("--version,-v", "hearth " HEARTH_VERSION);
  app_.set_config("--config", config_file().string(),
                  "TOML file with one table per command and the flags as keys");
  app_.config_formatter(std::make_shared<ConfigBelowEnvironment>(app_));
  app_.allow_config_extras(CLI::config_extras_mode::error);
  app_.footer("A flag overrides its HEARTH_* variable, which overrides the configuration file.");
  add_verbs(app_, action_);
  show_variables_ = name_variables(app_);
}

void CommandLine::parse(const std::vector<std::string>& words) {
  words_ = words;
  std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 takes them
  app_.parse(std::move(reversed));
}

std::string CommandLine::usage_error(const CLI::ParseError& error) {
  const CLI::App& verb = chosen_verb(app_);
  const auto unknown = app_.remaining(true);
  const bool explains_itself = dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr &&
                               dynamic_cast<const CLI::RequiredError*>(&error) == nullptr;
  if (explains_itself) return escape_control(error.what()) + origin(error);
  const auto verbs = verb_names(verb);
  if (unknown.empty() && !verbs.empty()) {
    std::string list;
    for (const std::string& name : verbs) list += (list.empty() ? "" : ", ") + name;
    return "no command given; commands of " + full_name(verb) + " are " + list;
  }
  if (unknown.empty()) return escape_control(error.what());
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  const std::string said = "'" + escape_control(word.substr(0, 64)) + "'";
  if (word.starts_with('-')) {
    return "unknown option " + said + " of " + full_name(verb) +
           did_you_mean(word, flag_names(verb, "--"));
  }
  if (!verbs.empty()) return "unknown command " + said + did_you_mean(word, verbs);
  return "unexpected word " + said + " after " + full_name(verb);
}

std::string CommandLine::origin(const CLI::ParseError& error) {
  const CLI::App& verb = chosen_verb(app_);
  for (const CLI::Option* option : verb.get_options()) {
    const char* value = std::getenv(option->get_envname().c_str());
    const bool meant = std::string(error.what()).starts_with(option->get_name() + ": ");
    if (!meant || value == nullptr || *value == '\0') continue;
    const bool said = std::any_of(words_.begin(), words_.end(), [&](const std::string& word) {
      return option->check_name(word.substr(0, word.find('=')));
    });
    if (!said) return " (from " + option->get_envname() + ")";
  }
  return "";
}

int CommandLine::run(const std::vector<std::string>& words) {
  try {
    parse(words);
  } catch (const CLI::CallForAllHelp& asked) {
    show_variables_();
    return finish_output(app_.exit(asked) == 0 ? kExitDone : kExitFailed);
  } catch (const CLI::Success& asked) {  // --help, --version
    return finish_output(app_.exit(asked) == 0 ? kExitDone : kExitFailed);
  } catch (const CLI::ParseError& wrong) {
    std::fprintf(stderr, "hearth: %s\nSee: %s --help\n", usage_error(wrong).c_str(),
                 full_name(chosen_verb(app_)).c_str());
    return kExitUsage;
  }
  const Result<int> code = action_();
  return finish_output(code ? *code : fail(code.error()));
}

}  // namespace hearth::cli
