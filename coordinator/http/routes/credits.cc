// POST /api/v1/grants {"to": "a node, a key or an account", "amount": 1000}
#include <spdlog/fmt/fmt.h>

#include "coordinator/http/api/router.h"
#include "coordinator/http/openai/fields.h"

namespace hearth::coordinator::http {
namespace {

struct Wish {
  PublicKey to;
  std::int64_t amount = 0;
};

ApiResult<Wish> parse_grant(const Api& api, const std::string& body) {
  TRY(const Json json, parse_json(body));
  FieldReader fields(json);
  const auto to = fields.string("to");
  if (!to) fields.fail("to", "is required: a node, an API key or an account");
  const auto amount = fields.integer("amount", 1, ledger::kGrantMax);
  if (!amount) fields.fail("amount", fmt::format("is required: from 1 to {}", ledger::kGrantMax));
  if (fields.failed()) return fields.error();
  const auto account = api.options.accounts->find(*to);
  if (!account && account.error().code == ErrorCode::kNotFound) {
    return ApiError::not_found(account.error().message, "account_not_found");
  }
  if (!account) return from_coordinator(account.error(), 1);
  return Wish{*account, *amount};
}

}  // namespace

void handle_grant(Call call) {
  if (!call.api->options.credits) {
    return call.respond(ApiError::of(
        409,
        "this cluster has no credits; to enable them, stop the server and run hearth init "
        "--credits",
        "no_credits"));
  }
  on_pool(std::move(call), [](const Call& call) {
    const auto respond = [call](const HttpResponse& response) {
      call.api->sockets.post([call, response] { call.respond(response); });
    };
    auto wish = parse_grant(*call.api, call.request.body);
    if (!wish.ok()) return respond(error_response(wish.error()));
    const HttpOptions& options = call.api->options;
    options.grant(wish->to, wish->amount, [respond, &options, wish = *wish](const Status& done) {
      if (!done) return respond(error_response(from_coordinator(done.error(), 1)));
      const Credits::Balance now = options.credits->balance(wish.to);
      respond(json_response(dump({{"account", wish.to.hex()},
                                  {"amount", wish.amount},
                                  {"balance", now.spendable},
                                  {"reserved", now.reserved}})));
    });
  });
}

}  // namespace hearth::coordinator::http
