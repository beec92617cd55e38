#include "coordinator/http/api/api.h"

#include <spdlog/fmt/fmt.h>

namespace hearth::coordinator::http {

std::string wait_text(std::uint32_t seconds) {
  constexpr std::uint32_t kMinute = 60;
  if (seconds == 1) return "about 1 second";
  if (seconds < 2 * kMinute) return fmt::format("about {} seconds", seconds);
  return fmt::format("about {} minutes", (seconds + kMinute - 1) / kMinute);
}

std::optional<ApiError> check_model(const Api& api, const std::string& name, Dialect dialect) {
  if (name.empty() || name == api.model.id) return std::nullopt;
  const bool ollama = dialect == Dialect::kOllama || dialect == Dialect::kOllamaGenerate;
  if (ollama && name == api.model.id + ":latest") return std::nullopt;
  return ApiError::not_found(
      fmt::format("the model '{}' is not served here; this swarm serves '{}'",
                  valid_utf8(name.substr(0, 128)), api.model.id),
      "model_not_found");
}

std::string new_request_id(Random& random) { return fmt::format("req-{:016x}", random.next()); }

ApiError silent_coordinator(std::uint32_t seconds) {
  return from_coordinator(
      {ErrorCode::kUnavailable,
       fmt::format("the coordinator did not answer the API within {} s; retry later", seconds)},
      1, "coordinator_silent");
}

ApiError too_many_connections() {
  return from_coordinator(
      {ErrorCode::kNoCapacity,
       fmt::format("too many connections: all {} of the API are in use; retry later",
                   limits::kHttpConnections)},
      1, "too_many_connections");
}

HttpResponse error_response(const ApiError& error, Dialect dialect) {
  HttpResponse out{status_of(error, dialect), error_body(error, dialect)};
  if (error.retry_after)
    out.headers.emplace_back("Retry-After", std::to_string(*error.retry_after));
  if (error.status == 401) out.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"hearth\"");
  if (error.final) out.headers.emplace_back("x-should-retry", "false");
  return out;
}

}  // namespace hearth::coordinator::http
