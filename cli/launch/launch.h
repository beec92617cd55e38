// hearth launch: runs a client program with a Hearth server as its service.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace hearth::cli {

struct LaunchOptions {
  std::string client;
  std::vector<std::string> arguments;  // of the client
  std::string model;                   // empty: the one that is served
  bool print = false;                  // show the variables and the command, and start nothing
  std::string api_base;
  std::string api_key;
};

// Replaces this process by the client's. kNotFound: no such client, here or at all.
Result<int> run_launch(const LaunchOptions& options);

}  // namespace hearth::cli
