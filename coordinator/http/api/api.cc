#include "coordinator/http/api/api.h"

#include <spdlog/fmt/fmt.h>

namespace hearth::coordinator::http {

std::string wait_text(std::uint32_t seconds) {
  constexpr std::uint32_t kMinute = 60;
  if (seconds == 1) return "about 1 second";
  if (seconds < 2 * kMinute) return fmt::format("about {} seconds", seconds);
  return fmt::format("about {} minutes", (seconds + kMinute - 1) / kMinute);
}

namespace {

constexpr std::string_view kLatest = ":latest";

// A key that may use no model gets the first one here, and is then refused.
const ServedModel& unnamed(const Api& api, const HttpRequest& http) {
  const std::vector<ServedModel>& all = api.models.all();
  const auto found =
      std::ranges::find_if(all, [&](const ServedModel& each) { return http.may_use(each.id); });
  return found != all.end() ? *found : api.model;
}

const ServedModel* named(const Api& api, std::string_view name, const HttpRequest& http) {
  if (name.empty()) return &unnamed(api, http);
  const ServedModel* found = api.models.named(name);
  const bool ollama = http.dialect == Dialect::kOllama || http.dialect == Dialect::kOllamaGenerate;
  if (found != nullptr || !ollama || !name.ends_with(kLatest)) return found;
  return api.models.named(name.substr(0, name.size() - kLatest.size()));
}

}  // namespace

ApiResult<const ServedModel*> find_model(const Api& api, const HttpRequest& http,
                                         const std::string& name) {
  const ServedModel* found = named(api, name, http);
  if (found == nullptr) {
    std::string served;
    for (const std::string& each : api.models.names()) {
      if (http.may_use(each)) served += (served.empty() ? "'" : ", '") + each + "'";
    }
    return ApiError::not_found(
        fmt::format("the model '{}' is not served here; this swarm serves {}",
                    valid_utf8(name.substr(0, 128)), served),
        "model_not_found");
  }
  if (!http.may_use(found->id)) return model_not_allowed(found->id);
  return found;
}

const ServedModel& model_to_parse(const Api& api, const Json& body, const HttpRequest& http) {
  if (!body.is_object()) return api.model;
  const auto name = body.find("model");
  const bool is_named = name != body.end() && name->is_string();
  const ServedModel* found =
      named(api, is_named ? name->get_ref<const std::string&>() : std::string(), http);
  return found != nullptr ? *found : api.model;
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
