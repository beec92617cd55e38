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
                  std::shared_ptr<ResponseWriter> writer) {
  if (!api->options.credits) {
    ApiError error = ApiError::invalid(
        "this cluster has no credits; to enable them, stop the server and run hearth init "
        "--credits",
        std::nullopt, "no_credits");
    error.status = 409;
    return writer->respond(error_response(error));
  }
  api->on_pool(request.body.size(), [api, request = std::move(request), writer] {
    auto wish = parse_grant(*api, request.body);
    const auto respond = [api, writer](HttpResponse response) {
      api->sockets.post([writer, response = std::move(response)] { writer->respond(response); });
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
