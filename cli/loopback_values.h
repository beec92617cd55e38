// What the options' values may be, of addresses.
#pragma once

#include <CLI/CLI.hpp>

namespace hearth::cli {

// As parse_api_address() reads it.
CLI::Validator loopback_host();

// "host:port" of a link, loopback.
CLI::Validator loopback_link();

}  // namespace hearth::cli
