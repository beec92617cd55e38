// POST /v1/chat/completions and /v1/completions: parse, render and tokenise on the pool, then hand
// over to a Generation.
#include <algorithm>

#include "coordinator/http/api/handlers.h"
#include "coordinator/http/generation/generation.h"
#include "coordinator/http/routes/prompt.h"

namespace hearth::coordinator::http {
namespace {

ApiError prompt_error(const Error& error, bool chat) {
  ApiError out = from_coordinator(error, 1);
  out.param = chat ? "messages" : "prompt";
  return out;
}

// Refuses by its bytes alone what cannot fit, before the work of tokenising it is done.
std::optional<ApiError> check_bytes(const ServedModel& served, std::size_t bytes, bool chat) {
  const std::uint64_t longest = served.tokenizer->longest_token_bytes();
  const std::uint64_t context = served.spec.context;
  if (longest == 0 || bytes <= context * longest) return std::nullopt;
  return ApiError::invalid("the prompt has " + std::to_string(bytes) +
                               " bytes; the model's context of " + std::to_string(context) +
                               " tokens holds at most " + std::to_string(context * longest) +
                               ", for its longest token has " + std::to_string(longest),
                           chat ? "messages" : "prompt", "context_length_exceeded");
}

ApiResult<std::vector<TokenId>> encode_prompt(const ServedModel& served, const Prompt& prompt) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) return *ids;
  const std::string& text = std::get<std::string>(prompt);
  if (auto error = check_bytes(served, text.size(), false)) return *error;
  auto ids = encode_text(*served.tokenizer, text);
  if (!ids.ok()) return prompt_error(ids.error(), false);
  return std::move(*ids);
}

ApiResult<std::vector<TokenId>> encode_chat(const ServedModel& served, GenerationRequest& request) {
  auto pieces = render_chat(served, std::move(request.messages));
  if (!pieces.ok()) return prompt_error(pieces.error(), true);
  std::size_t bytes = 0;
  for (const model::PromptPiece& piece : *pieces) bytes += piece.text.size();
  if (auto error = check_bytes(served, bytes, true)) return *error;
  auto ids = encode_pieces(*served.tokenizer, *pieces);
  if (!ids.ok()) return prompt_error(ids.error(), true);
  return std::move(*ids);
}

// Everything that does not need the swarm. Runs on the pool; touches nothing that changes.
ApiResult<GenerationInput> prepare(const Api& api, const std::string& body, bool chat) {
  auto json = parse_json(body);
  if (!json.ok()) return json.error();
  auto parsed = chat ? parse_chat_request(*json, api.bounds())
                     : parse_completion_request(*json, api.bounds());
  if (!parsed.ok()) return parsed.error();
  if (auto unknown = check_model(api, parsed->model)) return *unknown;
  return tokenise(api.model, std::move(*parsed));
}

ApiError conflict(unsigned status, std::string message, std::string code) {
  ApiError error = ApiError::invalid(std::move(message), std::nullopt, std::move(code));
  error.status = status;
  return error;
}

// How far its client has been told, by the id of the last event that it saw.
ApiResult<std::optional<EventId>> seen_of(const HttpRequest& http, const GenerationInput& input) {
  if (!http.last_event_id) return std::optional<EventId>();
  auto seen = parse_event_id(*http.last_event_id);
  if (!seen || seen->told.size() != input.prompts.size() * input.request.n) {
    return conflict(400, "Last-Event-ID is no id of an event of this request", "bad_last_event_id");
  }
  if (!input.request.stream) {
    return conflict(400, "Last-Event-ID goes on with a stream, and this request has 'stream' false",
                    "bad_last_event_id");
  }
  if (seen->answer != input.keep->answer) {
    return conflict(409,
                    "Last-Event-ID belongs to another answer: of another key, body or user, or of "
                    "the model that was served before; ask again without it",
                    "event_of_another_answer");
  }
  return seen;
}

ApiError never_sent() {
  return conflict(
      400,
      "Last-Event-ID names an event beyond what was sent of this answer; ask again with "
      "the id of the last event that came, or without",
      "bad_last_event_id");
}

// Of an answer that nothing is known of here: what no process can have sent.
bool beyond_all(const EventId& seen, const GenerationInput& input, std::uint32_t context) {
  const std::uint32_t most = std::min(input.request.max_tokens.value_or(context), context);
  return std::any_of(seen.told.begin(), seen.told.end(),
                     [most](std::uint32_t told) { return told > most + 2; });
}

// One with an Idempotency-Key: the answer that there is or will be, or the first of its name.
void serve_kept(const std::shared_ptr<Api>& api, std::shared_ptr<Exchange> exchange,
                const HttpRequest& http, GenerationInput input) {
  const auto found = api->kept.find(input.keep->name);
  if (found && found->digest != input.keep->digest) {
    return exchange->respond(error_response(
        conflict(422,
                 "this Idempotency-Key came with another body or path before; a new request "
                 "needs a new key",
                 "idempotency_key_reused")));
  }
  auto seen = seen_of(http, input);
  if (!seen.ok()) return exchange->respond(error_response(seen.error()));
  if (*seen && (found ? !found->generation->may_have_sent(**seen)
                      : beyond_all(**seen, input, api->model.spec.context))) {
    return exchange->respond(error_response(never_sent()));
  }
  if (found) return found->generation->attach(std::move(exchange), std::move(*seen));
  Generation::start(api, std::move(exchange), http, std::move(input), std::move(*seen));
}

void handle_generation(const std::shared_ptr<Api>& api, HttpRequest request,
                       std::shared_ptr<Exchange> exchange, bool chat) {
  const std::size_t bytes = request.body.size();
  api->on_pool(bytes, [api, request = std::move(request), exchange, chat]() mutable {
    auto input = prepare(*api, request.body, chat);
    if (input.ok() && request.idempotency_key) {
      input->keep =
          api->kept.keep(request.owner, *request.idempotency_key, request.path, request.body);
    }
    request.body = {};
    auto next = [api, request = std::move(request), exchange = std::move(exchange),
                 input = std::move(input)]() mutable {
      if (!input.ok()) return exchange->respond(error_response(input.error()));
      if (input->request.trust.empty()) input->request.trust = request.trust;
      input->request.owner = request.owner;
      input->request.account = request.account.value_or(api->options.own_account);
      // What the key's owner set is a floor: a request raises it, and never lowers it.
      input->request.verify =
          std::max(request.verify, input->request.verify.value_or(api->options.verify));
      input->request.min_level =
          std::max(request.min_level, input->request.min_level.value_or(api->options.min_level));
      if (input->keep) return serve_kept(api, std::move(exchange), request, std::move(*input));
      Generation::start(api, exchange, request, std::move(*input));
    };
    api->sockets.post(std::move(next));
  });
}

}  // namespace

ApiResult<GenerationInput> tokenise(const ServedModel& served, GenerationRequest request) {
  GenerationInput input;
  input.request = std::move(request);
  const bool chat = input.request.chat;
  if (chat) {
    auto ids = encode_chat(served, input.request);
    if (!ids.ok()) return ids.error();
    input.prompts.push_back(std::move(*ids));
  }
  for (const Prompt& prompt : input.request.prompts) {
    auto ids = encode_prompt(served, prompt);
    if (!ids.ok()) return ids.error();
    if (input.request.echo) {
      const auto* text = std::get_if<std::string>(&prompt);
      input.echoes.push_back(text != nullptr ? *text : decode_tokens(served, *ids, false));
    }
    input.prompts.push_back(std::move(*ids));
  }
  for (const auto& ids : input.prompts) {
    if (!ids.empty()) continue;
    return ApiError::invalid("the prompt has no tokens", chat ? "messages" : "prompt");
  }
  return input;
}

void handle_chat(const std::shared_ptr<Api>& api, HttpRequest request,
                 std::shared_ptr<Exchange> exchange) {
  handle_generation(api, std::move(request), std::move(exchange), true);
}

void handle_completion(const std::shared_ptr<Api>& api, HttpRequest request,
                       std::shared_ptr<Exchange> exchange) {
  handle_generation(api, std::move(request), std::move(exchange), false);
}

void handle_forget(const std::shared_ptr<Api>& api, HttpRequest request,
                   std::shared_ptr<Exchange> exchange) {
  if (!request.idempotency_key) {
    return exchange->respond(error_response(ApiError::invalid(
        "an Idempotency-Key says which request", std::nullopt, "bad_idempotency_key")));
  }
  const auto found = api->kept.find(api->kept.name(request.owner, *request.idempotency_key));
  if (!found) {
    return exchange->respond(error_response(
        ApiError::not_found("nothing is kept under this Idempotency-Key", "request_not_found")));
  }
  found->generation->forget();
  HttpResponse gone;
  gone.status = 204;
  exchange->respond(std::move(gone));
}

}  // namespace hearth::coordinator::http
