// The routes that generate, of every dialect: parse, render and tokenise on the pool, then hand
// over to a Generation.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/limits.h"
#include "coordinator/http/api/router.h"
#include "coordinator/http/dialects/translate.h"
#include "coordinator/http/generation/generation.h"
#include "coordinator/http/openai/tools.h"
#include "coordinator/http/routes/prompt.h"
#include "model/chat/kept_grammars.h"

namespace hearth::coordinator::http {
namespace {

// The kinds of body of the routes.
enum class Body : std::uint8_t { kChat, kCompletion, kEmbeddings, kOneEmbedding };

bool is_embedding(Body kind) { return kind == Body::kEmbeddings || kind == Body::kOneEmbedding; }

const char* prompt_field(const GenerationRequest& request) {
  return request.chat ? "messages" : request.embedding ? "input" : "prompt";
}

ApiError prompt_error(const Error& error, const char* field) {
  ApiError out = from_coordinator(error, 1);
  out.param = field;
  return out;
}

// If the model expects it, EOS is appended to a text, and the embedding is that of EOS. A text that
// is cut leaves room for EOS, and for the token that is computed.
void end_embedded(const ServedModel& served, bool truncate, std::vector<TokenId>& ids) {
  const model::Tokenizer& tokenizer = *served.tokenizer;
  const bool ends = tokenizer.adds_eos();
  if (ends && !ids.empty() && ids.back() == tokenizer.eos()) ids.pop_back();
  const std::size_t most = served.spec.context - std::min(served.spec.context, ends ? 2U : 1U);
  if (truncate && ids.size() > most) ids.resize(most);
  if (ends) ids.push_back(tokenizer.eos());
}

ApiResult<std::vector<TokenId>> encode_prompt(const ServedModel& served, const Prompt& prompt,
                                              const GenerationRequest& request) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) return *ids;
  const std::string& text = std::get<std::string>(prompt);
  const char* const field = prompt_field(request);
  const bool truncate = request.embedding && request.embedding->truncate;
  if (!truncate) {
    if (auto error = check_bytes(served, text.size(), field)) return *error;
  }
  auto ids = encode_text(*served.tokenizer, text);
  if (!ids.ok()) return prompt_error(ids.error(), field);
  if (request.embedding) end_embedded(served, truncate, *ids);
  return std::move(*ids);
}

ApiResult<std::vector<TokenId>> encode_chat(const ServedModel& served, GenerationInput& input,
                                            std::int64_t created) {
  auto pieces = render_prompt(served, created, template_input(input.request));
  if (!pieces.ok()) return prompt_error(pieces.error(), "messages");
  std::size_t bytes = 0;
  for (const model::PromptPiece& piece : *pieces) bytes += piece.text.size();
  if (auto error = check_bytes(served, bytes, "messages")) return *error;
  input.prompt_tail = prompt_tail(*pieces, input.request.continue_final_message);
  auto ids = encode_pieces(*served.tokenizer, *pieces);
  if (!ids.ok()) return prompt_error(ids.error(), "messages");
  return std::move(*ids);
}

// The control tokens that spell parts of these marks.
std::vector<model::ControlToken> controls_of(const model::Tokenizer& tokenizer,
                                             const std::vector<std::string>& marks) {
  std::vector<model::ControlToken> out;
  for (const std::string& mark : marks) {
    const auto ids = tokenizer.encode(mark, model::SpecialTokens::kParse, false);
    if (!ids.ok()) continue;
    for (const TokenId id : *ids) {
      const bool known = std::ranges::count(out, id, &model::ControlToken::token) > 0;
      if (known || !tokenizer.is_special(id)) continue;
      const bool ends = std::ranges::count(tokenizer.end_tokens(), id) > 0;
      out.push_back({tokenizer.token_bytes(id, true), id, ends});
    }
  }
  return out;
}

// Sets what the sampler masks the answer by. The one place that a mask is asked for.
std::optional<ApiError> constrain(const ServedModel& served, GenerationInput& input) {
  GenerationRequest& request = input.request;
  const char* field = field_that_needs_mask(request);
  if (field == nullptr) return std::nullopt;
  const model::ChatSyntax plain;
  const model::ChatSyntax& syntax = served.syntax ? *served.syntax : plain;
  model::AnswerConstraint asked{.content = request.format,
                                .parallel_calls = request.parallel_tool_calls,
                                .prompt_tail = input.prompt_tail};
  asked.calls_required =
      request.tool_choice == ToolChoice::kRequired || request.tool_choice == ToolChoice::kNamed;
  if (request.chat && request.tool_choice != ToolChoice::kNone) asked.tools = request.tools;
  if (request.tool_choice == ToolChoice::kNamed) {
    std::erase_if(asked.tools, [&](const auto& tool) { return tool.name != request.tool_name; });
  }
  asked.controls = controls_of(*served.tokenizer, syntax.marks());
  const auto grammar = served.grammars->get(request.policy.owner, syntax, asked);
  if (!grammar.ok()) return ApiError::invalid(grammar.error().message, field);
  const Bytes& bytes = (*grammar)->bytes();
  request.sampling.grammar.assign(bytes.begin(), bytes.end());
  return std::nullopt;
}

// How many log probabilities of prompts an answer may tell.
std::optional<ApiError> check_scores(const GenerationInput& input) {
  const GenerationRequest& request = input.request;
  if (!request.scores_prompt()) return std::nullopt;
  std::uint64_t scores = 0;
  for (const auto& prompt : input.prompts) {
    if (prompt.size() > limits::kScoredTokens) {
      return ApiError::invalid(
          fmt::format("'echo' with 'logprobs' takes prompts of at most {} tokens; one has {}",
                      limits::kScoredTokens, prompt.size()),
          "prompt");
    }
    scores += std::uint64_t{request.n} * prompt.size() * (1 + request.sampling.top_logprobs);
  }
  if (scores <= limits::kScores) return std::nullopt;
  return ApiError::invalid(
      fmt::format("'echo' with 'logprobs' asks for {} log probabilities: tokens of all prompts "
                  "times n times (1 + 'logprobs'); the limit is {}: send fewer prompts at a time",
                  scores, limits::kScores),
      "prompt");
}

ApiResult<TranslatedRequest> parse(const Api& api, const Json& body, const HttpRequest& http,
                                   Body kind) {
  const ModelBounds bounds = bounds_of(model_to_parse(api, body, http));
  const Dialect dialect = http.dialect;
  const bool embeds = is_embedding(kind);
  if (embeds && dialect == Dialect::kOllama) {
    return translate_ollama_embed(body, kind == Body::kOneEmbedding, bounds);
  }
  if (dialect != Dialect::kOpenAi) return translate_request(dialect, body, bounds);
  const auto parse = embeds                ? parse_embedding_request
                     : kind == Body::kChat ? parse_chat_request
                                           : parse_completion_request;
  TRY(GenerationRequest request, parse(body, bounds));
  return TranslatedRequest{std::move(request)};
}

// A model either gives embeddings or generates text; results of the other kind would be
// meaningless.
std::optional<ApiError> check_kind(const ServedModel& served, bool embeds) {
  if (served.spec.gives_embeddings == embeds) return std::nullopt;
  return ApiError::not_supported(
      embeds ? fmt::format("the model '{}' gives no embeddings: it generates text; name an "
                           "embedding model, such as qwen3-embedding",
                           served.id)
             : fmt::format("the model '{}' gives embeddings and generates no text: send the text "
                           "to /v1/embeddings or /api/embed, or name another model",
                           served.id),
      "model");
}

// The answer to Ollama's requests without a prompt, which load or unload a model.
std::string loaded_body(const ServedModel& served, Dialect dialect, Body kind, std::int64_t created,
                        bool unloads) {
  if (kind == Body::kOneEmbedding) return R"({"embedding":[]})";
  if (kind == Body::kEmbeddings) {
    return dump({{"model", served.id}, {"embeddings", OrderedJson::array()}});
  }
  OrderedJson out = {{"model", served.id}, {"created_at", rfc3339(created)}};
  if (dialect == Dialect::kOllama) {
    out["message"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    out["response"] = "";
  }
  out.update({{"done", true}, {"done_reason", unloads ? "unload" : "load"}});
  return dump(out);
}

// The shortest possible request waits for the model's turn; when it has computed a token, the model
// is loaded.
GenerationInput loading_input() {
  GenerationInput input;
  input.request.chat = false;
  input.request.only_prompt = true;
  input.request.max_tokens = 1;
  input.request.sampling.temperature = 0.0F;
  input.prompts = {{TokenId{0}}};
  return input;
}

// Parses and tokenises. Runs on the pool and reads only what never changes.
ApiResult<GenerationInput> prepare(const Api& api, const HttpRequest& http, Body kind,
                                   std::int64_t created) {
  TRY(const Json json, parse_json(http.body));
  TRY(TranslatedRequest translated, parse(api, json, http, kind));
  TRY(const ServedModel* const served, find_model(api, http, translated.request.model));
  if (auto refused = check_kind(*served, is_embedding(kind))) return *refused;
  GenerationInput input;
  if (translated.only_loads) {
    if (!translated.unloads) input = loading_input();
    input.fixed = loaded_body(*served, http.dialect, kind, created, translated.unloads);
  } else {
    translated.request.policy.owner = http.policy.owner;
    TRY(input, tokenise(*served, std::move(translated.request), created));
  }
  input.model = served->number;
  input.dialect = http.dialect;
  input.frame = std::move(translated.frame);
  return input;
}

// How much of the answer the client has seen, by the id of the last event.
ApiResult<std::optional<EventId>> seen_of(const HttpRequest& http, const GenerationInput& input) {
  if (!http.last_event_id) return std::optional<EventId>();
  auto seen = parse_event_id(*http.last_event_id);
  if (!seen || seen->told.size() != input.prompts.size() * input.request.n) {
    return ApiError::of(400, "Last-Event-ID must be the id of an event of this request",
                        "bad_last_event_id");
  }
  if (input.dialect != Dialect::kOpenAi) {
    return ApiError::of(400,
                        "Last-Event-ID continues streams of chat completions and completions only; "
                        "send the request without it to start from the beginning",
                        "bad_last_event_id");
  }
  if (!input.request.stream) {
    return ApiError::of(400, "Last-Event-ID needs 'stream' to be true", "bad_last_event_id");
  }
  if (seen->answer != input.keep->answer) {
    return ApiError::of(409,
                        "Last-Event-ID belongs to an answer with another key, body, user or model; "
                        "send the request again without it",
                        "event_of_another_answer");
  }
  return seen;
}

// Whether no process can have sent this event; called when the answer is not known here.
bool beyond_all(const EventId& seen, const GenerationInput& input, std::uint32_t context) {
  const std::uint32_t most = std::min(input.request.max_tokens.value_or(context), context);
  return std::any_of(seen.told.begin(), seen.told.end(),
                     [most](std::uint32_t told) { return told > most + 2; });
}

// A request with an Idempotency-Key: attaches to the answer of that name, or starts it.
void serve_kept(Call call, GenerationInput input) {
  const auto found = call.api->kept.find(input.keep->name);
  if (found && found->digest != input.keep->digest) {
    return call.respond(ApiError::of(
        422,
        "this Idempotency-Key was used with another body or path; a new request needs a "
        "new key",
        "idempotency_key_reused"));
  }
  auto seen = seen_of(call.request, input);
  if (!seen.ok()) return call.respond(seen.error());
  if (*seen && (found ? !found->generation->may_have_sent(**seen)
                      : beyond_all(**seen, input, call.api->models.at(input.model).spec.context))) {
    return call.respond(ApiError::of(
        400,
        "Last-Event-ID names an event that was not sent yet; send the request again with the id of "
        "the last event that arrived, or without one",
        "bad_last_event_id"));
  }
  if (found) return found->generation->attach(std::move(call.writer), std::move(*seen));
  Generation::start(call.api, std::move(call.writer), call.request, std::move(input),
                    std::move(*seen));
}

void handle_generation(Call call, Body kind) {
  const std::int64_t created = call.api->clock.unix_seconds();
  on_pool(std::move(call), [kind, created](Call call) {
    const std::shared_ptr<Api> api = call.api;
    HttpRequest& http = call.request;
    auto input = prepare(*api, http, kind, created);
    // A request to unload a model does nothing: the model stays until a request names another one.
    if (input.ok() && input->prompts.empty()) {
      api->sockets.post([call = std::move(call), body = std::move(input->fixed)]() mutable {
        call.respond(json_response(std::move(body)));
      });
      return;
    }
    if (input.ok() && http.idempotency_key) {
      input->keep = api->kept.keep(http.policy.owner, *http.idempotency_key, http.path, http.body,
                                   api->models.at(input->model).fingerprint);
    }
    http.body = {};
    api->sockets.post([call = std::move(call), input = std::move(input)]() mutable {
      if (!input.ok()) return call.respond(input.error());
      input->request.policy =
          merged_policy(call.request.policy, input->request.asked, call.api->options.policy);
      if (input->keep) return serve_kept(std::move(call), std::move(*input));
      Generation::start(call.api, call.writer, call.request, std::move(*input));
    });
  });
}

}  // namespace

ApiResult<GenerationInput> tokenise(const ServedModel& served, GenerationRequest request,
                                    std::int64_t created) {
  GenerationInput input;
  input.created = created;
  input.request = std::move(request);
  const bool chat = input.request.chat;
  if (chat) {
    TRY(std::vector<TokenId> ids, encode_chat(served, input, created));
    input.prompts.push_back(std::move(ids));
  }
  if (auto refused = constrain(served, input)) return *refused;
  for (const Prompt& prompt : input.request.prompts) {
    TRY(std::vector<TokenId> ids, encode_prompt(served, prompt, input.request));
    if (input.request.echo) {
      const auto* text = std::get_if<std::string>(&prompt);
      input.echoes.push_back(text != nullptr ? *text : decode_tokens(served, ids, false));
    }
    input.prompts.push_back(std::move(ids));
  }
  for (const auto& ids : input.prompts) {
    if (!ids.empty()) continue;
    const char* const field = prompt_field(input.request);
    return ApiError::invalid(fmt::format("'{}' has no tokens", field), field);
  }
  if (auto error = check_scores(input)) return *error;
  return input;
}

void handle_chat(Call call) { handle_generation(std::move(call), Body::kChat); }
void handle_completion(Call call) { handle_generation(std::move(call), Body::kCompletion); }
void handle_messages(Call call) { handle_generation(std::move(call), Body::kChat); }
void handle_responses(Call call) { handle_generation(std::move(call), Body::kChat); }
void handle_ollama_chat(Call call) { handle_generation(std::move(call), Body::kChat); }
void handle_ollama_generate(Call call) { handle_generation(std::move(call), Body::kChat); }
void handle_embeddings(Call call) { handle_generation(std::move(call), Body::kEmbeddings); }
void handle_ollama_embed(Call call) { handle_generation(std::move(call), Body::kEmbeddings); }
void handle_ollama_embeddings(Call call) {
  handle_generation(std::move(call), Body::kOneEmbedding);
}

void handle_forget(Call call) {
  const auto& [api, request, writer] = call;
  if (!request.idempotency_key) {
    return call.respond(ApiError::of(400,
                                     "the header Idempotency-Key is required: it names the request",
                                     "bad_idempotency_key"));
  }
  const auto found = api->kept.find(api->kept.name(request.policy.owner, *request.idempotency_key));
  if (!found) {
    return call.respond(
        ApiError::not_found("no request is kept under this Idempotency-Key", "request_not_found"));
  }
  found->generation->forget();
  call.respond(HttpResponse{204});
}

}  // namespace hearth::coordinator::http
