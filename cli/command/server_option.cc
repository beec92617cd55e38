#include "cli/command/server_option.h"

#include "cli/command/network_values.h"

namespace hearth::cli {

void add_server(CLI::App* verb, std::string& host, std::string& api_key) {
  verb->add_option("--host", host, "address of the server, e.g. 127.0.0.1:11500")
      ->check(api_host());
  verb->add_option("--api-key", api_key, "API key, where the server requires one")
      ->check(api_key_text());
}

}  // namespace hearth::cli
