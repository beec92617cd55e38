// What the options' values may be, of addresses and keys.
#pragma once

#include <CLI/CLI.hpp>

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

}  // namespace hearth::cli
