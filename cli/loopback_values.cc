#include "cli/loopback_values.h"

#include "cli/api_address.h"
#include "proto/address.h"

namespace hearth::cli {

CLI::Validator loopback_host() {
  const auto check = [](const std::string& text) -> std::string {
    const auto address = parse_api_address(text);
    return address.ok() ? "" : address.error().message;
  };
  return CLI::Validator(check, "");
}

CLI::Validator loopback_link() {
  const auto check = [](const std::string& text) -> std::string {
    const auto address = parse_loopback_address(text);
    return address.ok() ? "" : address.error().message;
  };
  return CLI::Validator(check, "");
}

}  // namespace hearth::cli
