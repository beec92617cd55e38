#include "cli/command/command_line.h"

#include <algorithm>
#include <boost/algorithm/string/join.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <utility>

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

// The configuration file without the tables of other verbs, and without keys whose HEARTH_*
// variable is set: with CLI11 alone, the file would override the environment. An unknown key is an
// error that names the nearest known one.
class ConfigBelowEnvironment : public CLI::ConfigTOML {
 public:
  // `tables`: gets the table of each option that the file sets.
  ConfigBelowEnvironment(const CLI::App& app, std::map<const CLI::Option*, std::string>& tables)
      : app_(app), tables_(tables) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    skip_mark(input);
    std::vector<CLI::ConfigItem> items = CLI::ConfigTOML::from_config(input);
    for (const CLI::ConfigItem& item : items) {
      if (!is_table_mark(item)) static_cast<void>(option_of(verb_of(item), item));
    }
    share_worker_tables(items);
    std::erase_if(items, [this](const CLI::ConfigItem& item) {
      if (is_table_mark(item)) return false;
      const CLI::App& verb = verb_of(item);
      const CLI::Option& option = option_of(verb, item);
      if (!verb.parsed() || overridden(option)) return true;
      tables_[&option] = boost::algorithm::join(item.parents, ".");
      return false;
    });
    return items;
  }

 private:
  static bool is_table_mark(const CLI::ConfigItem& item) {
    return item.name == "++" || item.name == "--";
  }

  // Some editors begin a text with the mark of its encoding.
  static void skip_mark(std::istream& input) {
    for (const unsigned char byte : {0xEFU, 0xBBU, 0xBFU}) {
      if (input.peek() != byte) return;
      input.get();
    }
  }

  // A worker obeys the same settings however it was started: `hearth join` also reads the table
  // [worker], and `hearth worker` the table [join]. A verb's own table comes first.
  void share_worker_tables(std::vector<CLI::ConfigItem>& items) const {
    using Words = std::vector<std::string>;
    for (const auto& [from, to] : {std::pair("worker", "join"), std::pair("join", "worker")}) {
      const auto named = [name = to](const CLI::App* sub) { return sub->check_name(name); };
      const auto verbs = app_.get_subcommands(named);
      if (verbs.empty() || !verbs.front()->parsed()) continue;
      const auto is_own = [&](const std::string& name) {
        return std::ranges::any_of(items, [&](const CLI::ConfigItem& item) {
          return item.parents == Words{to} && item.name == name;
        });
      };
      for (CLI::ConfigItem& item : items) {
        const bool known = verbs.front()->get_option_no_throw("--" + item.name) != nullptr;
        if (item.parents == Words{from} && known && !is_own(item.name)) item.parents = {to};
      }
    }
  }

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
  std::map<const CLI::Option*, std::string>& tables_;
};

constexpr std::size_t kHelpColumns = 80;

// A line of help that is broken at blanks; what follows stands below the text of its column.
std::string wrap_line(std::string line) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", begin);
  std::size_t column = gap == std::string::npos ? begin : line.find_first_not_of(' ', gap);
  if (column >= kHelpColumns / 2) column = begin;
  std::string out;
  while (line.size() > kHelpColumns) {
    std::size_t end = line.rfind(' ', kHelpColumns);
    if (end == std::string::npos || end <= column) end = line.find(' ', kHelpColumns);
    if (end == std::string::npos) break;
    out += line.substr(0, line.find_last_not_of(' ', end) + 1) + "\n";
    line = std::string(column, ' ') + line.substr(end + 1);
  }
  return out + line;
}

class WrappedHelp : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::istringstream help(CLI::Formatter::make_help(app, std::move(name), mode));
    std::string out;
    for (std::string line; std::getline(help, line);) out += wrap_line(std::move(line)) + "\n";
    return out;
  }
};

// Names an absent required option and its possible values; empty when none is absent.
std::string missing_option(const CLI::App& verb) {
  const std::map<std::string, std::string> lists = {
      {"model", "; hearth ps names the models being served, hearth ls those on this disk"},
      {"node", "; hearth nodes lists them"},
      {"key", "; hearth key list shows them"},
      {"id", "; hearth token list shows them"}};
  for (const CLI::Option* option : verb.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    const auto list = lists.find(option->get_single_name());
    return option->get_name() + " is required: " + option->get_description() +
           (list == lists.end() ? "" : list->second);
  }
  return "";
}

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
  app_.config_formatter(std::make_shared<ConfigBelowEnvironment>(app_, tables_));
  app_.formatter(std::make_shared<WrappedHelp>());  // before the verbs, which inherit it
  app_.allow_config_extras(CLI::config_extras_mode::error);
  app_.footer("A flag overrides its HEARTH_* variable, which overrides the configuration file.");
  add_verbs(app_, action_);
  show_variables_ = name_variables(app_);
}

void CommandLine::parse(const std::vector<std::string>& words) {
  words_ = words;
  if (!words_.empty() && words_.front() == "help") {  // "help run" is "run --help"
    words_.erase(words_.begin());
    words_.push_back("--help");
  }
  std::vector<std::string> reversed(words_.rbegin(), words_.rend());  // as CLI11 takes them
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
  if (unknown.empty()) {
    const std::string missing = missing_option(verb);
    return missing.empty() ? escape_control(error.what()) : missing;
  }
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
    const bool meant = std::string(error.what()).starts_with(option->get_name() + ": ");
    const bool said = std::any_of(words_.begin(), words_.end(), [&](const std::string& word) {
      return option->check_name(word.substr(0, word.find('=')));
    });
    if (!meant || said) continue;
    if (const auto table = tables_.find(option); table != tables_.end()) {
      const std::string file = app_.get_config_ptr()->as<std::string>();
      return " (from " + (table->second.empty() ? "" : "[" + table->second + "] of ") +
             escape_control(file) + ")";
    }
    const char* value = std::getenv(option->get_envname().c_str());
    if (value != nullptr && *value != '\0') return " (from " + option->get_envname() + ")";
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
