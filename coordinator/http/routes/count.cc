// POST /v1/messages/count_tokens, /v1/responses/input_tokens and /v1/chat/completions/input_tokens:
// the number of tokens of the prompt that the same body would make.
#include "coordinator/http/api/router.h"
#include "coordinator/http/dialects/translate.h"
#include "coordinator/http/generation/generation.h"

namespace hearth::coordinator::http {
namespace {

ApiResult<std::size_t> count(const Api& api, const HttpRequest& http, std::int64_t created) {
  TRY(const Json json, parse_json(http.body));
  GenerationRequest request;
  const ModelBounds bounds = bounds_of(model_to_parse(api, json, http));
  if (http.dialect == Dialect::kOpenAi) {
    TRY(request, parse_chat_request(json, bounds));
  } else {
    TRY(TranslatedRequest translated, translate_request(http.dialect, json, bounds, true));
    request = std::move(translated.request);
  }
  TRY(const ServedModel* const served, find_model(api, http, request.model));
  request.policy.owner = http.policy.owner;
  TRY(const GenerationInput input, tokenise(*served, std::move(request), created));
  return input.prompts.front().size();
}

void handle_count(Call call, bool named) {
  const std::int64_t created = call.api->clock.unix_seconds();
  on_pool(std::move(call), [named, created](Call call) {
    auto tokens = count(*call.api, call.request, created);
    call.api->sockets.post([call = std::move(call), tokens = std::move(tokens), named]() mutable {
      if (!tokens.ok()) return call.respond(tokens.error());
      OrderedJson out = OrderedJson::object();
      if (named) out["object"] = "response.input_tokens";
      out["input_tokens"] = *tokens;
      call.respond(json_response(dump(out)));
    });
  });
}

}  // namespace

void handle_count_messages(Call call) { handle_count(std::move(call), false); }
void handle_count_input(Call call) { handle_count(std::move(call), true); }

}  // namespace hearth::coordinator::http
