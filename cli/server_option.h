// The options with which every verb that asks a server says which one.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace hearth::cli {

void add_server(CLI::App* verb, std::string& host, std::string& api_key);

// Where the server is: the flag, HEARTH_HOST, the server that runs on this machine, the default.
std::string server_base(const std::string& given);

}  // namespace hearth::cli
