#include "cli/command/variables.h"

#include <CLI/CLI.hpp>
#include <cctype>
#include <map>
#include <memory>

namespace hearth::cli {
namespace {

using Names = std::map<CLI::Option*, std::string>;

void show(CLI::App& verb, const Names& names) {
  for (CLI::Option* option : options_with_variables(verb)) option->envname(names.at(option));
}

void show_all(CLI::App& verb, const Names& names) {
  show(verb, names);
  for (CLI::App* sub : verb.get_subcommands([](CLI::App*) { return true; })) show_all(*sub, names);
}

void hide_all(CLI::App& verb) {
  for (CLI::Option* option : options_with_variables(verb)) option->envname("");
  for (CLI::App* sub : verb.get_subcommands([](CLI::App*) { return true; })) hide_all(*sub);
}

// "enabled" and "disabled" beside what CLI11 takes for a flag: true, on, yes, 1 and their
// opposites.
CLI::Validator flag_word() {
  const auto change = [](std::string& word) -> std::string {
    if (word == "enabled") word = "true";
    if (word == "disabled") word = "false";
    bool ignored = false;
    if (CLI::detail::lexical_cast(word, ignored)) return "";
    return "'" + word.substr(0, 64) + "' is refused; it must be true or false";
  };
  return CLI::Validator(change, "");
}

void collect(CLI::App& verb, Names& names) {
  for (CLI::Option* option : options_with_variables(verb)) {
    names[option] = option->get_envname().empty() ? variable_name(*option) : option->get_envname();
    if (option->get_expected_max() == 0) option->transform(flag_word());
  }
  for (CLI::App* sub : verb.get_subcommands([](CLI::App*) { return true; })) collect(*sub, names);
}

void follow_parse(CLI::App& verb, const std::shared_ptr<const Names>& names) {
  for (CLI::App* sub : verb.get_subcommands([](CLI::App*) { return true; })) {
    sub->preparse_callback([sub, names](std::size_t) { show(*sub, *names); });
    follow_parse(*sub, names);
  }
}

}  // namespace

std::vector<CLI::Option*> options_with_variables(CLI::App& verb) {
  std::vector<CLI::Option*> found;
  for (CLI::Option* option : verb.get_options()) {
    const bool asks = option == verb.get_help_ptr() || option == verb.get_help_all_ptr() ||
                      option == verb.get_version_ptr();
    if (!asks && !option->get_lnames().empty()) found.push_back(option);
  }
  return found;
}

std::string variable_name(const CLI::Option& option) {
  std::string name = "HEARTH_";
  for (const char c : option.get_lnames().front()) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

std::function<void()> name_variables(CLI::App& root) {
  auto names = std::make_shared<Names>();
  collect(root, *names);
  show_all(root, *names);
  root.preparse_callback([&root, names](std::size_t) {
    hide_all(root);
    show(root, *names);
  });
  follow_parse(root, names);
  return [&root, names] { show_all(root, *names); };
}

}  // namespace hearth::cli
