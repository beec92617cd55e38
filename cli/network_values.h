// What the options' values may be, of addresses and keys.
#pragma once

#include <CLI/CLI.hpp>

namespace hearth::cli {

// As parse_api_address() reads it.
CLI::Validator api_host();
// The same, and an address that a server can listen on: no name but localhost.
CLI::Validator listen_host();
CLI::Validator api_key_text();

// "host:port" of a link, loopback.
CLI::Validator loopback_link();

}  // namespace hearth::cli
