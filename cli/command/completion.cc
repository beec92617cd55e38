#include "cli/command/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/models/models.h"
#include "cli/process/paths.h"

namespace hearth::cli {
namespace {

constexpr const char* kBash = R"(_hearth() {
  local IFS=$'\n'
  COMPREPLY=($(hearth __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _hearth hearth
)";

// compinit defines compdef. A script that is sourced earlier runs compinit itself.
constexpr const char* kZsh = R"zsh(#compdef hearth
_hearth() {
  local -a found
  found=(${(f)"$(hearth __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( $#found )); then compadd -a found; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -D }
compdef _hearth hearth
)zsh";

constexpr const char* kFish = R"(function __hearth_complete
  set -l words (commandline -opc)
  set -l last (commandline -ct)[1]
  set -l found (hearth __complete -- $words[2..-1] "$last" 2>/dev/null)
  if set -q found[1]
    printf '%s\n' $found
  else
    __fish_complete_path "$last"
  end
end
complete -c hearth -f -a '(__hearth_complete)'
)";

bool takes_model(const std::string& verb) {
  return verb == "run" || verb == "rm" || verb == "show" || verb == "model";
}

// The possible values of a flag or a positional word with few choices.
std::vector<std::string> choices(const CLI::App& verb, const std::string& before) {
  if (before == "--model" || before == "-m") {
    std::vector<std::string> names;
    for (const LocalModel& model : list_models()) names.push_back(model.name);
    return names;
  }
  if (before == "--log-level") return {"trace", "debug", "info", "warn", "error", "off"};
  if (before == "--role") return {"worker", "client", "admin"};
  if (verb.get_name() == "completion") return {"bash", "zsh", "fish"};
  if (verb.get_name() == "logs") {
    std::vector<std::string> names = workers_with_files("");
    std::replace(names.begin(), names.end(), std::string(), std::string("worker"));
    return names;
  }
  return {};
}

}  // namespace

std::string completion_script(const std::string& shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  return "";
}

std::vector<std::string> complete(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* app = &root;
  const std::string last = words.empty() ? "" : words.back();
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    for (const CLI::App* verb : app->get_subcommands([](const CLI::App*) { return true; })) {
      if (verb->get_name() == words[i]) {
        app = verb;
        break;
      }
    }
  }
  std::vector<std::string> found;
  const auto offer = [&](const std::string& word) {
    if (word.starts_with(last)) found.push_back(word);
  };
  if (last.starts_with("-")) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) offer("--" + name);
    }
    return found;
  }
  for (const CLI::App* verb : app->get_subcommands([](const CLI::App*) { return true; })) {
    if (!verb->get_group().empty()) offer(verb->get_name());
  }
  const std::string before = words.size() >= 2 ? words[words.size() - 2] : "";
  for (const std::string& word : choices(*app, before)) offer(word);
  if (takes_model(app->get_name()) && found.empty()) {
    for (const LocalModel& model : list_models()) offer(model.name);
  }
  return found;
}

}  // namespace hearth::cli
