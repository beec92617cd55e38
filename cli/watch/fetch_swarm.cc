// GET /api/v1/state of a server.
#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/api_client.h"
#include "cli/command/server_option.h"
#include "cli/swarm_view.h"

namespace hearth::cli {

Result<SwarmAnswer> fetch_swarm(HttpClient& http, const std::string& api_base,
                                const std::string& api_key) {
  HttpClient::Options options;
  options.timeout = std::chrono::seconds(5);
  options.headers = api_headers(api_key);
  const std::string url = api_base + "/api/v1/state";
  auto reply = http.get(url, options);
  if (!reply.ok()) {
    Error error = std::move(reply).error();
    if (error.code == ErrorCode::kUnavailable) {
      error.message = "no server at " + api_base + "; " + no_server_step();
    }
    return error;
  }
  for (const int said : {401, 403, 429, 503}) {
    if (reply->status == said) return api_error(*reply, url);
  }
  const auto state = nlohmann::json::parse(reply->body, nullptr, false);
  if (reply->status != 200 || !state.is_object()) {
    return Error{ErrorCode::kUnavailable, api_base + " is no Hearth server (it answers " +
                                              std::to_string(reply->status) + ")"};
  }
  SwarmAnswer answer;
  TRY(answer.view, read_swarm_view(reply->body));
  answer.json = state.dump();
  return answer;
}

}  // namespace hearth::cli
