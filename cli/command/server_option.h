// The options with which every verb that asks a server says which one.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace hearth::cli {

void add_server(CLI::App* verb, std::string& host, std::string& api_key);

}  // namespace hearth::cli
