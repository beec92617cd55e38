#include "coordinator/http/routes/tokens.h"

#include <spdlog/fmt/fmt.h>

#include <functional>

#include "coordinator/http/api/router.h"
#include "coordinator/http/openai/fields.h"
#include "coordinator/http/openai/tools.h"
#include "coordinator/http/openai/unsupported.h"
#include "coordinator/http/routes/prompt.h"
#include "model/gguf/untrusted_text.h"

namespace hearth::coordinator::http {
namespace {

OrderedJson piece_value(const std::string& bytes) {
  if (model::is_utf8(bytes)) return bytes;
  OrderedJson numbers = OrderedJson::array();
  for (const char c : bytes) numbers.push_back(static_cast<unsigned char>(c));
  return numbers;
}

std::optional<ApiError> check_count(const char* param, std::size_t tokens, std::size_t most) {
  if (tokens <= most) return std::nullopt;
  return ApiError::invalid(
      fmt::format("'{}' has {} tokens; the limit is {}, send it in parts", param, tokens, most),
      param, "context_length_exceeded");
}

using Function = std::function<ApiResult<OrderedJson>(const ServedModel&, const Json&)>;

ApiResult<OrderedJson> compute(const Call& call, const Function& function) {
  const Api& api = *call.api;
  TRY(const Json json, parse_json(call.request.body));
  if (api.models.size() == 1) return function(api.model, json);
  FieldReader fields(json);
  const std::string name = fields.string("model").value_or("");
  if (fields.failed()) return fields.error();
  TRY(const ServedModel* const served, find_model(api, call.request, name));
  return function(*served, json);
}

void handle_on_pool(Call call, Function function) {
  on_pool(std::move(call), [function = std::move(function)](const Call& call) {
    auto result = compute(call, function);
    HttpResponse response =
        result.ok() ? json_response(dump(*result)) : error_response(result.error());
    call.api->sockets.post([writer = call.writer, response = std::move(response)]() mutable {
      writer->respond(std::move(response));
    });
  });
}

}  // namespace

ApiResult<OrderedJson> tokenize(const ServedModel& served, const Json& body) {
  FieldReader fields(body);
  const auto content = fields.string("content");
  if (!content) fields.fail("content", "is required");
  const bool add_special = fields.boolean("add_special").value_or(false);
  const bool parse_special = fields.boolean("parse_special").value_or(true);
  const bool with_pieces = fields.boolean("with_pieces").value_or(false);
  if (fields.failed()) return fields.error();
  const auto kind = parse_special ? model::SpecialTokens::kParse : model::SpecialTokens::kText;
  if (auto error = check_bytes(served, content->size(), "content")) return *error;
  auto ids = served.tokenizer->encode(*content, kind, add_special);
  if (!ids.ok()) return from_coordinator(ids.error(), 1);
  if (auto error = check_count("content", ids->size(), limits::kJsonValues)) return *error;
  OrderedJson tokens = OrderedJson::array();
  for (const TokenId id : *ids) {
    if (!with_pieces) {
      tokens.push_back(id);
      continue;
    }
    const std::string bytes = served.tokenizer->token_bytes(id, true);
    tokens.push_back({{"id", id}, {"piece", piece_value(bytes)}});
  }
  return OrderedJson{{"tokens", std::move(tokens)}};
}

ApiResult<OrderedJson> detokenize(const ServedModel& served, const Json& body) {
  FieldReader fields(body);
  const Json* tokens = fields.find("tokens");
  if (tokens == nullptr || !tokens->is_array()) {
    fields.fail("tokens", "must be an array of token ids");
    return fields.error();
  }
  if (auto error = check_count("tokens", tokens->size(), served.spec.context)) return *error;
  const auto ids = parse_token_ids(fields, "tokens", *tokens, served.spec.vocabulary);
  if (fields.failed()) return fields.error();
  return OrderedJson{{"content", decode_tokens(served, *ids, true)}};
}

ApiResult<OrderedJson> apply_template(const ServedModel& served, const Json& body,
                                      std::int64_t unix_seconds) {
  FieldReader fields(body);
  GenerationRequest request;
  request.messages = parse_messages(fields);
  parse_tools(fields, request);
  parse_template_fields(fields, request);
  refuse_unsupported(fields);
  if (fields.failed()) return fields.error();
  auto pieces = render_prompt(served, unix_seconds, template_input(request));
  if (!pieces.ok()) return from_coordinator(pieces.error(), 1);
  std::string prompt;
  for (const model::PromptPiece& piece : *pieces) prompt += piece.text;
  return OrderedJson{{"prompt", std::move(prompt)}};
}

void handle_tokenize(Call call) { handle_on_pool(std::move(call), tokenize); }
void handle_detokenize(Call call) { handle_on_pool(std::move(call), detokenize); }
void handle_apply_template(Call call) {
  const std::int64_t now = call.api->clock.unix_seconds();
  handle_on_pool(std::move(call), [now](const ServedModel& served, const Json& body) {
    return apply_template(served, body, now);
  });
}

}  // namespace hearth::coordinator::http
