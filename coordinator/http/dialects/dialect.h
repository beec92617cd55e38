// Dialect: the API that a route implements. It decides how a body is read, how an answer and its
// events look, and which shape an error has. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/http/openai/errors.h"

namespace hearth::coordinator::http {

enum class Dialect : std::uint8_t {
  kOpenAi,          // chat completions, completions and Hearth's own routes
  kResponses,       // OpenAI's POST /v1/responses
  kAnthropic,       // POST /v1/messages
  kOllama,          // /api/chat and the routes beside it
  kOllamaGenerate,  // POST /api/generate
};

// The status that clients of the dialect expect. Clients of Anthropic back off at 529, others at
// 503.
unsigned status_of(const ApiError& error, Dialect dialect);
// JSON: {"error": {message, type, param, code}} of OpenAI, {"type": "error", "error": {type,
// message}} of Anthropic, {"error": message} of Ollama.
std::string error_body(const ApiError& error, Dialect dialect);

}  // namespace hearth::coordinator::http
