#include "cli/completion.h"

#include <CLI/CLI.hpp>

#include "cli/models.h"

namespace hearth::cli {
namespace {

constexpr const char* kBash = R"(_hearth() {
  local IFS=$'\n'
  COMPREPLY=($(hearth __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _hearth hearth
)";

constexpr const char* kZsh = R"(#compdef hearth
_hearth() {
  local -a found
  found=("${(@f)$(hearth __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  compadd -a found || _files
}
compdef _hearth hearth
)";

constexpr const char* kFish = R"(function __hearth_complete
  set -l words (commandline -opc) (commandline -ct)
  hearth __complete -- $words[2..-1] 2>/dev/null
end
complete -c hearth -a '(__hearth_complete)'
)";

bool takes_model(const std::string& verb) {
  return verb == "run" || verb == "show" || verb == "model" || verb == "serve";
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
  const bool after_model_flag = words.size() >= 2 && (words[words.size() - 2] == "--model" ||
                                                      words[words.size() - 2] == "-m");
  if (takes_model(app->get_name()) && (app->get_name() != "serve" || after_model_flag)) {
    for (const LocalModel& model : list_models()) offer(model.name);
  }
  return found;
}

}  // namespace hearth::cli
