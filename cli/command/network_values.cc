#include "cli/command/network_values.h"

#include <algorithm>

#include "cli/command/values.h"
#include "coordinator/client/api_address.h"
#include "proto/address.h"

namespace hearth::cli {
namespace {

constexpr std::size_t kApiKeyBytes = 512;

// Others cannot dial what stands for every address.
bool is_one_host(const std::string& host) { return host != "0.0.0.0" && host != "::"; }

}  // namespace

CLI::Validator api_host() { return refused_by(client::parse_api_address); }

CLI::Validator listen_host() {
  const auto check = [](const std::string& text) -> std::string {
    const auto address = client::parse_api_address(text);
    if (!address.ok()) return address.error().message;
    if (address->host == "localhost" || client::is_ip_address(address->host)) return "";
    return "'" + text.substr(0, 64) +
           "' is refused; it must be a numeric address of this machine without a zone, or 0.0.0.0 "
           "for all of its addresses";
  };
  return CLI::Validator(check, "");
}

CLI::Validator api_key_text() {
  const auto check = [](const std::string& text) -> std::string {
    const bool printable =
        std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; });
    if (printable && !text.empty() && text.size() <= kApiKeyBytes) return "";
    return "it must have 1 to " + std::to_string(kApiKeyBytes) +
           " printable characters without blanks";  // and is not shown
  };
  return CLI::Validator(check, "");
}

CLI::Validator link_address() {
  const auto check = [](const std::string& text) -> std::string {
    const auto address = parse_address(text);
    if (!address.ok()) return address.error().message;
    return is_one_host(address->host)
               ? ""
               : "'" + text + "' stands for every address of a machine; give one of them";
  };
  return CLI::Validator(check, "");
}

CLI::Validator numeric_host() {
  const auto check = [](const std::string& text) -> std::string {
    const auto address = parse_address(Address{text, 1}.text());
    if (address.ok() && is_one_host(address->host)) return "";
    return "'" + text.substr(0, 64) + "' is refused; it must be an IPv4 or IPv6 address";
  };
  return CLI::Validator(check, "");
}

void add_server(CLI::App* verb, std::string& host, std::string& api_key) {
  verb->add_option("--host", host, "address of the server, e.g. 127.0.0.1:11500")
      ->check(api_host());
  verb->add_option("--api-key", api_key, "API key, where the server requires one")
      ->check(api_key_text());
}

}  // namespace hearth::cli
