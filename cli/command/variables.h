// The environment variable of every option: HEARTH_ and the first long flag, "--top-k" is
// HEARTH_TOP_K. Flags with one name have one meaning and share a variable; where a verb gives it
// another meaning, the option names its own, HEARTH_<VERB>_<FLAG>.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace hearth::cli {

// Options that take a variable: all but positional words, --help and --version.
std::vector<CLI::Option*> options_with_variables(CLI::App& verb);

std::string variable_name(const CLI::Option& option);

// Names the variables of the whole tree. After that, a parse reads only the variables of the verbs
// on its command line: a bad HEARTH_TOP_K must not stop `hearth ls`. The returned function names
// all of them again, for --help-all.
std::function<void()> name_variables(CLI::App& root);

}  // namespace hearth::cli
