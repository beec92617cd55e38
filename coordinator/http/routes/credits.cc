// POST /api/v1/grants {"to": "a node, a key or an account", "amount": 1000}
#include "coordinator/http/api/handlers.h"
#include "coordinator/http/openai/fields.h"

namespace hearth::coordinator::http {
namespace {

struct Wish {
  PublicKey to;
  std::int64_t amount = 0;
};

ApiResult<Wish> parse_grant(const Api& api, const std::string& body) {
  auto json = parse_json(body);
  if (!json.ok()) return json.error();
  FieldReader fields(*json);
  const auto to = fields.string("to");
  if (!to) fields.fail("to", "is required: a node, an API key or an account");
  const auto amount = fields.integer("amount", 1, ledger::kGrantMax);
  if (!amount) fields.fail("amount", "is required: from 1 to " + std::to_string(ledger::kGrantMax));
  if (fields.failed()) return fields.error();
  const auto account = api.options.accounts->find(*to);
  if (!account && account.error().code == ErrorCode::kNotFound) {
    return ApiError::not_found(account.error().message, "account_not_found");
  }
  if (!account) return from_coordinator(account.error(), 1);
  return Wish{*account, *amount};
}

}  // namespace

void handle_grant(const std::shared_ptr<Api>& api, HttpRequest request,
                  std::shared_ptr<Exchange> exchange) {
  if (!api->options.credits) {
    ApiError error = ApiError::invalid(
        "this cluster's ledger is a log only, and has no credits; to switch them on, stop the "
        "server and: hearth init --credits",
        std::nullopt, "no_credits");
    error.status = 409;
    return exchange->respond(error_response(error));
  }
  api->on_pool(request.body.size(), [api, request = std::move(request), exchange] {
    auto wish = parse_grant(*api, request.body);
    const auto respond = [api, exchange](HttpResponse response) {
      api->sockets.post(
          [exchange, response = std::move(response)] { exchange->respond(response); });
    };
    if (!wish.ok()) return respond(error_response(wish.error()));
    api->options.grant(wish->to, wish->amount, [api, respond, wish = *wish](const Status& done) {
      if (!done) return respond(error_response(from_coordinator(done.error(), 1)));
      const Credits::Balance now = api->options.credits->balance(wish.to);
      respond(json_response(dump(OrderedJson{{"account", wish.to.hex()},
                                             {"amount", wish.amount},
                                             {"balance", now.spendable},
                                             {"reserved", now.reserved}})));
    });
  });
}

}  // namespace hearth::coordinator::http
