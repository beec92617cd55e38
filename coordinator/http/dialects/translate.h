// Translates bodies of other dialects into bodies of OpenAI's chat completions and completions,
// which parse_chat_request() and parse_completion_request() check. So one parser decides what is
// allowed. A field that a dialect does not define has OpenAI's meaning: Hearth's own fields work in
// every dialect, and what is not supported is refused by the same list. Errors name the dialect's
// fields. Pure functions that never throw.
#pragma once

#include <string>

#include "coordinator/http/dialects/dialect.h"
#include "coordinator/http/openai/requests.h"

namespace hearth::coordinator::http {

struct TranslatedRequest {
  GenerationRequest request;
  OrderedJson frame = {};   // AnswerStart::frame
  bool only_loads = false;  // Ollama: a request without a prompt, which only loads the model
  bool unloads = false;     // likewise, with keep_alive 0: asks to unload the model
};

// The request in a body of a dialect other than kOpenAi. `counts`: the body only asks for the
// number of its prompt's tokens, so fields that an answer requires may be absent.
ApiResult<TranslatedRequest> translate_request(Dialect dialect, const Json& body,
                                               const ModelBounds& bounds, bool counts = false);

// The body that a dialect's translation gives; translate_request() parses it.
struct TranslatedBody {
  Json body = Json::object();  // of a chat, or of a completion
  bool chat = true;
  OrderedJson frame = {};
  bool only_loads = false;
  bool unloads = false;
};
// Translates a body of Ollama's /api/embed; `one`: of /api/embeddings, which has a prompt in place
// of inputs.
ApiResult<TranslatedRequest> translate_ollama_embed(const Json& body, bool one,
                                                    const ModelBounds& bounds);
ApiResult<TranslatedBody> translate_anthropic(const Json& body, bool counts);
ApiResult<TranslatedBody> translate_responses(const Json& body);
ApiResult<TranslatedBody> translate_ollama(const Json& body, bool chat);

class FieldReader;
// Copies the fields of `from` that are not in `known`.
void copy_others(const Json& from, std::initializer_list<std::string_view> known, Json& to);
// {"type": "text", "text": ...}, as a chat has it.
Json text_part(std::string text);
// {"type": "json_schema", ...} of a chat.
Json schema_format(const Json& schema, const Json& name, const Json& strict);

}  // namespace hearth::coordinator::http
