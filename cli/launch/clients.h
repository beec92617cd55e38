// The client programs that hearth launch knows: the variables and arguments with which each uses a
// server with an OpenAI or Anthropic API. Pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace hearth::cli {

struct LaunchPlan {
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<std::string> command;  // the program, and arguments that come before the user's own
  // A file that the client reads; the name is relative to the folder that launch_plan() was given.
  std::string file;  // empty: none
  std::string text;
};

// The server: `base` is "http://127.0.0.1:11500", `key` a placeholder where none is needed.
struct LaunchServer {
  std::string base;
  std::string key;
  std::string model;
};

// "claude, codex, ..."
std::string known_clients();
// `folder`: where a client may have a file of its own. kNotFound, with the names that there are.
Result<LaunchPlan> launch_plan(const std::string& client, const LaunchServer& server,
                               const std::string& folder);
// "export NAME='value'" of each variable, then the command, for a POSIX shell.
std::string plan_text(const LaunchPlan& plan);

}  // namespace hearth::cli
