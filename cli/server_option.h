// The options with which every verb that asks a server says which one.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace hearth::cli {

void add_server(CLI::App* verb, std::string& host, std::string& api_key);

// Where the server is: the flag, HEARTH_HOST, the server that runs on this machine, the one of the
// cluster that it has joined, the default. A machine that has joined has a key of that one's API:
// it becomes `api_key` where none is given, and is shown to no other server.
std::string server_base(const std::string& given, std::string& api_key);

}  // namespace hearth::cli
