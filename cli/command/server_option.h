// The options with which every verb that asks a server says which one.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/result.h"

namespace hearth::cli {

void add_server(CLI::App* verb, std::string& host, std::string& api_key);

// Where the server is: the flag, HEARTH_HOST, the server that runs on this machine, the one of the
// cluster that it has joined, the default. A machine that has joined has a key of that one's API:
// it becomes `api_key` where none is given, and is shown to no other server.
// So does hearth init's admin key on the coordinator's own machine, for the server that runs there.
std::string server_base(const std::string& given, std::string& api_key);
// What to do where no server answers, on this machine, as it has joined or not.
std::string no_server_step();
// That a prompt can be asked from here: a machine that has joined as a worker has no key of the
// API, and hears how to get one. `given` and `api_key` as server_base() takes them.
Status check_can_ask(const std::string& given, const std::string& api_key);

}  // namespace hearth::cli
