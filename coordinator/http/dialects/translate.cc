#include "coordinator/http/dialects/translate.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/check.h"

namespace hearth::coordinator::http {
namespace {

// A field of a chat, and the dialect's name of it.
struct Renamed {
  std::string_view chat;
  std::string_view own;
};

constexpr std::array kAnthropic = {
    Renamed{"stop", "stop_sequences"},
    Renamed{"chat_template_kwargs", "thinking"},
    Renamed{"reasoning_effort", "output_config.effort"},
    Renamed{"response_format", "output_config.format"},
};
constexpr std::array kResponses = {
    Renamed{"messages", "input"},
    Renamed{"max_tokens", "max_output_tokens"},
    Renamed{"reasoning_effort", "reasoning.effort"},
    Renamed{"response_format", "text.format"},
    Renamed{"verbosity", "text.verbosity"},
};
constexpr std::array kOllama = {
    Renamed{"max_tokens", "options.num_predict"},
    Renamed{"repetition_penalty", "options.repeat_penalty"},
    Renamed{"response_format", "format"},
    Renamed{"chat_template_kwargs", "think"},
    Renamed{"reasoning_effort", "think"},
};

std::span<const Renamed> names_of(Dialect dialect) {
  switch (dialect) {
    case Dialect::kAnthropic: return kAnthropic;
    case Dialect::kResponses: return kResponses;
    default: return kOllama;
  }
}

// The error of a chat, with the dialect's name of the field.
ApiError renamed(ApiError error, Dialect dialect) {
  if (!error.param) return error;
  for (const Renamed& each : names_of(dialect)) {
    if (!error.param->starts_with(each.chat)) continue;
    const std::string rest = error.param->substr(each.chat.size());
    if (!rest.empty() && rest[0] != '.' && rest[0] != '[') continue;
    const std::string own = std::string(each.own) + rest;
    const std::size_t at = error.message.find("'" + *error.param + "'");
    if (at != std::string::npos) error.message.replace(at + 1, error.param->size(), own);
    error.param = own;
    return error;
  }
  return error;
}

ApiResult<TranslatedBody> translate_body(Dialect dialect, const Json& body, bool counts) {
  if (!body.is_object()) return ApiError::invalid("the body must be a JSON object");
  if (dialect == Dialect::kAnthropic) return translate_anthropic(body, counts);
  if (dialect == Dialect::kResponses) return translate_responses(body);
  return translate_ollama(body, dialect == Dialect::kOllama);
}

}  // namespace

void copy_others(const Json& from, std::initializer_list<std::string_view> known, Json& to) {
  const Json own = to;  // few members, whatever the body has
  for (const auto& [key, value] : from.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    if (own.contains(key)) {
      to[key] = value;
    } else {
      append_member(to, key, value);
    }
  }
}

Json text_part(std::string text) { return {{"type", "text"}, {"text", std::move(text)}}; }

Json schema_format(const Json& schema, const Json& name, const Json& strict) {
  Json inner = {{"name", name.is_null() ? Json("answer") : name}, {"schema", schema}};
  if (!strict.is_null()) inner["strict"] = strict;
  return {{"type", "json_schema"}, {"json_schema", std::move(inner)}};
}

ApiResult<TranslatedRequest> translate_request(Dialect dialect, const Json& body,
                                               const ModelBounds& bounds, bool counts) {
  INVARIANT(dialect != Dialect::kOpenAi, "bodies of OpenAI's chats are parsed as they are");
  TRY(TranslatedBody translated, translate_body(dialect, body, counts));
  TranslatedRequest out;
  out.only_loads = translated.only_loads;
  out.unloads = translated.unloads;
  out.frame = std::move(translated.frame);
  if (out.only_loads) {
    const auto model = translated.body.find("model");
    if (model != translated.body.end() && model->is_string()) out.request.model = *model;
    return out;
  }
  const auto parse = translated.chat ? parse_chat_request : parse_completion_request;
  auto request = parse(translated.body, bounds);
  if (!request.ok()) return renamed(request.error(), dialect);
  if (request->n != 1) {
    return ApiError::not_supported("'n' other than 1 is not supported by this route", "n");
  }
  out.request = *std::move(request);
  return out;
}

}  // namespace hearth::coordinator::http
