#include "cli/command/network_values.h"

#include <algorithm>
#include <string>

#include "cli/api_address.h"
#include "proto/address.h"

namespace hearth::cli {
namespace {

constexpr std::size_t kApiKeyBytes = 512;

// Others cannot dial what stands for every address.
bool is_one_host(const std::string& host) { return host != "0.0.0.0" && host != "::"; }

}  // namespace

CLI::Validator api_host() {
  const auto check = [](const std::string& text) -> std::string {
    const auto address = parse_api_address(text);
    return address.ok() ? "" : address.error().message;
  };
  return CLI::Validator(check, "");
}

CLI::Validator listen_host() {
  const auto check = [](const std::string& text) -> std::string {
    const auto address = parse_api_address(text);
    if (!address.ok()) return address.error().message;
    if (is_ip_address(address->host)) return "";
    return "'" + text.substr(0, 64) +
           "' is a name; a server listens on an address of this machine, or on 0.0.0.0 for all of "
           "them";
  };
  return CLI::Validator(check, "");
}

CLI::Validator api_key_text() {
  const auto check = [](const std::string& text) -> std::string {
    const bool printable =
        std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; });
    if (printable && !text.empty() && text.size() <= kApiKeyBytes) return "";
    return "it must have 1 to " + std::to_string(kApiKeyBytes) +
           " printable characters and no blank";  // and is not shown
  };
  return CLI::Validator(check, "");
}

CLI::Validator link_address() {
  const auto check = [](const std::string& text) -> std::string {
    const auto address = parse_address(text);
    if (!address.ok()) return address.error().message;
    return is_one_host(address->host) ? ""
                                      : "'" + text + "' is every address of a machine; name one";
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

}  // namespace hearth::cli
