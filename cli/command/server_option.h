// --host and --api-key, which every verb that calls a server has.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace hearth::cli {

void add_server(CLI::App* verb, std::string& host, std::string& api_key);

}  // namespace hearth::cli
