// The command tree, its configuration file and its variables, and sentences for what it does not
// understand.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "cli/command/verbs.h"

namespace hearth::cli {

class CommandLine {
 public:
  explicit CommandLine(AddVerbs add_verbs);
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  CLI::App& app() { return app_; }

  // Parses the words (without the program's own), then does what they ask. The exit code; wrong
  // usage is one sentence on stderr and kExitUsage.
  int run(const std::vector<std::string>& words);

  // Throws CLI::ParseError, and CLI::Success for --help and --version.
  void parse(const std::vector<std::string>& words);

  // The sentence for what parse() has thrown.
  std::string usage_error(const CLI::ParseError& error);

 private:
  // " (from HEARTH_TOP_K)" where the refused value is no word of the command line.
  std::string origin(const CLI::ParseError& error);

  CLI::App app_;
  Action action_;
  std::vector<std::string> words_;
  std::function<void()> show_variables_;
};

}  // namespace hearth::cli
