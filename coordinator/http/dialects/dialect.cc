#include "coordinator/http/dialects/dialect.h"

#include "coordinator/http/openai/json.h"

namespace hearth::coordinator::http {
namespace {

constexpr unsigned kUnavailable = 503;
constexpr unsigned kOverloaded = 529;

const char* anthropic_type(unsigned status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 504: return "timeout_error";
    case kOverloaded: return "overloaded_error";
    default: return status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

unsigned status_of(const ApiError& error, Dialect dialect) {
  const bool overloaded = dialect == Dialect::kAnthropic && error.status == kUnavailable;
  return overloaded ? kOverloaded : error.status;
}

std::string error_body(const ApiError& error, Dialect dialect) {
  switch (dialect) {
    case Dialect::kAnthropic:
      return dump(
          {{"type", "error"},
           {"error",
            {{"type", anthropic_type(status_of(error, dialect))}, {"message", error.message}}}});
    case Dialect::kOllama:
    case Dialect::kOllamaGenerate: return dump({{"error", error.message}});
    case Dialect::kOpenAi:
    case Dialect::kResponses: break;
  }
  return error_body(error);
}

}  // namespace hearth::coordinator::http
