// The command tree with its configuration file and environment variables, and error messages for
// wrong usage.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
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
  // " (from HEARTH_TOP_K)", or the table and the file, when the refused value is not from the
  // command line.
  std::string origin(const CLI::ParseError& error);

  CLI::App app_;
  Action action_;
  std::map<const CLI::Option*, std::string> tables_;  // of the configuration file, by what they set
  std::vector<std::string> words_;
  std::function<void()> show_variables_;
};

}  // namespace hearth::cli
