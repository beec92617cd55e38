// Shell completion, generated from the command tree: the scripts ask `hearth __complete WORDS...`.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace hearth::cli {

// The script for bash, zsh or fish; empty for any other shell.
std::string completion_script(const std::string& shell);

// Candidates for the last of `words` (the program's name left out), one a line: verbs, flags, and
// the names of pulled models where one is expected.
std::vector<std::string> complete(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace hearth::cli
