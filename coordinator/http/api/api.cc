#include "coordinator/http/api/api.h"

#include <cstdio>

namespace hearth::coordinator::http {

std::string wait_text(std::uint32_t seconds) {
  constexpr std::uint32_t kMinute = 60;
  if (seconds == 1) return "about 1 second";
  if (seconds < 2 * kMinute) return "about " + std::to_string(seconds) + " seconds";
  return "about " + std::to_string((seconds + kMinute - 1) / kMinute) + " minutes";
}

std::optional<ApiError> check_model(const Api& api, const std::string& name) {
  if (name == api.model.id) return std::nullopt;
  return ApiError::not_found("the model '" + valid_utf8(name.substr(0, 128)) +
                                 "' is not served here; this swarm serves '" + api.model.id + "'",
                             "model_not_found");
}

std::string new_request_id(Random& random) {
  char id[24];
  std::snprintf(id, sizeof id, "req-%016llx", static_cast<unsigned long long>(random.next()));
  return id;
}

ApiError silent_coordinator(std::uint32_t seconds) {
  ApiError error = from_coordinator({ErrorCode::kUnavailable, "the coordinator did not answer in " +
                                                                  std::to_string(seconds) + " s"},
                                    1);
  error.code = "coordinator_silent";
  return error;
}

ApiError too_many_connections() {
  ApiError error =
      from_coordinator({ErrorCode::kNoCapacity, "all " + std::to_string(limits::kHttpConnections) +
                                                    " connections are in use"},
                       1);
  error.code = "too_many_connections";
  return error;
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse out;
  out.status = error.status;
  out.body = error_body(error);
  if (error.retry_after)
    out.headers.emplace_back("Retry-After", std::to_string(*error.retry_after));
  if (error.status == 401) out.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"hearth\"");
  if (error.final) out.headers.emplace_back("x-should-retry", "false");
  return out;
}

HttpResponse json_response(const std::string& body) {
  HttpResponse out;
  out.body = body;
  return out;
}

}  // namespace hearth::coordinator::http
