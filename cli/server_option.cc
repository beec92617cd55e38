#include "cli/server_option.h"

#include "cli/api_address.h"
#include "cli/member.h"
#include "cli/network_values.h"
#include "cli/server_file.h"

namespace hearth::cli {

void add_server(CLI::App* verb, std::string& host, std::string& api_key) {
  verb->add_option("--host", host, "address of the server, e.g. 127.0.0.1:11500")
      ->check(api_host());
  verb->add_option("--api-key", api_key, "key of its API, where it asks for one")
      ->check(api_key_text());
}

std::string server_base(const std::string& given, std::string& api_key) {
  std::string text = given;
  if (text.empty()) {
    const auto running = read_server_file("");
    if (running.ok()) text = running->api;
  }
  if (const auto member = read_member_api("");
      member && (text.empty() || text == member->address)) {
    text = member->address;
    if (api_key.empty()) api_key = member->key;
  }
  const auto address = parse_api_address(text);
  return api_base(address.ok() ? *address : ApiAddress{"127.0.0.1", kDefaultApiPort});
}

}  // namespace hearth::cli
