#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/number.h"
#include "cli/home/own_server.h"
#include "cli/ledger/standings.h"
#include "cli/terminal/escape.h"
#include "cli/terminal/exit_codes.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/print_line.h"
#include "ledger/books.h"

namespace hearth::cli {
namespace {

using Json = nlohmann::json;

Result<std::int64_t> amount_of(const std::string& text) {
  const auto amount = parse_number<std::int64_t>(text);
  REQUIRE(amount && *amount >= 1 && *amount <= ledger::kGrantMax, "'", text,
          "': the amount must be a whole number of credits from 1 to ", ledger::kGrantMax);
  return *amount;
}

Result<Json> ask(const GrantOptions& options, std::int64_t amount) {
  client::HttpClient http(interrupted);
  TRY(Json said, post_to_server(http, options.api_base, options.api_key, "/api/v1/grants",
                                {{"to", options.to}, {"amount", amount}}));
  const bool right = said.value("account", Json()).is_string() &&
                     said.value("balance", Json()).is_number_integer();
  if (!right) {
    return Error::of(ErrorCode::kUnavailable, options.api_base,
                     " is not a Hearth server of this version");
  }
  return said;
}

}  // namespace

int run_grant(const GrantOptions& options) {
  const auto amount = amount_of(options.amount);
  if (!amount.ok()) {
    fail(amount.error());
    return kExitUsage;
  }
  const auto said = ask(options, *amount);
  if (!said.ok()) return fail(said.error());
  if (options.json) {
    print_line("{}", escape_json(said->dump()));
  } else {
    print_line("{} has {} credits now, {} of them new", escape_control(options.to),
               said->at("balance").get<std::int64_t>(), *amount);
  }
  return kExitDone;
}

}  // namespace hearth::cli
