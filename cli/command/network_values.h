// Checks of option values: addresses and keys; and the options that name a server.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace hearth::cli {

// As parse_api_address() reads it.
CLI::Validator api_host();
// The same, and an address that a server can listen on: no name but localhost.
CLI::Validator listen_host();
CLI::Validator api_key_text();

// "host:port" of a link, with a numeric host.
CLI::Validator link_address();
// An IPv4 or IPv6 address that a machine can have.
CLI::Validator numeric_host();

// --host and --api-key, which every verb that calls a server has.
void add_server(CLI::App* verb, std::string& host, std::string& api_key);

}  // namespace hearth::cli
