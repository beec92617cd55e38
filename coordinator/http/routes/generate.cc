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

// Refuses a prompt that cannot fit by its number of bytes, before it is tokenised.
std::optional<ApiError> check_bytes(const ServedModel& served, std::size_t bytes, bool chat) {
  const std::uint64_t longest = served.tokenizer->longest_token_bytes();
  const std::uint64_t context = served.spec.context;
  if (longest == 0 || bytes <= context * longest) return std::nullopt;
  return ApiError::invalid("the prompt has " + std::to_string(bytes) +
                               " bytes; the model's context of " + std::to_string(context) +
                               " tokens holds at most " + std::to_string(context * longest) +
                               " (its longest token has " + std::to_string(longest) + ")",
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

// Parses and tokenises. Runs on the pool and reads only what never changes.
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

// How much of the answer the client has seen, by the id of the last event.
ApiResult<std::optional<EventId>> seen_of(const HttpRequest& http, const GenerationInput& input) {
  if (!http.last_event_id) return std::optional<EventId>();
  auto seen = parse_event_id(*http.last_event_id);
  if (!seen || seen->told.size() != input.prompts.size() * input.request.n) {
    return conflict(400, "Last-Event-ID is not the id of an event of this request",
                    "bad_last_event_id");
  }
  if (!input.request.stream) {
    return conflict(400, "Last-Event-ID continues a stream, but 'stream' is false in this request",
                    "bad_last_event_id");
  }
  if (seen->answer != input.keep->answer) {
    return conflict(409,
                    "Last-Event-ID belongs to an answer with another key, body, user or model; "
                    "send the request again without it",
                    "event_of_another_answer");
  }
  return seen;
}

ApiError never_sent() {
  return conflict(
      400,
      "Last-Event-ID names an event that was not sent yet; send the request again with the id of "
      "the last event that arrived, or without one",
      "bad_last_event_id");
}

// Whether no process can have sent this event, where the answer is not known here.
bool beyond_all(const EventId& seen, const GenerationInput& input, std::uint32_t context) {
  const std::uint32_t most = std::min(input.request.max_tokens.value_or(context), context);
  return std::any_of(seen.told.begin(), seen.told.end(),
                     [most](std::uint32_t told) { return told > most + 2; });
}

// A request with an Idempotency-Key: attaches to the answer of that name, or starts it.
void serve_kept(const std::shared_ptr<Api>& api, std::shared_ptr<ResponseWriter> writer,
                const HttpRequest& http, GenerationInput input) {
  const auto found = api->kept.find(input.keep->name);
  if (found && found->digest != input.keep->digest) {
    return writer->respond(error_response(
        conflict(422,
                 "this Idempotency-Key was used with another body or path; a new request needs a "
                 "new key",
                 "idempotency_key_reused")));
  }
  auto seen = seen_of(http, input);
  if (!seen.ok()) return writer->respond(error_response(seen.error()));
  if (*seen && (found ? !found->generation->may_have_sent(**seen)
                      : beyond_all(**seen, input, api->model.spec.context))) {
    return writer->respond(error_response(never_sent()));
  }
  if (found) return found->generation->attach(std::move(writer), std::move(*seen));
  Generation::start(api, std::move(writer), http, std::move(input), std::move(*seen));
}

void handle_generation(const std::shared_ptr<Api>& api, HttpRequest request,
                       std::shared_ptr<ResponseWriter> writer, bool chat) {
  const std::size_t bytes = request.body.size();
  api->on_pool(bytes, [api, request = std::move(request), writer, chat]() mutable {
    auto input = prepare(*api, request.body, chat);
    if (input.ok() && request.idempotency_key) {
      input->keep = api->kept.keep(request.policy.owner, *request.idempotency_key, request.path,
                                   request.body);
    }
    request.body = {};
    auto next = [api, request = std::move(request), writer = std::move(writer),
                 input = std::move(input)]() mutable {
      if (!input.ok()) return writer->respond(error_response(input.error()));
      input->request.policy =
          merged_policy(request.policy, input->request.asked, api->options.policy);
      if (input->keep) return serve_kept(api, std::move(writer), request, std::move(*input));
      Generation::start(api, writer, request, std::move(*input));
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
                 std::shared_ptr<ResponseWriter> writer) {
  handle_generation(api, std::move(request), std::move(writer), true);
}

void handle_completion(const std::shared_ptr<Api>& api, HttpRequest request,
                       std::shared_ptr<ResponseWriter> writer) {
  handle_generation(api, std::move(request), std::move(writer), false);
}

void handle_forget(const std::shared_ptr<Api>& api, HttpRequest request,
                   std::shared_ptr<ResponseWriter> writer) {
  if (!request.idempotency_key) {
    return writer->respond(error_response(
        ApiError::invalid("the header Idempotency-Key is required: it names the request",
                          std::nullopt, "bad_idempotency_key")));
  }
  const auto found = api->kept.find(api->kept.name(request.policy.owner, *request.idempotency_key));
  if (!found) {
    return writer->respond(error_response(
        ApiError::not_found("no request is kept under this Idempotency-Key", "request_not_found")));
  }
  found->generation->forget();
  HttpResponse gone;
  gone.status = 204;
  writer->respond(std::move(gone));
}

}  // namespace hearth::coordinator::http
