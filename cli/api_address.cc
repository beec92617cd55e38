#include "cli/api_address.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "proto/address.h"

namespace hearth::cli {
namespace {

constexpr std::pair<std::string_view, std::string_view> kHosts[] = {
    {"127.0.0.1", "127.0.0.1"}, {"localhost", "127.0.0.1"}, {"[::1]", "::1"}, {"::1", "::1"}};

}  // namespace

Result<ApiAddress> parse_api_address(const std::string& text) {
  std::string_view rest = text;
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  while (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.ends_with("/v1")) rest.remove_suffix(3);
  const std::string shown = "'" + text.substr(0, 64) + "'";
  for (const auto& [name, literal] : kHosts) {
    if (rest == name) return ApiAddress{std::string(literal), std::nullopt};
    if (name == "::1" || !rest.starts_with(name) || rest[name.size()] != ':') continue;
    const std::string_view digits = rest.substr(name.size() + 1);
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    REQUIRE(error == std::errc() && end == digits.data() + digits.size(),
            "the port in " + shown + " must be a whole number from 0 to 65535");
    return ApiAddress{std::string(literal), port};
  }
  return Error::invalid(shown +
                        " is not a loopback address; there is no encryption yet, so only "
                        "127.0.0.1, localhost and [::1] are used");
}

std::string api_base(const ApiAddress& address) {
  return "http://" + Address{address.host, address.port.value_or(kDefaultApiPort)}.text();
}

}  // namespace hearth::cli
